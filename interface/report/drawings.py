"""Drawings of reports as SVG: of a plan loads, moves, schedule and load distance; of a study profiles and gaps.

Here is where things stand; `templates/svg.jinja` draws them there.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from functools import cache, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from keyshift.models.base.disk import write_text
from keyshift.models.base.figures import compact, quantity
from keyshift.plans.plan import Plan
from keyshift.terminal import visible

if TYPE_CHECKING:
    from keyshift.comparison import Comparison


SCRIPTS = Path(__file__).parent
"""The pages' style and their JavaScript, as they stand: a page carries what it needs of them inside itself."""
WIDTH = 760
"""Of every drawing, in units of its view box."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#999999")
"""The colours of Okabe and Ito, legible on light and on dark; lines of the same colour differ in their dashes."""


def shown(value: Any, unit: str = "") -> str:
    """A figure as reports show it: the same text for the same number everywhere."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return quantity(value, unit, digits=5) if isinstance(value, int | float) else str(value)


def _short(name: Any, most: int = 9) -> str:
    said = str(name)
    return said if len(said) <= most else said[: most - 1] + "…"


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of a table as JSON can hold them: null where there is nothing."""
    return frame.astype(object).where(frame.notna(), None).to_dict("records")  # type: ignore[return-value]


def script(*names: str) -> str:
    """Modules as one script that needs no other file: what they import of each other is in it, the first one first."""
    code = "".join((SCRIPTS / f"{name}.mjs").read_text(encoding="utf-8") for name in names)
    code = re.sub(r"(?m)^import .*\n|^export (?=const|function|class)", "", code)
    return f'(() => {{\n"use strict";\n{code}}})();'


@cache
def pages() -> Environment:
    """The templates: what they are given is a text, unless it is `Markup`."""
    made = Environment(
        loader=FileSystemLoader(SCRIPTS / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) else visible(str(value)),
    )
    made.filters |= {"digest": _digest, "short": _short, "px": "{:.1f}".format}
    made.filters["rounded"] = lambda value: shown(float(f"{value:.2g}"))  # for a mark of an axis
    made.globals |= {"shown": shown, "width": WIDTH, "colours": COLOURS, "dashes": ("", "6 3", "2 3", "8 3 2 3")}
    return made


def write_page(
    path: str | Path, template: str, title: str, data: dict[str, Any], scripts: Sequence[str] = ("tables",), **more: Any
) -> None:
    """Write a page, whole or not at all: it runs the scripts it carries, no other, and asks no network for anything.

    Parameters
    ----------
    path : str or Path
    template : str
        Its name in the folder of templates.
    title : str
    data : dict
        What the page carries as JSON; every figure on the page names its place in it.
    scripts : sequence of str
    **more
        What else the template takes: drawings, counts.

    Raises
    ------
    InputError
        If the file cannot be written there.
    """

    def at(place: str) -> Any:
        return reduce(lambda part, name: part[int(name) if isinstance(part, list) else name], place.split("."), data)

    # A closing tag inside a text would end the block of data early: < is written as JSON allows.
    carried = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    style, code = (SCRIPTS / "page.css").read_text(encoding="utf-8"), script(*scripts)
    page = pages().get_template(f"{template}.html.jinja")
    write_text(path, page.render(title=title, data=data, at=at, carried=carried, style=style, code=code, **more))


def _digest(content: str) -> Markup:
    return Markup(f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'")


# The drawings ----------------------------------------------------------------------------------------------------------


MOST_NODES = 40
"""Rows of a drawing; of more nodes, those are drawn that move most."""
LEFT, RIGHT, TOP = 74.0, 16.0, 18.0
"""Margins of a study's drawings."""
Steps = Sequence[tuple[float, float]]


def _drawn(name: str, **values: Any) -> Markup:
    return Markup(getattr(pages().get_template("svg.jinja").module, name)(**values))


def _ticks(most: float, count: int = 5) -> list[float]:
    """Round figures from 0 to a little less than the most."""
    if most <= 0:
        return [0.0]
    raw = most / count
    power = 10.0 ** np.floor(np.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * (1 - 1e-9))
    return [float(k * step) for k in range(int(most / step + 1e-9) + 1)]


