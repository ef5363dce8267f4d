"""Pure: do a backend's steps agree with what the reference predicted? In words.

An ``Agreement`` has the distances; the ``Standard`` of the family says how large they may be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from envbench.families import Standard
from envbench.families.family import NO_NUMBER
from envbench.model import Agreement, Apart
from envbench.text import counted, listed

MOST_NAMED = 3  # environments whose steps differ
LEAST_P = 1e-4  # for two samples of episodes to count as one distribution
MOST_OTHER_ACTIONS = 0.03  # of a Kolmogorov-Smirnov statistic; constant actions have about 0.5
MOST_RELATED_ACTIONS = 0.1  # of a correlation; actions that are repeated once have 0.5
LEAST_START_P = 1e-4  # for their first observations; 20 tests of seven backends accuse none
OVERWRITES = "its steps overwrite the results that the steps before them returned"


def compared(standard: Standard, found: Agreement) -> tuple[bool | None, str]:
    """Do the steps agree, or are the episodes alike? None: too few to decide.

    Where every step has to agree, a few that differ are enough.
    """
    usual, standard = standard, standard.of(same_engine=found.same_engine, rounded=found.rounded)
    by_usual = standard is usual
    if standard.agreeing < 1 and any(each.p97 is None for each in found.observations):
        standard = msgspec.structs.replace(standard, agreeing=0.9)  # a record of an older version
    shape = "" if found.other_shape is None else _other_shape(found.other_shape)
    if shape and not (found.steps or found.ends):
        return False, f"{shape}: its steps cannot be compared"
    if standard.episodes:
        same, text = _episodes(standard, found)
        return (False, f"{shape}; {text}") if shape else (same, text)
    few = found.steps < standard.steps
    too_few = f"compared for {found.steps} steps only (required: {standard.steps})"
    if few and standard.agreeing < 1:
        return None, too_few
    unit = f" {standard.unit}" if standard.unit else ""
    elsewhere = f"episodes begin where the reference's cannot: {found.start:.2g}{unit} apart"
    wrong = [shape] if shape else []
    if found.reused:
        wrong.append(OVERWRITES)
    if _never_followed(standard, found):
        return False, "; ".join([*wrong, f"{elsewhere}, and no step could be compared"])
    apart, reward = standard.apart(found.observations), standard.apart(found.rewards)
    if apart > standard.tolerance:
        # The usual rule found the first difference. Where a few steps may differ, it shows nothing.
        known = standard.agreeing == 1 and (by_usual or apart > usual.tolerance)
        first = found.first_difference if known else None
        more = "" if by_usual else f" by more than {usual.tolerance:g}{unit}"
        since = "" if first is None or first < 0 else f"{more} from step {first + 1} on"
        how_far = f"{_amount(apart)}{unit}{standard.in_how_many_steps}"
        wrong.append(f"differs{since}, by {how_far}{_where(standard, found.observations)}")
    grown = found.in_calls or 0.0  # older records have it in ``apart``
    in_calls = standard.tolerance if standard.in_calls is None else standard.in_calls
    if grown >= NO_NUMBER or (standard.agreeing == 1 and grown > in_calls):
        wrong.append(f"differs by {_amount(grown)}{unit} after calls of several steps")
    elif standard.agreeing < 1 and (found.longer or 0.0) > standard.tolerance:
        wrong.append(f"differs by {found.longer:.2g}{unit} after calls of several steps")
    beside = 0.0 if found.rounded or not found.same_engine else found.beside or 0.0
    if standard.beside is not None and beside > standard.beside:
        wrong.append(f"differs by {_amount(beside)} in the numbers that follow the state")
    if reward > standard.reward_tolerance:
        wrong.append(f"differs by {_amount(reward)} in the reward{standard.in_how_many_steps}")
    if found.other_ends > standard.other_ends(found.ends + found.reference_ends):
        every = f"{found.ends} of its episodes and {found.reference_ends} of the reference's end"
        alike = found.ends == found.reference_ends
        how = "in another step or for another reason" if alike else "on one side only"
        wrong.append(f"{every}, {found.other_ends} {how}")
    if found.not_reset > standard.not_reset(found.within) and not apart > standard.tolerance:
        every = f"{counted(found.within, 'episode')} of the reference's"
        is_not = "is" if found.not_reset == 1 else "are"
        wrong.append(f"{every} end within a call, and {found.not_reset} {is_not} not reset there")
    if found.other_limits:
        wrong.append("episodes that reach their time limit end differently from the reference's")
    if found.start > standard.tolerance:
        wrong.append(elsewhere)
    elif (chance := found.p_values.get("start", 1.0)) < LEAST_START_P:
        wrong.append(f"its episodes begin differently from the reference's (p = {chance:.2g})")
    elif (chance := found.p_values.get("automatic start", 1.0)) < LEAST_START_P:
        after = "after the end of another, its episodes begin differently from the reference's"
        wrong.append(f"{after} (p = {chance:.2g})")
    if found.hollow:
        wrong.append("the numbers that it reports beside the state are all zero")
    if (found.actions_apart or 0.0) > MOST_OTHER_ACTIONS:
        wrong.append("its actions are distributed differently from the requested ones")
    if (found.actions_related or 0.0) > MOST_RELATED_ACTIONS:
        wrong.append("its actions depend on each other: they are not drawn at random")
    if wrong:
        return False, "; ".join(wrong)
    if few:
        return None, too_few
    exactly = "exactly" if apart == 0 else f"within {apart:.2g}{unit}{standard.in_how_many_steps}"
    equal = f"equal {exactly}"
    if reward:
        equal = f"observations {equal}, rewards within {reward:.2g}"
    environments = counted(len(found.observations), "environment")
    each = "" if len(found.observations) == 1 else "each of "
    ends = f"{counted(found.ends, 'episode') if found.ends else 'no episode'} ended"
    ends += f" and {found.within} more within calls of several steps" if found.within else ""
    return True, f"{equal}, in {found.steps:,} steps of {each}{environments}; {ends}"


def _where(standard: Standard, environments: Sequence[Apart]) -> str:
    """In which environments the steps differ; "" if in all of them, or if some steps may differ
    (then a spot check leaves out environments)."""
    differ = [i for i, each in enumerate(environments) if each.largest > standard.tolerance]
    if standard.agreeing < 1 or len(differ) == len(environments):
        return ""
    if len(differ) > MOST_NAMED:
        return f", in {len(differ)} of {len(environments)} environments"
    which = "environment" if len(differ) == 1 else "environments"
    return f", in {which} {listed([*map(str, differ)])} only (of 0 to {len(environments) - 1})"


def _never_followed(standard: Standard, found: Agreement) -> bool:
    """Could the reference not be put into the first states, and is it apart ever since? Then all
    other differences may follow from that. It happens with observations in another unit."""
    if found.first_difference != -1 or not found.observations:
        return False
    return min(each.median for each in found.observations) > standard.tolerance


def _other_shape(shape: Sequence[int]) -> str:
    size = "×".join(map(str, shape)) if shape else "a single number"
    return f"its observations have another shape ({size})"


def _amount(distance: float) -> str:
    return "a value that is not a number" if distance >= NO_NUMBER else f"{distance:.2g}"


def _episodes(standard: Standard, found: Agreement) -> tuple[bool | None, str]:
    ends = f"{found.ends} and {found.reference_ends} episodes"
    if found.reused:
        return False, OVERWRITES
    if (fewest := min(found.ends, found.reference_ends)) < standard.episodes:
        missing = f"compared for {ends} only (required: {standard.episodes})"
        more = f"{math.ceil(standard.episodes / fewest)} times as many" if fewest else "more"
        return None, f"{missing}: verify it with {more} environments (--numenv)"
    chances = ", ".join(f"{name} p = {chance:.2g}" for name, chance in found.p_values.items())
    if all(chance >= LEAST_P for chance in found.p_values.values()):
        return True, f"no difference found in {ends} ({chances}); no single step is compared"
    return False, f"the distributions differ over {ends} ({chances})"
