"""How a check makes its pairs: fresh, paired, in random order, exchanged, and after a stop.

Two made-up workers stand in for real ones, whose pace and orders are known.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_records import make_cell, make_failure, make_windows

from envbench import store
from envbench.check import checking, resuming
from envbench.check.checking import Checker, is_complete
from envbench.check.pairing import Arm
from envbench.check.resuming import Unfinished, differences, unfinished
from envbench.errors import Interrupted
from envbench.model import ArmFact, Cell, Check, Job, Pair, RuntimeFact, Times, digest
from envbench.process.execute import Reply

CELLS = [make_cell("for-loop", 2, machine="m"), make_cell("for-loop", 4, machine="m")]
MS = 1_000_000
PACKAGES = RuntimeFact(
    hash=digest(("3.11", "CPython", {})), python="3.11", implementation="CPython", packages={}
)


def make_check(**given: Any) -> Check:
    values: dict[str, Any] = {
        "check_id": "c", "cells": CELLS, "pairs": 8, "blocks": 2, "slice_s": 0.25, "margin": 0.01,
        "tolerance": 0.05, "cost_tolerance": 0.25, "false_alarm": 0.001, "seed": 3,
        "baseline": ArmFact(source="old", worker="w"), "fingerprint": "f",
        "candidate": ArmFact(source="new", worker="w"), "command": ["envbench", "check"],
        "started_utc": "2026-01-01T00-00-00Z", "envbench_version": "0",
    }  # fmt: skip
    return Check(**{**values, **given})


class Told:
    """Counts what a person would see."""

    def __init__(self) -> None:
        self.total = 0
        self.alarms: list[tuple[Cell, int]] = []

    def started(self, pairs: int) -> None:
        self.total = pairs

    def pair_ended(self, pair: Pair) -> None: ...

    def alarm(self, cell: Cell, pairs: int) -> None:
        self.alarms.append((cell, pairs))


class Workers:
    """Made-up workers; those of the candidate take ``slower`` times as long. ``ends`` after so
    many pairs, as Ctrl-C would."""

    def __init__(self, slower: float = 1.0, ends: int | None = None) -> None:
        self.slower = slower
        self.ends = ends
        self.pairs: list[tuple[tuple[Job, Job], tuple[Arm, Arm], Sequence[int]]] = []

    def __call__(
        self, jobs: tuple[Job, Job], arms: tuple[Arm, Arm], turns: Sequence[int], **_: object
    ) -> tuple[Reply, Reply]:
        if len(self.pairs) == self.ends:
            raise Interrupted(130)
        self.pairs.append((jobs, arms, list(turns)))
        # The machine is now slow, now fast, by a factor of four: both meet it.
        weather = 1 + 3 * (len(self.pairs) % 2) + len(self.pairs) / 1e4
        first, second = (self._reply(arm, weather) for arm in arms)
        return first, second

    def _reply(self, arm: Arm, weather: float) -> Reply:
        slower = self.slower if arm.name == "candidate" else 1.0
        wobble = 1 + (len(self.pairs) % 3) / 2000 if arm.name == "candidate" else 1.0
        ns = int(100 * MS * weather * slower * wobble)
        times = Times(import_ns=MS, build_ns=MS, first_step_ns=MS, warmup_ns=MS, measured_ns=MS)
        return Reply(
            ok=True, python=PACKAGES.python, implementation=PACKAGES.implementation,
            times=times, measured=make_windows([1000] * 4, ns=ns),
        )  # fmt: skip


def checker(
    folder: Path, workers: Workers, monkeypatch: pytest.MonkeyPatch, pairs: Sequence[Pair] = ()
) -> Checker:
    monkeypatch.setattr(checking, "step_in_turn", workers)
    arms = tuple(Arm(name=n, python=n, environment={}) for n in ("baseline", "candidate"))
    sides = {"for-loop": (arms[0], arms[1])}
    return Checker(make_check(), sides, folder / "check.jsonl", Told(), pairs)


def test_both_of_a_pair_do_the_same_on_one_core_and_every_pair_is_fresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = Workers(slower=1.2)
    checker(tmp_path, workers, monkeypatch).carry_out()
    assert len(workers.pairs) == 2 * 2 * 8  # cells, stages, pairs
    for (ours, theirs), _, _ in workers.pairs:
        assert ours == theirs  # seed, actions, cores
    for cell in CELLS:
        jobs = [jobs[0] for jobs, _, _ in workers.pairs if jobs[0].numenv == cell.numenv]
        assert len({job.seed for job in jobs}) == 16  # stage two has none of stage one's
        assert len({job.run_id for job in jobs}) == 16
    cores = {tuple(jobs[0].cpus) for jobs, _, _ in workers.pairs}
    assert cores == {(core,) for core in os.sched_getaffinity(0)}


def test_only_what_starts_in_one_thread_starts_on_a_core_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checking, "quota_cpus", lambda: None)
    several = len(os.sched_getaffinity(0)) > 1
    for backend, at_once in [("for-loop", False), ("subprocess", False), ("brax", False),
                             ("envpool-sync", several)]:  # fmt: skip
        assert checking.starts_at_once(make_cell(backend, 4)) is at_once
    monkeypatch.setattr(checking, "quota_cpus", lambda: 1.5)
    assert not checking.starts_at_once(make_cell("envpool-sync", 4))


def test_the_machines_weather_cancels_out_within_a_pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for found in checker(tmp_path, Workers(), monkeypatch).carry_out():
        assert found.verdict == "PASS"
        assert found.stages[0]["steps"].spread < 0.001


def test_an_alarm_is_tried_again_with_the_arms_exchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = Workers(slower=1.2)
    made = checker(tmp_path, workers, monkeypatch)
    found = made.carry_out()
    assert [each.verdict for each in found] == ["REGRESSION"] * 2
    leads = [arms[0].name for _, arms, _ in workers.pairs]
    assert leads == ["baseline"] * 16 + ["candidate"] * 16
    assert isinstance(made.listener, Told)
    assert made.listener.alarms == [(cell, 8) for cell in CELLS]
    # Its record still says whose slice it was, 0 the baseline's.
    for pair, (_, arms, turns) in zip(made.pairs, workers.pairs, strict=True):
        exchanged = arms[0].name == "candidate"
        assert pair.turns == ([1 - side for side in turns] if exchanged else turns)
        assert pair.candidate.measured.ns > pair.baseline.measured.ns


def test_an_alarm_that_only_the_first_stage_saw_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Passing(Workers):
        def __call__(self, *asked: Any, **more: Any) -> tuple[Reply, Reply]:
            self.slower = 1.2 if len(self.pairs) < 16 else 1.0
            return super().__call__(*asked, **more)

    found = checker(tmp_path, Passing(), monkeypatch).carry_out()
    assert [(each.verdict, len(each.stages)) for each in found] == [("PASS", 2)] * 2


def test_rounds_and_turns_are_in_random_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = Workers()
    checker(tmp_path, workers, monkeypatch).carry_out()
    firsts = [jobs[0].numenv for jobs, _, _ in workers.pairs[::2]]
    assert set(firsts) == {2, 4}  # now the one cell begins a round, now the other
    assert {turns[0] for _, _, turns in workers.pairs} == {0, 1}
    blocks = [tuple(t[k : k + 4]) for _, _, t in workers.pairs for k in range(0, len(t), 4)]
    assert set(blocks) == {(0, 1, 1, 0), (1, 0, 0, 1)}
    assert 0.25 < blocks.count((0, 1, 1, 0)) / len(blocks) < 0.75


# ---------------------------------------------------------------- after a stop


@pytest.mark.parametrize("slower", [1.0, 1.2])
@pytest.mark.parametrize("ends", [0, 1, 7, 15, 16, 17, 30])
def test_a_check_that_was_stopped_makes_what_it_lacks_and_no_pair_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slower: float, ends: int
) -> None:
    whole = checker(tmp_path / "whole", Workers(slower), monkeypatch)
    (tmp_path / "whole").mkdir()
    verdicts = whole.carry_out()
    assert is_complete(whole.check, whole.pairs)
    if ends >= len(whole.pairs):
        return
    stopped = checker(tmp_path, Workers(slower, ends), monkeypatch)
    with pytest.raises(Interrupted):
        stopped.carry_out()
    assert len(stopped.pairs) == ends
    assert not is_complete(stopped.check, stopped.pairs)
    rest = Workers(slower)
    resumed = checker(tmp_path, rest, monkeypatch, stopped.pairs)
    again = resumed.carry_out()
    assert len(rest.pairs) == len(whole.pairs) - ends

    def identity(pairs: list[Pair]) -> list[tuple[int, int, str, int, list[int]]]:
        return [(p.stage, p.number, p.cell.key, p.seed, p.turns) for p in pairs]

    assert identity(resumed.pairs) == identity(whole.pairs)
    assert [each.verdict for each in again] == [each.verdict for each in verdicts]


def test_a_broken_cell_is_complete_and_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dying(Workers):
        def _reply(self, arm: Arm, weather: float) -> Reply:
            return Reply(ok=False, failure=make_failure())

    workers = Dying()
    made = checker(tmp_path, workers, monkeypatch)
    assert {each.verdict for each in made.carry_out()} == {"BROKEN"}
    assert len(workers.pairs) == 2
    assert is_complete(made.check, made.pairs)


def stored(folder: Path, monkeypatch: pytest.MonkeyPatch, ends: int | None, **given: Any) -> Path:
    """A results folder with a check in it that was stopped after so many pairs."""
    path = folder / "m" / "2026-01-01T00-00-00Z.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    store.append(path, make_check(**given))
    made = checker(folder, Workers(ends=ends), monkeypatch)
    made.path = path
    with contextlib.suppress(Interrupted):
        made.carry_out()
    return path


def test_an_unfinished_check_is_found_by_what_it_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stored(tmp_path, monkeypatch, ends=5)
    again = make_check(check_id="another", started_utc="2026-02-02T00-00-00Z", command=["x"])
    found = unfinished(tmp_path, "m", again)
    assert found is not None
    assert (found.path, found.check.check_id, len(found.pairs)) == (path, "c", 5)
    for other in ({"seed": 4}, {"margin": 0.02}, {"pairs": 9}, {"cells": CELLS[:1]}):
        assert unfinished(tmp_path, "m", make_check(**other)) is None
    newer = ArmFact(source="newer", worker="w")
    assert unfinished(tmp_path, "m", make_check(candidate=newer)) is None
    assert unfinished(tmp_path, "elsewhere", again) is None


def test_a_finished_check_is_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(tmp_path, monkeypatch, ends=None)
    assert unfinished(tmp_path, "m", make_check()) is None


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Unfinished:
    """It began just after all that is on its arms' import path was written."""
    now = time.strftime(resuming.campaign.STAMP, time.gmtime(time.time() + 30))
    stored(tmp_path / "results", monkeypatch, ends=5, started_utc=now)
    found = unfinished(tmp_path / "results", "m", make_check(started_utc=now))
    assert found is not None
    (tmp_path / "packages" / "mine").mkdir(parents=True)
    module = tmp_path / "packages" / "mine" / "__init__.py"
    module.write_text("")
    os.utime(module, (time.time() - 3600,) * 2)
    monkeypatch.setattr(resuming, "_import_path", lambda _: [str(tmp_path / "packages")])
    return found


