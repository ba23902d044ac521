"""explore: a problem on one page that one can play with - the front, its answers, and key groups moved by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from keyshift.catalogue import formulation_of
from keyshift.catalogue import methods as methods_of
from keyshift.catalogue.method import Trade
from keyshift.comparison import compare
from keyshift.fronts.front import Front, pareto
from keyshift.models import Budget, InputError, Problem, Solution, Workload
from keyshift.models.answer import GAP, TIME_LIMIT, Progress
from keyshift.models.figures import figure
from keyshift.models.files.writing import expect_place
from keyshift.models.guards import real, whole
from keyshift.plans.making import plan as make_plan
from keyshift.report.explored import answer_record, as_json, model_record, reached
from keyshift.report.page import Data, section, text, write_page
from keyshift.solving import solve

BUDGETS = 12
"""Points of the front where nobody asks for another number."""
SCRIPTS = ("figures", "arithmetic", "draw", "tables", "board", "explore")
FRONT, RIVALS = 0.6, 0.25
"""The front's share of the time, and that of the heuristics together; plans have the rest."""


def explore(
    problem: Problem,
    *,
    path: str | Path,
    budgets: int | None = None,
    against: str | None = None,
    bandwidth: float | None = None,
    parallel: int = 1,
    time_limit: float | None = TIME_LIMIT,
    gap: float = GAP,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    title: str = "",
    watch: Callable[[Progress], None] | None = None,
) -> tuple[Solution, ...]:
    """Trace a problem's front and write it as one interactive page that needs no server and no network.

    The page has a slider over the budgets, with loads, moves and schedule at each; key groups that can be dragged, with the
    arithmetic of `check` at every edit; two answers side by side; and a table under every drawing.

    Parameters
    ----------
    problem : Problem
        `KeyGroupAllocation`, `CollocatedAllocation`, `MCLB` and `MixedRouting` can be changed by hand; of the others the page
        says what it shows instead. A problem without a second objective has no slider.
    path : str or Path
        The page, an .html file.
    budgets : int, optional
        Points of the front, 2 to 30; 12 by default.
    against : str, optional
        The second objective, as in `pareto`.
    bandwidth : float, optional
        Units of state a second that one transfer moves, for the schedules; without it a unit takes a second.
    parallel : int, default 1
        Transfers at once at a node.
    time_limit : float or None, default 60.0
        Seconds in total; None: no limit.
    gap : float, default 1e-4
        As in `solve`.
    seed : int, default 0
    checkpoint : str or Path, optional
        A .json file for the front's finished points, from which an interrupted run continues, as in `pareto`.
    title : str, optional
        The page's heading.
    watch : callable, optional
        Called with a `Progress` while it runs.

    Returns
    -------
    tuple of Solution
        The answers on the slider, by rising budget.

    Raises
    ------
    InputError
        For a bad number, a file that cannot be written, or a problem for which no answer was found in time.
    """
    budgets = whole("budgets", budgets, least=2, most=30) or BUDGETS
    limit = real("time_limit", time_limit)
    expect_place(Path(path))
    budget = Budget(limit)
    share = None if limit is None else FRONT * limit
    trade: Trade | None = None
    if formulation_of(problem).trades:
        front: Front = pareto(
            problem, budgets, against=against, time_limit=share, gap=gap, seed=seed, checkpoint=checkpoint, watch=watch
        )
        trade, points = front.trade, front.solutions
    else:
        best = solve(problem, time_limit=share, gap=gap, seed=seed)
        points = () if best.assignment is None else (best,)
    if not points:
        raise InputError(
            "no answer was found, so there is nothing to explore: `keyshift remedies` says which limit to relax"
        )
    rivals = tuple(_rivals(problem, limit, seed, watch))
    points = points if trade is None else _undominated((*points, *rivals), trade.metric)
    content = _content(
        problem, trade, points, rivals, budget, {"bandwidth": bandwidth, "parallel": parallel, "seed": seed}
    )
    heading = title or f"Explore: {problem.name.replace('-', ' ')}"
    data = Data(content)
    write_page(path, heading, _head(content), [_plain(data)], data, SCRIPTS)
    return points


def _rivals(
    problem: Problem, limit: float | None, seed: int, watch: Callable[[Progress], None] | None
) -> Iterator[Solution]:
    """The answers of the heuristics, each with its share of the time."""
    names = [m.name for m in methods_of(problem) if m.kind == "heuristic"]
    seconds = None if limit is None else RIVALS * limit / max(1, len(names))
    if names:
        yield from (s for s in compare(problem, names, seconds, seed=seed, watch=watch) if s.assignment is not None)


