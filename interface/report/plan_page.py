"""The report of a plan: loads before, on the way and after; the moves; the schedule; limits; methods; another plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from keyshift.plans.plan import Plan
from keyshift.report import drawings
from keyshift.report.page import records, write_page

if TYPE_CHECKING:
    from keyshift.comparison import Comparison

MOST_ROWS = 1000
"""Moves in the table; all of them are in the data that the page carries."""


def write_plan_report(
    plan: Plan, path: str | Path, *, comparison: Comparison | None = None, other: Plan | None = None, title: str = ""
) -> None:
    """Write the report of a plan as one HTML page.

    Parameters
    ----------
    plan : Plan
    path : str or Path
    comparison : Comparison, optional
        The methods that were compared, for a table.
    other : Plan, optional
        Another plan for the same key groups, to be held against this one.
    title : str, optional
        The page's heading.
    """
    n, distances = plan.capacity.size, [plan.load_distance[0], *(p.load_distance for p in plan.phases)]
    busiest = drawings.busiest(plan.source, plan.target, plan.state, n)
    rows = list(range(n)) if n <= drawings.MOST_NODES else busiest.tolist()
    data = _content(plan, comparison, other)
    write_page(
        path, "plan", title or f"Plan for {plan.problem}", data, most=MOST_ROWS, rows=rows, notes=plan.notes,
        timed=plan.bandwidth is not None, loads=_loads(plan, data["nodes"], rows), map=_map(plan, busiest),
        timeline=_timeline(plan, busiest, data["phases"]),
        steps=drawings.distance_steps(distances) if len(plan.phases) > 1 else "",
    )  # fmt: skip


def _content(plan: Plan, comparison: Comparison | None, other: Plan | None) -> dict[str, Any]:
    n = plan.capacity.size
    loads = {"before": plan.loads_before, "peak": plan.peak_loads, "after": plan.loads_after}
    moved = {"moves_in": np.bincount(plan.target, minlength=n), "moves_out": np.bincount(plan.source, minlength=n)}
    content: dict[str, Any] = {
        "plan": plan.as_record(),
        "counts": {"moves": len(plan), "phases": len(plan.phases), "mean_load": plan.mean},
        "percent_of_mean": [100 * v / plan.mean if plan.mean else None for v in plan.load_distance],
        "nodes": records(pd.DataFrame({"name": list(map(plan.made_for.node, range(n))), **loads, **moved})),
        "moves": plan.moves.astype(dict.fromkeys(("key", "source", "target"), str)).to_dict("records"),
        "limits": [],
    }
    content["phases"] = [{"phase": i, **phase} for i, phase in enumerate(content["plan"]["phases"])]
    for name, kept in content["plan"]["limits"].items():
        for node, limit, held in zip(content["nodes"], kept["limit"], kept["held"], strict=True):
            content["limits"].append({"resource": name, "node": node["name"], "limit": limit, "held": held})
    if comparison is not None:
        names = ("method", "status", "objective", "bound", "gap_abs", "seconds")
        content["methods"] = [{name: getattr(s, name) for name in names} for s in comparison]
    if other is not None:
        difference = plan.diff(other)
        content["figures"] = [{"name": k, "here": a, "there": b} for k, (a, b) in difference.figures.items()]
        content["differing"] = records(difference.moves[difference.moves["change"] != "same"])
        content["change_counts"] = difference.counts()
    return content


def _loads(plan: Plan, nodes: list[dict[str, Any]], rows: list[int]) -> Markup:
    limits = None
    if "load" in plan.limits:
        limits = [float(v) if np.isfinite(v) else None for v in plan.limits["load"][rows]]
    return drawings.load_bars([nodes[i] for i in rows], plan.mean * float(np.median(plan.capacity)), limits)


def _map(plan: Plan, rows: np.ndarray) -> Markup | None:
    """State moved from node to node; None where nothing moves."""
    if rows.size == 0:
        return None
    number = np.full(plan.capacity.size, -1)
    number[rows] = np.arange(rows.size)
    shown = (number[plan.source] >= 0) & (number[plan.target] >= 0)
    pairs = (number[plan.source[shown]], number[plan.target[shown]])
    flow, counts = np.zeros((rows.size, rows.size)), np.zeros((rows.size, rows.size))
    np.add.at(flow, pairs, plan.state[shown])
    np.add.at(counts, pairs, 1)
    return drawings.move_map([plan.made_for.node(int(i)) for i in rows], flow, counts)


def _timeline(plan: Plan, rows: np.ndarray, phases: list[dict[str, Any]]) -> Markup:
    keys = [plan.made_for.key(k) for k in plan.key_group.tolist()]
    times = {"source": plan.source, "target": plan.target, "start": plan.start, "end": plan.end}
    moves = records(pd.DataFrame({"key": keys, **times}))
    named = [(int(i), plan.made_for.node(int(i))) for i in rows]
    return drawings.timeline(named, moves, phases, plan.seconds, min(plan.parallel, 4))