def load_bars(
    nodes: Sequence[dict[str, Any]], mean: float, limits: Sequence[float | None] | None, unit: str = ""
) -> Markup:
    """Load before, at its peak and after, for every node; the mean as a line, limits as ticks."""
    most = max([mean, *(max(n["before"], n["peak"], n["after"]) for n in nodes), *(v for v in limits or [] if v)])
    most, left = most * 1.05 or 1.0, 110.0
    scale, place = (WIDTH - left - 20) / most, {"left": left, "row": 22.0, "top": 6.0}
    return _drawn(
        "load_bars", nodes=nodes, limits=limits, mean=mean, ticks=_ticks(most), scale=scale, unit=compact(unit), **place
    )


def busiest(source: np.ndarray, target: np.ndarray, state: np.ndarray, nodes: int) -> np.ndarray:
    """Nodes that take part in moves, at most `MOST_NODES` of them, those with most state; in their own order."""
    part = np.bincount(np.concatenate([source, target]), np.tile(state + 1e-9, 2), nodes)
    most = np.argsort(-part, kind="stable")[:MOST_NODES]
    return np.sort(most[part[most] > 0])


def move_map(names: Sequence[Any], flow: np.ndarray, counts: np.ndarray) -> Markup:
    """State moved from each node (rows) to each node (columns), darker for more, with the number of moves."""
    left, most = 110.0, float(flow.max()) or 1.0
    cells = [
        (i, j, int(counts[i, j]), float(flow[i, j]), 0.15 + 0.85 * float(flow[i, j]) / most)
        for i, j in np.argwhere(counts > 0).tolist()
    ]
    cell = min(46.0, (WIDTH - left - 10) / max(len(names), 1))
    letters = max((len(_short(name)) for name in names), default=0)
    turned = 12.5 * letters > cell  # a letter's width on a narrow screen
    top = 16 + 9.0 * letters if turned else 26.0
    return _drawn("move_map", names=names, cells=cells, cell=cell, left=left, top=top, turned=turned)


def timeline(
    rows: Sequence[tuple[int, Any]],
    moves: Sequence[dict[str, Any]],
    phases: Sequence[dict[str, Any]],
    end: float,
    lanes: int,
    unit: str = "",
) -> Markup:
    """For every node, when it sends and when it receives; phases as bands.

    Parameters
    ----------
    rows : sequence of (number, name) of nodes
    moves : sequence of mappings with key, source, target, start, end
    phases : sequence of mappings with start, end
    end : float
    lanes : int
        Transfers at once at a node: as many lines in its row.
    unit : str
        Of the times.
    """
    left, row = 110.0, max(22.0, 9.0 * lanes + 5)
    place = {number: i for i, (number, _) in enumerate(rows)}
    named = dict(rows)
    busy: dict[int, list[float]] = {number: [0.0] * lanes for number in place}
    bars = []
    for m in sorted(moves, key=lambda m: (m["start"], m["end"]))[:3000]:
        for node, other in ((m["source"], m["target"]), (m["target"], m["source"])):
            if node not in place:
                continue
            lane = next((i for i, free in enumerate(busy[node]) if free <= m["start"] + 1e-9 * (end or 1)), 0)
            busy[node][lane] = m["end"]
            bars.append((m, place[node], lane, node == m["source"], str(named.get(other, other))))
    return _drawn(
        "timeline", rows=[name for _, name in rows], bars=bars, phases=phases, ticks=_ticks(end),
        scale=(WIDTH - left - 20) / (end or 1.0), left=left, top=22.0, row=row, tall=(row - 5) / lanes - 1, unit=unit,
    )  # fmt: skip


def distance_steps(distances: Sequence[float]) -> Markup:
    """The load distance before the plan and after every phase."""
    most = max(distances) * 1.08 or 1.0
    return _drawn("distance_steps", distances=distances, ticks=_ticks(most, 4), most=most, left=80.0)


