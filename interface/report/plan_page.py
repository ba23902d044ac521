"""The report of a plan: loads before, on the way and after; the moves; the schedule; limits; methods; another plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from keyshift.models.plans.plan import Plan
from keyshift.report import drawings
from keyshift.report.page import Data, records, section, text, write_page
from keyshift.report.page import shown as figure_text

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
    data = Data(_content(plan, comparison, other))
    sections = [
        _loads(plan, data),
        _map(plan),
        _timeline(plan, data),
        *([_by_phase(plan, data)] if len(plan.phases) > 1 else []),
        *([_limits(plan, data)] if plan.limits else []),
        *([_methods(data)] if comparison is not None else []),
        *([_side_by_side(data)] if other is not None else []),
        _moves(data),
    ]
    write_page(path, title or f"Plan for {plan.problem}", _head(plan, data), sections, data)


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
    }
    if comparison is not None:
        names = ("method", "status", "objective", "bound", "gap_abs", "seconds")
        content["methods"] = [{name: getattr(s, name) for name in names} for s in comparison]
    if other is not None:
        difference = plan.diff(other)
        content["figures"] = [{"name": k, "here": a, "there": b} for k, (a, b) in difference.figures.items()]
        content["differing"] = records(difference.moves[difference.moves["change"] != "same"])
        content["change_counts"] = difference.counts()
    return content


def _head(plan: Plan, data: Data) -> str:
    unit = " s" if plan.bandwidth is not None else ""
    tiles = [
        ("key groups move", data.figure("counts.moves")),
        ("phases", data.figure("counts.phases")),
        ("of state moved", data.figure("plan.state_moved")),
        (
            f"from first to last, at least {_plain_text(data, 'plan.seconds_bound')}{unit}",
            data.figure("plan.seconds") + unit,
        ),
        ("load distance before", data.figure("plan.load_distance.0") + _share(data, 0)),
        ("load distance after", data.figure("plan.load_distance.1") + _share(data, 1)),
        (f"peak load on the way; the mean is {_plain_text(data, 'counts.mean_load')}", data.figure("plan.peak_load")),
    ]
    answered = f"{text(plan.method)}: {text(plan.status)}"
    if plan.objective is not None:
        answered += f", objective {data.figure('plan.objective')}"
    if plan.bound is not None:
        answered += f", no answer below {data.figure('plan.bound')}"
    notes = "".join(f"<li>{text(note)}</li>" for note in plan.notes)
    scale = "" if plan.bandwidth is not None else " Times are in units of state: no bandwidth was given."
    return f'<p class="soft">{answered}.{scale}</p>{data.tiles(tiles)}{f"<ul>{notes}</ul>" if notes else ""}'


def _plain_text(data: Data, path: str) -> str:
    return figure_text(data.at(path))


def _share(data: Data, place: int) -> str:
    return "" if data.at(f"percent_of_mean.{place}") is None else f" ({data.figure(f'percent_of_mean.{place}')} %)"


def _loads(plan: Plan, data: Data) -> str:
    rows = _rows(plan)
    nodes = [data.content["nodes"][i] for i in rows]
    limits = None
    if "load" in plan.limits:
        limits = [float(v) if np.isfinite(v) else None for v in plan.limits["load"][rows]]
    drawing = drawings.load_bars(nodes, plan.mean * float(np.median(plan.capacity)), limits)
    colours = drawings.key(("before", "before"), ("peak", "highest on the way"), ("after", "after"))
    names = ("name", "before", "peak", "after", "moves_in", "moves_out")
    heads = ["node", *(name.replace("_", " ") for name in names[1:])]
    table = data.table(heads, [[f"nodes.{i}.{name}" for name in names] for i in rows])
    listed = f"<details><summary>As a table</summary>{table}</details>"
    some = "" if len(rows) == plan.capacity.size else f" The {len(rows)} nodes that move most, of {plan.capacity.size}."
    note = f"{colours}. A key group counts at both ends while it moves.{some}"
    return section("Load of every node", drawing + listed, note)


def _rows(plan: Plan) -> list[int]:
    n = plan.capacity.size
    if n <= drawings.MOST_NODES:
        return list(range(n))
    return drawings.busiest(plan.source, plan.target, plan.state, n).tolist()


def _map(plan: Plan) -> str:
    rows = drawings.busiest(plan.source, plan.target, plan.state, plan.capacity.size)
    if rows.size == 0:
        return section("From node to node", "<p>Nothing moves.</p>")
    number = np.full(plan.capacity.size, -1)
    number[rows] = np.arange(rows.size)
    shown = (number[plan.source] >= 0) & (number[plan.target] >= 0)
    pairs = (number[plan.source[shown]], number[plan.target[shown]])
    flow, counts = np.zeros((rows.size, rows.size)), np.zeros((rows.size, rows.size))
    np.add.at(flow, pairs, plan.state[shown])
    np.add.at(counts, pairs, 1)
    names = [plan.made_for.node(int(i)) for i in rows]
    note = "Rows send, columns receive; a figure counts moves, the colour their state."
    return section("From node to node", drawings.move_map(names, flow, counts), note)


def _timeline(plan: Plan, data: Data) -> str:
    rows = drawings.busiest(plan.source, plan.target, plan.state, plan.capacity.size)
    keys = [plan.made_for.key(k) for k in plan.key_group.tolist()]
    times = {"source": plan.source, "target": plan.target, "start": plan.start, "end": plan.end}
    moves = records(pd.DataFrame({"key": keys, **times}))
    named = [(int(i), plan.made_for.node(int(i))) for i in rows]
    drawing = drawings.timeline(named, moves, data.content["plan"]["phases"], plan.seconds, min(plan.parallel, 4))
    colours = drawings.key(("send", "sends"), ("take", "receives"))
    return section("Schedule", drawing, f"{colours}. Bands are phases; time runs to the right.", wide=True)


def _by_phase(plan: Plan, data: Data) -> str:
    distances = [plan.load_distance[0], *(p.load_distance for p in plan.phases)]
    names = ("start", "end", "bound", "load_distance")
    rows = [[f"={i}", *(f"plan.phases.{i}.{name}" for name in names)] for i in range(len(plan.phases))]
    table = data.table(["phase", "start", "end", "at least", "load distance after"], rows)
    note = "Stopping after any phase leaves this load distance."
    return section("Phase by phase", drawings.distance_steps(distances) + table, note)


def _limits(plan: Plan, data: Data) -> str:
    nodes = [node["name"] for node in data.content["nodes"]]
    rows = [
        [f"={name}", f"={node}", *(f"plan.limits.{name}.{part}.{i}" for part in ("limit", "held"))]
        for name in plan.limits
        for i, node in enumerate(nodes)
    ]
    most = f"Exceeded by at most {data.figure('plan.overload')} of themselves."
    over = most if plan.overload > 0 else "All are kept."
    return section("Limits on the way", data.table(["resource", "node", "limit", "before"], rows, words=(1,)), over)


def _methods(data: Data) -> str:
    names = ("method", "status", "objective", "bound", "gap_abs", "seconds")
    rows = [[f"methods.{i}.{name}" for name in names] for i in range(len(data.content["methods"]))]
    table = data.table([*names[:4], "gap", "seconds"], rows, words=(1,))
    return section("Methods", table, "What each reached and proved.")


def _side_by_side(data: Data) -> str:
    each = range(len(data.content["figures"]))
    pairs = [[f"figures.{i}.{name}" for name in ("name", "here", "there")] for i in each]
    figures = data.table(["", "this plan", "the other"], pairs)
    names = ("key", "source", "target", "other_target", "load", "state", "change")
    rows = [[f"differing.{i}.{name}" for name in names] for i in range(min(len(data.content["differing"]), MOST_ROWS))]
    counts = ", ".join(f"{count} {kind}" for kind, count in data.content["change_counts"].items())
    moves = data.table(["key group", "from", "to", "other to", "load", "state", "change"], rows) if rows else ""
    return section("Two plans side by side", figures + moves, f"Moves: {text(counts)}.", wide=True)


def _moves(data: Data) -> str:
    names = ("key", "source", "target", "load", "state", "gain", "phase", "start", "end")
    count = len(data.content["moves"])
    rows = [[f"moves.{i}.{name}" for name in names] for i in range(min(count, MOST_ROWS))]
    note = f"Gain: what undoing this move alone would cost, in {text(data.at('plan.measure'))}."
    if count > MOST_ROWS:
        note += f" The first {MOST_ROWS} of {count}; the page carries them all as data."
    return section("Moves", data.table(["key group", "from", "to", *names[3:]], rows), note, wide=True)
