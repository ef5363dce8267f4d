"""Which cells share a line of memory: those of one row and one session."""

from __future__ import annotations

from helpers.record_factories import make_cell, make_plan

from envbench.model import Cell, Plan
from envbench.results.memory_lines import with_memory_lines
from envbench.stats.costs import Costs
from envbench.stats.summary import Summary


def summary(cell: Cell, size: int | None) -> Summary:
    return Summary(cell=cell, runs=[], costs=Costs(memory_bytes=size))


def plan(name: str, cells: list[Cell]) -> Plan:
    return make_plan(cells, plan_id=name, free_memory=10_000)


def test_each_row_of_a_session_has_its_own_line_over_the_environments_that_exist() -> None:
    pools = [make_cell("envpool-async", numenv) for numenv in (1, 2, 4)]  # three in flight each
    loops = [make_cell("for-loop", numenv) for numenv in (1, 2, 4)]
    session = plan("one", [*pools, *loops])
    given = [(session, summary(each, 100 + 10 * each.env_instances)) for each in pools]
    given += [(session, summary(each, 1000 + 100 * each.numenv)) for each in loops]
    lines = [each.costs and each.costs.memory for each in with_memory_lines(given)]
    assert [line and (line.environments, line.largest) for line in lines] == [
        *[((3, 6, 12), 990)] * 3,
        *[((1, 2, 4), 90)] * 3,
    ]


def test_cells_of_two_sessions_or_of_other_settings_share_no_line() -> None:
    cells = [make_cell(numenv=numenv) for numenv in (1, 2, 4)]
    other = make_cell(numenv=4, variant={"actions": "constant"})
    first, second = plan("one", cells), plan("two", cells)
    for given in (
        [(first, cells[0]), (first, cells[1]), (second, cells[2])],
        [(first, cells[0]), (first, cells[1]), (first, other)],
    ):
        made = with_memory_lines([(each, summary(cell, 5)) for each, cell in given])
        assert [each.costs and each.costs.memory for each in made] == [None] * 3


def test_a_cell_without_memory_or_costs_stays_as_it_is() -> None:
    cells = [make_cell(numenv=numenv) for numenv in (1, 2, 4)]
    session = plan("one", cells)
    failed = Summary(cell=cells[0], runs=[])
    given = [failed, summary(cells[1], None), summary(cells[2], 5)]
    assert with_memory_lines([(session, each) for each in given]) == given
