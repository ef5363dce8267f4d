"""How a check chooses its pairs: fresh, in random order, exchanged in stage two, and after a stop.

``next`` and ``conclude`` are pure, so made-up workers replace real ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from helpers.pair_factories import CELLS, PACKAGES, Workers, carry_out, pairs_plan
from helpers.record_factories import add_record, make_cell, make_failure, new_results_file
from hypothesis import given
from hypothesis import strategies as st

from envbench.cli.progress import Display
from envbench.engine import resume
from envbench.engine.campaign import Experiment
from envbench.engine.resume import Recorded, differences, find
from envbench.experiments import pairs
from envbench.experiments.check.stages import CheckExperiment
from envbench.experiments.noise import NoiseExperiment
from envbench.model import ArmFact, Behaviour, Block, BlockRecord, EndedRecord, PairsDesign, Plan

CHECK = CheckExperiment()


def verdicts(plan: Plan, done: list[BlockRecord]) -> list[str]:
    return [each.verdict for each in CHECK.conclude(plan, done, {})]


def test_both_of_a_pair_do_the_same_on_one_core_and_every_pair_is_fresh() -> None:
    plan, workers = pairs_plan(cores=[2, 3, 5]), Workers(slower=1.2)
    carry_out(CHECK, plan, workers)
    assert len(workers.blocks) == 2 * 2 * 8  # cells, stages, pairs
    for block in workers.blocks:
        ours, theirs = block.trials
        assert ours == msgspec.structs.replace(theirs, arm=ours.arm)  # seed, protocol, cores
        assert {ours.arm, theirs.arm} == {"baseline", "candidate"}
        assert block.programme.equal_calls
    for cell in CELLS:
        seeds = [block.trials[0].seed for block in workers.blocks if block.trials[0].cell == cell]
        assert len(set(seeds)) == len(seeds) == 16  # stage two has none of stage one's
    for cell in CELLS:
        cores = [block.trials[0].cpus for block in workers.blocks if block.trials[0].cell == cell]
        assert cores == [[(2, 3, 5)[number % 3]] for number in [*range(8), *range(8)]]


@pytest.mark.parametrize(("backend", "cores"), [("for-loop", 1), ("subprocess", 0),
                                                ("envpool-sync", 0), ("brax", 0)])  # fmt: skip
def test_only_a_single_threaded_backend_is_pinned_to_one_core(backend: str, cores: int) -> None:
    plan = pairs_plan([make_cell(backend, 4)], cores=[4, 5])
    block = CHECK.next(plan, [])
    assert block is not None
    assert {len(trial.cpus) for trial in block.trials} == {cores}


def test_both_processes_start_at_the_same_time_only_if_one_thread_does_the_start() -> None:
    def start(backend: str, **given: Any) -> str:
        plan = pairs_plan([make_cell(backend, 4)], **given)
        block = CHECK.next(plan, [])
        assert block is not None
        return block.programme.start

    for backend in ("for-loop", "subprocess", "brax", "envpool-numa"):
        assert start(backend, cores=[0, 1], quota=None) == "alternately"
    assert start("envpool-sync", cores=[0, 1], quota=None) == "at once"
    assert start("envpool-sync", cores=[0, 1], quota=2.0) == "at once"
    assert start("envpool-sync", cores=[0, 1], quota=1.5) == "alternately"
    assert start("envpool-sync", cores=[0], quota=None) == "alternately"
    assert start("envpool-sync", cores=[], quota=None) == "alternately"


def test_the_machines_noise_cancels_out_within_a_pair() -> None:
    plan = pairs_plan()
    for found in CHECK.conclude(plan, carry_out(CHECK, plan, Workers()), {}):
        assert found.verdict == "PASS"
        assert found.stages[0]["steps"].spread < 0.001


def test_a_cell_with_an_alarm_is_measured_again_with_the_arms_exchanged() -> None:
    plan, workers = pairs_plan(), Workers(slower=1.2)
    done = carry_out(CHECK, plan, workers)
    assert verdicts(plan, done) == ["REGRESSION"] * 2
    # The first trial sets the pace.
    firsts = [(block.stage, block.trials[0].arm) for block in workers.blocks]
    assert firsts == [(1, "baseline")] * 16 + [(2, "candidate")] * 16
    for record in done:
        ours, theirs = (pairs.trial_of(record, arm) for arm in ("baseline", "candidate"))
        assert theirs.measured.ns > ours.measured.ns


def test_only_the_cells_with_an_alarm_are_measured_again() -> None:
    class OneSlower(Workers):
        def trial(self, trial: Any, *more: Any) -> Any:
            self.slower = 1.2 if trial.cell == CELLS[1] else 1.0
            return super().trial(trial, *more)

    plan, workers = pairs_plan(), OneSlower()
    done = carry_out(CHECK, plan, workers)
    assert {block.trials[0].cell.key for block in workers.blocks if block.stage == 2} == {
        CELLS[1].key
    }
    assert len(workers.blocks) == 16 + 8
    assert verdicts(plan, done) == ["PASS", "REGRESSION"]


def test_each_alarm_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    plan, workers, lines = pairs_plan(), Workers(slower=1.2), Display()
    carry_out(CHECK, plan, workers)
    lines.began(CHECK, plan, [], [])
    for block in workers.blocks:
        lines.block_began(block)
    lines = [line for line in capsys.readouterr().err.splitlines() if "an alarm" in line]
    assert len(lines) == len(CELLS)
    assert all(line.endswith("Repeating with fresh pairs.") for line in lines)


def test_an_alarm_that_only_the_first_stage_saw_does_not_count() -> None:
    class Passing(Workers):
        def __call__(self, plan: Plan, block: Block) -> BlockRecord:
            self.slower = 1.2 if block.stage == 1 else 1.0
            return super().__call__(plan, block)

    plan = pairs_plan()
    found = CHECK.conclude(plan, carry_out(CHECK, plan, Passing()), {})
    assert [(each.verdict, len(each.stages)) for each in found] == [("PASS", 2)] * 2


def test_rounds_and_turns_are_in_random_order() -> None:
    plan, workers = pairs_plan(), Workers(slower=1.2)
    carry_out(CHECK, plan, workers)
    for stage in (1, 2):
        rounds = [block.round for block in workers.blocks if block.stage == stage]
        assert rounds == sorted([*range(8), *range(8)])  # every cell one pair per round
    firsts = [block.trials[0].cell.numenv for block in workers.blocks[::2]]
    assert set(firsts) == {2, 4}  # now one cell begins a round, now the other
    turns = [block.programme.turns for block in workers.blocks]
    assert {each[0] for each in turns} == {0, 1}
    quads = (0, 1, 1, 0), (1, 0, 0, 1)
    assert {tuple(each) for each in turns} == {(*a, *b) for a in quads for b in quads}


def test_a_pair_makes_resets_after_its_steps() -> None:
    block = CHECK.next(pairs_plan(), [])
    assert block is not None
    assert block.programme.reset_turns == block.programme.turns[: pairs.RESET_SLICES]
    assert block.programme.lead_in_s == []


# ---------------------------------------------------------------- fixed sizes, and no peeking


@pytest.mark.parametrize("slower", [0.5, 1.0, 1.02, 3.0])
def test_the_number_of_pairs_does_not_depend_on_their_results(slower: float) -> None:
    plan, workers = pairs_plan(), Workers(slower)
    done = carry_out(CHECK, plan, workers)
    alarmed = slower > 1.01
    assert len(done) == (32 if alarmed else 16)
    seconds = [index for index, block in enumerate(workers.blocks) if block.stage == 2]
    assert seconds == ([*range(16, 32)] if alarmed else [])


def test_stage_two_waits_until_every_cell_has_its_first_stage() -> None:
    plan = pairs_plan()
    done = carry_out(CHECK, plan, Workers(slower=1.2), most=16)
    own = [each for each in done if pairs.cell_of(each) == CELLS[0]]
    assert len(own) == 8  # one cell is complete, with an alarm; the other has no pair yet
    block = CHECK.next(plan, own)
    assert block is not None
    assert (block.stage, block.trials[0].cell) == (1, CELLS[1])
    assert {stage for stage, _, _ in CHECK.remaining(plan, own)} == {1}
    assert {stage for stage, _, _ in CHECK.remaining(plan, done)} == {2}


def test_no_verdict_ends_a_stage_early() -> None:
    plan = pairs_plan()
    for made in range(16):
        done = carry_out(CHECK, plan, Workers(slower=5.0), most=made)
        assert CHECK.left(plan, done) == 16 - made
        assert CHECK.next(plan, done).stage == 1  # type: ignore[union-attr]
        found = CHECK.conclude(plan, done, {})  # of a check that was stopped there
        own = [[pairs.cell_of(each) for each in done].count(cell) for cell in CELLS]
        assert [bool(each.stages) for each in found] == [count == 8 for count in own]
        assert {each.verdict for each in found} == {"INCONCLUSIVE"}


# ---------------------------------------------------------------- after a stop


def identity(done: list[BlockRecord]) -> list[tuple[Any, ...]]:
    return [
        (each.stage, each.round, each.turns, [(t.arm, t.cell.key, t.seed, t.cpus) for t in
                                              each.trials])
        for each in done
    ]  # fmt: skip


WHOLE = {
    slower: carry_out(CHECK, pairs_plan(), Workers(slower)) for slower in (1.0, 1.2)
}  # the pairs of a check that was never stopped


@given(slower=st.sampled_from([1.0, 1.2]), made=st.integers(0, 32), chance=st.randoms())
def test_a_resume_from_any_point_makes_the_same_blocks(
    slower: float, made: int, chance: Any
) -> None:
    plan, whole = pairs_plan(), WHOLE[slower]
    before = whole[:made]
    rest = Workers(slower)
    done = carry_out(CHECK, plan, rest, before)
    assert len(rest.blocks) == len(whole) - len(before)  # no pair is made twice
    assert identity(done) == identity(whole)
    assert CHECK.conclude(plan, done, {}) == CHECK.conclude(plan, whole, {})
    # The next block does not depend on the order of the records.
    mixed = chance.sample(before, len(before))
    assert CHECK.next(plan, mixed) == CHECK.next(plan, before)
    assert CHECK.left(plan, mixed) == CHECK.left(plan, before)


@given(slower=st.sampled_from([1.0, 1.2]), made=st.integers(0, 32))
def test_next_and_conclude_are_pure(slower: float, made: int) -> None:
    plan, done = pairs_plan(), WHOLE[slower][:made]
    frozen = msgspec.json.encode([plan, done])
    first = CHECK.next(plan, done)
    assert CHECK.conclude(plan, done, {}) == CHECK.conclude(plan, done, {})
    assert CHECK.next(plan, done) == CheckExperiment().next(plan, done) == first
    assert msgspec.json.encode([plan, done]) == frozen


def test_a_broken_cell_is_complete_and_is_not_measured_again() -> None:
    plan, workers = pairs_plan(), Workers(failing=make_failure())
    done = carry_out(CHECK, plan, workers)
    assert verdicts(plan, done) == ["BROKEN"] * 2
    assert len(workers.blocks) == 2
    assert CHECK.left(plan, done) == 0


def test_the_other_cells_continue_when_one_is_broken() -> None:
    class OneFails(Workers):
        def trial(self, trial: Any, *more: Any) -> Any:
            self.failing = make_failure() if trial.cell == CELLS[0] else None
            return super().trial(trial, *more)

    plan, workers = pairs_plan(), OneFails(slower=1.2)
    assert verdicts(plan, carry_out(CHECK, plan, workers)) == ["BROKEN", "REGRESSION"]
    assert len(workers.blocks) == 1 + 16


# ---------------------------------------------------------------- the plan to resume


def stored(folder: Path, plan: Plan, most: int = 10_000) -> Path:
    """A results file of a check that was stopped after some pairs."""
    path = new_results_file(folder, "m", plan.started_utc)
    for record in [PACKAGES, plan, *carry_out(CHECK, plan, Workers(), most=most)]:
        add_record(path, record)
    return path


def unfinished(folder: Path, machine: str, plan: Plan) -> Recorded | None:
    found = find(resume.recorded(folder, machine), plan, CHECK)
    return found[0] if found and not found[1] else None


def test_an_unfinished_check_is_found_by_its_request(tmp_path: Path) -> None:
    path = stored(tmp_path, pairs_plan(), most=5)
    again = pairs_plan(plan_id="another", started_utc="2026-02-02T00-00-00Z", command=["x"])
    found = unfinished(tmp_path, "m", again)
    assert found is not None
    assert (found.path, found.plan.plan_id, len(found.done)) == (path, "plan", 5)
    narrow = pairs_plan().design
    assert isinstance(narrow, PairsDesign)
    assert narrow.rule is not None
    rule = msgspec.structs.replace(narrow.rule, margin=0.02)
    for other in (
        pairs_plan(seed=4),
        pairs_plan(rule=rule),
        pairs_plan(pairs=9),
        pairs_plan(CELLS[:1]),
        pairs_plan(spec="asked for something else"),
    ):
        assert unfinished(tmp_path, "m", other) is None
    newer = [ArmFact(name="baseline", source="old"), ArmFact(name="candidate", source="newer")]
    assert unfinished(tmp_path, "m", pairs_plan(arms=newer)) is None
    assert unfinished(tmp_path, "elsewhere", again) is None


def test_a_finished_check_is_measured_afresh(tmp_path: Path) -> None:
    path = stored(tmp_path, pairs_plan())
    again = pairs_plan(plan_id="another")
    assert unfinished(tmp_path, "m", again) is not None  # its verdict was not shown yet
    shown = EndedRecord(plan_id=pairs_plan().plan_id, how="concluded", ended_utc="now")
    add_record(path, shown)
    assert unfinished(tmp_path, "m", again) is None


def test_a_changed_plan_is_not_resumed_and_the_change_is_named() -> None:
    def changed(**given: Any) -> list[str]:
        return differences(pairs_plan(), pairs_plan(plan_id="another", **given))

    old = pairs_plan()
    assert changed() == []
    assert changed(fingerprint="g") == ["the machine"]
    assert changed(cores=[0]) == ["the CPUs that may be used"]
    code = {**old.code, "candidate/for-loop/atari/step/measure": "x"}
    assert changed(code=code) == ["envbench's code for candidate/for-loop/atari/step"]
    arm = "candidate/for-loop/atari/step"
    assert changed(places={**old.places, arm: "x"}) == [f"the interpreter or source of {arm}"]
    assert changed(imports={**old.imports, arm: "x"}) == [f"the code that {arm} may import"]
    assert changed(runtimes={**old.runtimes, arm: "r"}) == [f"the packages or Python of {arm}"]
    assert changed(pairs=9) == ["the number of pairs"]


def test_an_experiment_needs_only_next_and_conclude() -> None:
    """``doctor``'s own experiment uses the same loop."""
    plan = pairs_plan(CELLS[:1], pairs=6, experiment="noise", behaviour={"for-loop": Behaviour()})
    noise: Experiment[Any] = NoiseExperiment()
    workers = Workers()
    done = carry_out(noise, plan, workers)
    assert [block.round for block in workers.blocks] == [*range(6)]
    assert {tuple(trial.arm for trial in block.trials) for block in workers.blocks} == {("a", "b")}
    assert noise.left(plan, done) == 0
    found = noise.conclude(plan, done, {})
    assert found.stage.pairs == 6
    assert noise.conclude(plan, done[:1], {}) is None
