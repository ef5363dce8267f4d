"""The memory of a row's cells, measured in one session, as a line over environments. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from envbench.model import Plan
from envbench.results.measured_cells import Row, row_of
from envbench.stats.memory import memory_line
from envbench.stats.summary import Summary


def with_memory_lines(cells: Sequence[tuple[Plan, Summary]]) -> list[Summary]:
    """The summaries, in order, each with the line of its row in its plan, where there is one."""
    points: dict[tuple[str, Row], list[tuple[int, int]]] = defaultdict(list)
    for plan, summary in cells:
        if summary.costs and summary.costs.memory_bytes:
            point = summary.cell.env_instances, summary.costs.memory_bytes
            points[plan.plan_id, row_of(summary.cell)].append(point)
    return [_with_line(plan, each, points[plan.plan_id, row_of(each.cell)]) for plan, each in cells]


def _with_line(plan: Plan, summary: Summary, points: Sequence[tuple[int, int]]) -> Summary:
    line = memory_line(points, plan.free_memory)
    if line is None or summary.costs is None:
        return summary
    return replace(summary, costs=replace(summary.costs, memory=line))
