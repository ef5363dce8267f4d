"""The plans of a results folder: which one an id means, and what deleting one removes."""

from __future__ import annotations

import hashlib
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from helpers.record_factories import (
    add_record,
    make_block,
    make_cell,
    make_failure,
    make_plan,
    new_results_file,
)

from envbench.errors import StorageError, UsageError
from envbench.experiments import recorded_plans
from envbench.model import TrialRecord
from envbench.results import store
from envbench.results.store import BY_PRODUCTS, PART, Journal


def product(content: str) -> str:
    return f"{hashlib.sha256(content.encode()).hexdigest()}.npz"


def put(results: Path, plan_id: str, *contents: str) -> Path:
    """A file of one plan with one block, whose trial has these by-products."""
    path = new_results_file(results, "laptop", "2025-11-20T10:00:00Z")
    block = make_block(f"{plan_id}-b", plan_id=plan_id)
    names = {f"trace{n}": name for n, name in enumerate(map(product, contents))}
    trial = msgspec.structs.replace(block.trials[0], by_products=names)
    add_record(path, make_plan([make_cell()], plan_id=plan_id))
    add_record(path, msgspec.structs.replace(block, trials=[trial]))
    folder = path.parent / BY_PRODUCTS
    folder.mkdir(exist_ok=True)
    for name in names.values():
        (folder / name).touch()
    return path


def test_deleting_a_plan_removes_its_file_and_only_the_by_products_of_no_other_plan(
    tmp_path: Path,
) -> None:
    gone, kept = put(tmp_path, "gone", "own", "both"), put(tmp_path, "kept", "both", "theirs")
    folder = gone.parent / BY_PRODUCTS
    removed = recorded_plans.delete(recorded_plans.named(tmp_path, "gone"))
    assert removed == [gone, folder / product("own")]
    assert not gone.exists()
    assert kept.exists()
    assert {path.name for path in folder.iterdir()} == {product("both"), product("theirs")}
    assert [each.plan for each in recorded_plans.listing(tmp_path)[0]] == ["kept"]


def test_a_by_product_that_is_missing_already_does_not_stop_a_deletion(tmp_path: Path) -> None:
    path = put(tmp_path, "gone", "own")
    (path.parent / BY_PRODUCTS / product("own")).unlink()
    recorded_plans.delete(recorded_plans.named(tmp_path, "gone"))
    assert not path.exists()


def test_a_file_of_two_plans_is_refused_and_stays(tmp_path: Path) -> None:
    path = put(tmp_path, "first", "own")
    add_record(path, make_plan([make_cell()], plan_id="second"))
    with pytest.raises(UsageError, match="holds more than one plan"):
        recorded_plans.delete(recorded_plans.named(tmp_path, "first"))
    assert path.exists()
    assert (path.parent / BY_PRODUCTS / product("own")).exists()


def test_what_cannot_be_removed_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = put(tmp_path, "gone", "own")
    stuck = path.parent / BY_PRODUCTS / product("own")
    stuck.unlink()
    stuck.mkdir()
    with pytest.raises(StorageError, match=f"cannot delete .*{stuck.name}"):
        recorded_plans.delete(recorded_plans.named(tmp_path, "gone"))


def test_deleting_the_last_plan_with_by_products_removes_their_folder(tmp_path: Path) -> None:
    path = put(tmp_path, "only", "own")
    recorded_plans.delete(recorded_plans.named(tmp_path, "only"))
    assert not [*path.parent.iterdir()]


def test_a_by_product_that_no_file_refers_to_is_removed_with_any_plan(tmp_path: Path) -> None:
    gone, kept = put(tmp_path, "gone"), put(tmp_path, "kept", "interrupted", "torn")
    block = make_block("other", plan_id="kept")
    add_record(kept, msgspec.structs.replace(block, trials=[interrupted(block.trials[0])]))
    folder = gone.parent / BY_PRODUCTS
    for name in ("lost", "redone"):  # killed before the record, and referred to by no block
        (folder / product(name)).touch()
    (folder / f"{PART}2025-01-01T00-00-00Z.jsonl").mkdir()
    (folder / f"{PART}2025-01-01T00-00-00Z.jsonl" / product("part")).touch()
    (folder / "notes.txt").touch()
    with kept.open("a") as file:
        file.write(f'{{"type":"block","by_products":{{"trace":"{product("redone")}"}},"torn')
    recorded_plans.delete(recorded_plans.named(tmp_path, "gone"))
    names = {product(name) for name in ("interrupted", "torn", "redone")}
    assert {path.name for path in folder.iterdir()} == {*names, "notes.txt"}
    recorded_plans.delete(recorded_plans.named(tmp_path, "kept"))
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def interrupted(trial: TrialRecord) -> TrialRecord:
    """It was repeated, so no plan counts it; it has a by-product."""
    failure = make_failure(reason="interrupted")
    names = {"trace": product("interrupted")}
    return msgspec.structs.replace(trial, failure=failure, by_products=names)