def changed(old: Unfinished, runtime: str = PACKAGES.hash, **given: Any) -> str:
    arms = tuple(Arm(name=n, python=n, environment={}) for n in ("baseline", "candidate"))
    sides = {"for-loop": (arms[0], arms[1])}
    runtimes = {"for-loop": (PACKAGES.hash, runtime)}
    return "; ".join(differences(old, make_check(**given), sides, runtimes))


def test_what_changed_since_is_told_and_nothing_is_mixed(old: Unfinished, tmp_path: Path) -> None:
    assert changed(old) == ""
    assert changed(old, fingerprint="g") == "the machine"
    worker = ArmFact(source="new", worker="x")
    assert changed(old, candidate=worker) == "the candidate's worker code"
    moved = ArmFact(source="old", worker="w", place="another commit's")
    assert changed(old, baseline=moved) == "the baseline is another"
    assert changed(old, runtime="r") == "the packages or Python of the candidate"


def test_code_that_was_edited_meanwhile_is_another_candidate(
    old: Unfinished, tmp_path: Path
) -> None:
    package = tmp_path / "packages" / "mine"
    for harmless in ("results.jsonl", "__pycache__/x.py", ".venv/y.py"):
        path = package / harmless
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
        os.utime(path, (time.time() + 60,) * 2)
    assert changed(old) == ""
    os.utime(package / "__init__.py", (time.time() + 60,) * 2)
    assert str(package / "__init__.py") in changed(old)


def test_the_record_of_an_old_check_is_still_read(tmp_path: Path) -> None:
    whole = msgspec.to_builtins(make_check())
    for side in ("baseline", "candidate"):
        del whole[side]["place"]
    path = tmp_path / "old.jsonl"
    path.write_bytes(msgspec.json.encode({"type": "check", **whole}) + b"\n")
    assert [record for _, record in store.read(path).records] == [make_check()]
