"""The footnotes of a table: what to know about a few of its entries. Pure.

Each text here is one line of Markdown and safe to print: text from records is escaped. A fact about
all rows is in the note (``note.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from envbench.machine import Profile
from envbench.model import Failure, Fingerprint
from envbench.report.machine_results import MachineResults
from envbench.results.measured_cells import Measured, Verified
from envbench.text import listed, markdown

NO_RECORD = "The results contain no record of this figure."
NO_FIGURE = "No figure"  # how the footnote of a refusal or a failure begins
UNRANKED = "It is not ranked."  # how the footnote of a doubtful figure ends

FLAGS = {
    "quick": "Measured quickly (`--quick`, or under 2 s in all): never ranked.",
    "few-runs": "Fewer than five processes: any ± only compares cells of one session.",
    "one-go": "The only cell of its session: the interval covers minutes, not changes over hours.",
    "no-alternation": "It alternated with no other cell and no reference kernel: it keeps a GPU "
    "busy, or is alone in its block with `--total-step`. Its ratios to other cells contain the "
    "machine's drift.",
    "unsteady": "The speed was not steady when the longest warm-up ended.",
    "no-reset": "At least one process measured no reset, so the cost of resets is not complete.",
    "disturbed": "Most windows were disturbed. All count, except those in which the machine slept.",
    "throttled": "The container's CPU quota throttled it.",
    "steal": "Other virtual machines took CPU time from some of its windows (steal over 5 %).",
    "other-load": "Other programs used over a tenth of the machine's CPU time.",
}

UNREPORTED = ": not reported"
SAME_EPISODES = "same work as the reference, as far as lengths and returns of episodes show"
BADGES = {
    "✓": "same work as the reference",
    "≠": "different work",
    "✗": "refused",
    "–": "not shown to be equal",
}
NEVER = "It was never verified."
# Footnotes that share a letter with no other one begin or end like this.
ALONE = ((NO_FIGURE, BADGES["✗"].capitalize()), (UNRANKED, NEVER))


def of_entry(found: Measured, results: MachineResults) -> list[str]:
    """The footnotes of one entry, in order."""
    verified, profile = results.verified.get(found.label), results.profile
    if verified is not None and found.refused and not verified.refuted:
        return [of_refusal(verified)]
    if found.summary.failure is not None:
        return [of_failure(found.summary.failure)]
    notes = [FLAGS[flag] for flag in found.summary.flags]
    notes += of_doubt(found)
    if found.fingerprint is None and profile is not None and not profile.match.empty:
        notes.append("The hardware of this measurement is not recorded.")
    elif found.fingerprint is not None and elsewhere(found, profile):
        notes.append(f"Not measured on the profile's hardware: {hardware(found.fingerprint)}.")
    return [*notes, *of_other_session(found, results)]


def of_doubt(found: Measured) -> list[str]:
    """Why a figure is shown and not ranked."""
    text = markdown(found.doubt, 400)
    return [f"{text[:1].upper()}{text[1:]}. {UNRANKED}"] if text else []


def of_doubtful_row(row: Sequence[Measured]) -> list[str]:
    """The footnote of a badge if no figure of its row is ranked: that of the first figure."""
    return of_doubt(row[0]) if row and all(found.doubt for found in row) else []


def of_other_session(found: Measured, results: MachineResults) -> list[str]:
    """The footnote of a figure that is not of the table's session."""
    if found.plan_id == results.session or found.fps is None:
        return []
    day = markdown(found.when[:10])
    return [f"Measured in another session ({day}): it is not ranked with the others."]


def of_verification(found: Verified, shared: Collection[str] = ()) -> list[str]:
    """The footnotes of a badge: why it is not ✓, and how the work differs from the family's
    reference settings. ``shared``: differences of all rows, which the note says."""
    verdict = found.verdict
    differences = [each for each in verdict.differences if each not in shared]
    sentences = []
    if verdict.badge != "✓":
        texts = [verdict.audit, verdict.lock_step]
        texts = texts[::-1] if verdict.badge == "≠" or found.refuted else texts
        if verdict.badge == "≠" and texts[0].startswith(("equal", "same", "the reference")):
            texts = ["its settings"]
        reasons = "; ".join(text for text in texts if text).removeprefix("not compared: ")
        sentences.append(f"{BADGES[verdict.badge].capitalize()}: {markdown(reasons, 600)}.")
    silent = [each for each in differences if each.endswith(UNREPORTED)]
    if known := [each for each in differences if each not in silent]:
        sentences.append(f"Other settings: {markdown(', '.join(known), 600)}.")
    if silent:
        names = listed([each.removesuffix(UNREPORTED) for each in silent])
        sentences.append(f"Does not report {markdown(names, 600)}.")
    return [" ".join(sentences)] if sentences else []


def of_refusal(found: Verified) -> str:
    """Why a refused figure is not shown."""
    verdict = found.verdict
    if verdict.miscounts:
        return f"{NO_FIGURE}: its counts are wrong. It {markdown(verdict.audit)}."
    return f"{NO_FIGURE}: {markdown(verdict.lock_step, 600)}."


def of_failure(failure: Failure) -> str:
    """Why an entry is empty."""
    phase = "" if failure.phase == failure.reason else failure.phase.replace("_", " ")
    where = f" in {phase}" if phase else ""
    died = f", {failure.signal}" if failure.signal else ""
    message = markdown(failure.message, 400) or "no reason was given"
    if failure.reason == "invalid-figure":  # the message says what is wrong with it
        return f"{NO_FIGURE}: {message}"
    return f"{NO_FIGURE} ({markdown(f'{failure.reason}{where}{died}', 80)}): {message}"


def elsewhere(found: Measured, profile: Profile | None) -> bool:
    """Whether it was measured on hardware that does not match the profile."""
    if profile is None or found.fingerprint is None:
        return False
    return not profile.match.fits_hardware(found.fingerprint)


def quick(found: Measured) -> tuple[str, ...]:
    """The footnote of a quick figure."""
    return (FLAGS["quick"],) if found.quick else ()


def hardware(found: Fingerprint) -> str:
    """A machine in a few words: CPU, their number, GPUs."""
    whole = found.usable_cpus == found.logical_cpus
    cpus = f"{found.logical_cpus}" if whole else f"{found.usable_cpus} of {found.logical_cpus}"
    words = f"{found.cpu}, {cpus} CPU{'' if cpus == '1' else 's'}"
    return markdown(", ".join([words, *dict.fromkeys(found.gpus)]), 200)