def _undominated(answers: tuple[Solution, ...], metric: str) -> tuple[Solution, ...]:
    """By rising cost: a front that ran out of time may lack what a heuristic finds."""
    found: list[Solution] = []
    for s in sorted(answers, key=lambda s: (s.metrics[metric], s.objective or 0.0)):
        if not found or (s.objective or 0.0) < (found[-1].objective or 0.0) - (s.tolerance or 0.0):
            found.append(s)
    return tuple(found)


def _content(
    problem: Problem, trade: Trade | None, points: tuple[Solution, ...], rivals: tuple[Solution, ...], budget: Budget,
    options: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    workload = getattr(problem, "workload", None)
    places = [reached(s) for s in (*points, *rivals)]
    drawn = isinstance(workload, Workload) and all(p is None or p.max(initial=0) < workload.nodes for p in places)
    known = [p for p in places if p is not None]
    model = model_record(problem, known) if drawn else None
    named = {} if trade is None else {"name": trade.name, "metric": trade.metric, "limit": trade.limit, "label": trade.label,
                                      "offset": trade.offset, "whole": trade.whole}  # fmt: skip
    records = []
    for place, s in enumerate(points):
        records.append(
            answer_record(s, _said(s, trade), trade, model, _schedule(s, model, budget, options, len(points) - place))
        )
    others = [answer_record(s, s.method, trade, model, None) for s in rivals]
    played = problem.played()
    content = {
        "problem": problem.name, "objective": problem.objective_name, "scale": problem.scale, "trade": named or None,
        "instead": played if isinstance(played, str) else "", "model": model, "points": records, "rivals": others,
        "timed": options["bandwidth"] is not None,
    }  # fmt: skip
    made: dict[str, Any] = as_json(content)
    return made


def _said(s: Solution, trade: Trade | None) -> str:
    """The name of a point of the front: what it costs, and whether it is proven."""
    proven = "proven optimum" if s.status == "optimal" else "best found"
    return proven if trade is None else f"{trade.label}: {figure(s.metrics[trade.metric])}, {proven}"


def _schedule(
    s: Solution, model: dict[str, Any] | None, budget: Budget, options: dict[str, Any], left: int
) -> dict[str, Any] | None:
    """When each key group moves; of blocks only how long it takes."""
    if model is None:
        return None
    try:
        made = make_plan(s.problem, s, options["bandwidth"], options["parallel"], seed=options["seed"],
                         time_limit=min(1.0, max(0.0, budget.remaining) / left))  # fmt: skip
    except InputError:
        return None
    rows = zip(made.key_group.tolist(), made.start.tolist(), made.end.tolist(), made.phase.tolist(), strict=True)
    return {
        "seconds": made.seconds, "bound": made.seconds_bound, "peak": made.peak_load, "phases": len(made.phases),
        "rows": [] if model["block"] is not None else [list(row) for row in rows],
    }  # fmt: skip


def _head(content: dict[str, Any]) -> str:
    model = content["model"]
    size = "" if model is None else f"{model['key_groups']:,} key groups on {len(model['nodes']):,} nodes. "
    said = f"<p>{text(content['instead'])}</p>" if content["instead"] else ""
    if model is not None and model["block"] is not None:
        said += (
            f"<p>Too many key groups to draw each: the page has {len(model['keys']):,} entries. Those that move in an answer "
            "stand for themselves, the heaviest first; what runs together in every answer is one block.</p>"
        )
    if model is not None and model["rules_left"]:
        said += f"<p>{model['rules_left']} rules are about too many key groups for a page: ask `keyshift check`.</p>"
    return f'<p class="soft">{text(size)}The {text(content["objective"])} is minimised.</p>{said}'


def _plain(data: Data) -> str:
    """The answers as a table, which is there without scripts, too."""
    places = range(len(data.content["points"]))
    names = [
        name for name in data.content["points"][0]["metrics"] if name.replace("_", " ") != data.content["objective"]
    ]
    shown = ["name", "objective", "bound", *(f"metrics.{name}" for name in names)]
    rows = [[f"points.{i}.{name}" for name in shown] for i in places]
    heads = ["answer", data.content["objective"], "bound", *(name.replace("_", " ") for name in names)]
    return section("The answers as a table", data.table(heads, rows), wide=True)