def test_a_by_product_whose_record_may_still_come_is_kept(tmp_path: Path) -> None:
    gone, measured = put(tmp_path, "gone", "own"), put(tmp_path, "measured")
    folder = gone.parent / BY_PRODUCTS
    (folder / product("new")).touch()
    for path in (gone, measured):
        (folder / f"{PART}{path.name}").mkdir()
    with Journal.open(measured):
        recorded_plans.delete(recorded_plans.named(tmp_path, "gone"))
    assert {path.name for path in folder.iterdir()} == {product("new"), f"{PART}{measured.name}"}


def test_a_plan_that_is_measured_under_another_lock_file_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LOCK_TIMEOUT_S", 0.1)
    path = put(tmp_path, "measured", "own")
    with Journal.open(path), pytest.raises(StorageError, match="has been writing to"):
        recorded_plans.delete(recorded_plans.named(tmp_path, "measured"))
    assert (path.exists(), (path.parent / BY_PRODUCTS / product("own")).exists()) == (True, True)


def test_a_machine_folder_that_is_a_link_loses_nothing(tmp_path: Path) -> None:
    path = put(tmp_path / "elsewhere", "theirs", "own")
    results = tmp_path / "results"
    results.mkdir()
    (results / "laptop").symlink_to(path.parent)
    before = path.read_bytes()
    for change in (recorded_plans.delete, recorded_plans.abandon):
        with pytest.raises(UsageError, match="is a link that leads to"):
            change(recorded_plans.named(results, "theirs"))
    assert path.read_bytes() == before
    assert (path.parent / BY_PRODUCTS / product("own")).exists()


def test_by_products_in_a_folder_that_is_a_link_stay(tmp_path: Path) -> None:
    path = put(tmp_path, "gone", "own")
    folder = path.parent / BY_PRODUCTS
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="by-products is a link that leads to"):
        recorded_plans.delete(recorded_plans.named(tmp_path, "gone"))
    assert path.exists()
    assert [each.name for each in (tmp_path / "elsewhere").iterdir()] == [product("own")]


def test_the_beginning_of_an_id_is_enough_where_it_fits_one_plan(tmp_path: Path) -> None:
    for name in ("alpha", "alphabet", "beta"):
        put(tmp_path, name)
    assert recorded_plans.named(tmp_path, "b").plan.plan_id == "beta"
    assert recorded_plans.named(tmp_path, "alpha").plan.plan_id == "alpha"  # the whole id
    with pytest.raises(UsageError, match="matches 2 plans"):
        recorded_plans.named(tmp_path, "alp")


def test_an_abandoned_plan_keeps_its_blocks(tmp_path: Path) -> None:
    put(tmp_path, "left")
    for _ in range(2):  # a second time changes nothing
        recorded_plans.abandon(recorded_plans.named(tmp_path, "left"))
    found = recorded_plans.named(tmp_path, "left")
    assert (found.abandoned, found.concluded, len(found.done)) == (True, False, 1)
    (row,) = recorded_plans.listing(tmp_path)[0]
    assert (row.state, row.done) == ("abandoned", 1)


def test_a_plan_that_ends_while_its_file_is_locked_is_not_abandoned(tmp_path: Path) -> None:
    put(tmp_path, "late")
    found = recorded_plans.named(tmp_path, "late")
    with ThreadPoolExecutor() as pool, Journal.open(found.path) as journal:
        abandoning = pool.submit(recorded_plans.abandon, found)
        time.sleep(0.2)
        assert not abandoning.done()
        journal.end("late", "concluded")
        journal.close()
        with pytest.raises(UsageError, match="late is finished"):
            abandoning.result(timeout=30)
    assert not recorded_plans.named(tmp_path, "late").abandoned