def profile_curves(curves: Mapping[str, Steps], axis: str, least: float, logarithmic: bool) -> Markup:
    """A staircase for each method: what share of the instances it solves within a factor.

    Parameters
    ----------
    curves : mapping of str to sequence of (factor, share)
    axis : str
        What the horizontal axis measures.
    least : float
        Where that begins: 1 for ratios of time, 0 for gaps.
    logarithmic : bool
    """
    most = max([factor for steps in curves.values() for factor, _ in steps], default=least)
    most, bottom = max(most * 1.05, least + (9.0 if logarithmic else 1e-6)), 250.0

    def x(factor: float) -> float:
        place = (factor - least) / (most - least)
        if logarithmic:
            place = math.log(max(factor, least) / least) / math.log(most / least)
        return LEFT + place * (WIDTH - LEFT - RIGHT)

    def y(share: float) -> float:
        return bottom - share * (bottom - TOP)

    drawn = []
    for method, steps in curves.items():
        path, last = f"M{x(least):.1f} {y(0):.1f}", 0.0
        for factor, share in steps:
            path += f"L{x(factor):.1f} {y(last):.1f}L{x(factor):.1f} {y(share):.1f}"
            last = share
        dots = [(x(factor), y(share), factor, share) for factor, share in steps[:200]]
        drawn.append((method, f"{path}L{x(most):.1f} {y(last):.1f}", last, dots))
    factors = (np.geomspace if logarithmic else np.linspace)(least, most, 5).tolist()
    marks = {"x": [(factor, x(factor)) for factor in factors], "y": [(s, y(s)) for s in (0, 0.25, 0.5, 0.75, 1)]}
    return _drawn("profile_curves", curves=drawn, axis=axis, marks=marks, left=LEFT, right=RIGHT, bottom=bottom)


def gap_dots(gaps: Mapping[str, Mapping[str, float]]) -> Markup:
    """A line of dots for each method, a dot for each instance, on a scale of square roots: small gaps stay apart."""
    most = max([gap for values in gaps.values() for gap in values.values()], default=0.0) or 1e-6
    left = max(130.0, 14 + 11.5 * max(map(len, gaps), default=0))  # a letter's width on a narrow screen

    def x(gap: float) -> float:
        return left + math.sqrt(gap / most) * (WIDTH - left - RIGHT)

    methods = []
    for method, values in gaps.items():
        near: dict[float, list[str]] = {}
        for instance, gap in values.items():
            near.setdefault(float(f"{gap:.3g}"), []).append(instance)
        middle = statistics.median(values.values()) if values else None
        dots = [(x(gap), gap, named) for gap, named in sorted(near.items())]
        methods.append((method, dots, None if middle is None else (x(middle), middle)))
    marks = [(share * most, x(share * most)) for share in (0.0, 0.05, 0.25, 1.0)]
    return _drawn("gap_dots", methods=methods, marks=marks, left=left, top=TOP, row=24.0)


# The report of a plan: loads before, on the way and after; the moves; the schedule; limits; methods; another plan -----


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
    order = busiest(plan.source, plan.target, plan.state, n)
    rows = list(range(n)) if n <= MOST_NODES else order.tolist()
    data, units = _content(plan, comparison, other), plan.made_for.units
    unit = "s" if plan.bandwidth is not None else units.get("state", "")
    write_page(
        path, "plan", title or f"Plan for {plan.problem}", data, most=MOST_ROWS, rows=rows, notes=plan.notes,
        timed=plan.bandwidth is not None, loads=_loads(plan, data["nodes"], rows), map=_map(plan, order),
        timeline=_timeline(plan, order, data["phases"], unit), unit=unit,
        load=plan.made_for.distance_unit, state=units.get("state", ""),
        steps=distance_steps(distances) if len(plan.phases) > 1 else "",
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
        names = ("method", "status", "objective", "bound", "seconds")
        content["methods"] = [
            {name: getattr(s, name) for name in names} | {"gap_percent": None if s.gap is None else 100 * s.gap}
            for s in comparison
        ]
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
    mean, unit = plan.mean * float(np.median(plan.capacity)), plan.made_for.distance_unit
    return load_bars([nodes[i] for i in rows], mean, limits, unit)


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
    return move_map([plan.made_for.node(int(i)) for i in rows], flow, counts)


def _timeline(plan: Plan, rows: np.ndarray, phases: list[dict[str, Any]], unit: str) -> Markup:
    keys = [plan.made_for.key(k) for k in plan.key_group.tolist()]
    times = {"source": plan.source, "target": plan.target, "start": plan.start, "end": plan.end}
    moves = records(pd.DataFrame({"key": keys, **times}))
    named = [(int(i), plan.made_for.node(int(i))) for i in rows]
    return timeline(named, moves, phases, plan.seconds, min(plan.parallel, 4), unit)
