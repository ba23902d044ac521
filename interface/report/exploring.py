"""explore: a problem on one page that one can play with - the front, its answers, and key groups moved by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from keyshift.catalogue import formulation_of
from keyshift.catalogue import methods as methods_of
from keyshift.catalogue.method import Trade
from keyshift.comparison import compare
from keyshift.fronts.front import Front, pareto
from keyshift.models import Budget, InputError, Problem, Solution, Workload
from keyshift.models.answer import GAP, TIME_LIMIT, Progress
from keyshift.models.base.disk import expect_place
from keyshift.models.base.figures import figure
from keyshift.models.base.guards import real, whole
from keyshift.models.base.lazily import sp
from keyshift.models.rules.lowered import Lowered
from keyshift.models.rules.ruled import Ruled
from keyshift.models.workload import IntArray
from keyshift.plans.making import plan as make_plan
from keyshift.report.drawings import write_page
from keyshift.solving import solve
from keyshift.terminal import visible

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
        `KeyGroupAllocation`, `CollocatedAllocation`, `MCLB` and `MixedRouting` can be changed by hand; for the others
        the page says what it shows instead. A problem without a second objective has no slider.
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
    budgets = whole("budgets", budgets, least=2, most=30) or 12
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
        said = "no answer was found, so there is nothing to explore: `keyshift remedies` says which limit to relax"
        raise InputError(said)
    rivals = tuple(_rivals(problem, limit, seed, watch))
    points = points if trade is None else _undominated((*points, *rivals), trade.metric)
    planned = {"bandwidth": bandwidth, "parallel": parallel, "seed": seed}
    content = _content(problem, trade, points, rivals, budget, planned)
    heading = title or f"Explore: {problem.name.replace('-', ' ')}"
    own = problem.objective_name.replace(" ", "_")
    metrics = [name for name in content["points"][0]["metrics"] if name != own]
    places = [f"metrics.{name}" for name in metrics]
    write_page(path, "explore", heading, content, SCRIPTS, metrics=metrics, places=places)
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
        schedule = _schedule(s, model, budget, options, len(points) - place)
        records.append(answer_record(s, _said(s, trade), trade, model, schedule))
    others = [answer_record(s, s.method, trade, model, None) for s in rivals]
    played = problem.played()
    content = {
        "problem": problem.name, "objective": problem.objective_name, "scale": problem.scale, "trade": named or None,
        "instead": played if isinstance(played, str) else "", "model": model, "points": records, "rivals": others,
        "timed": options["bandwidth"] is not None,
    }  # fmt: skip
    return as_json(content)


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


# The data in the page: names, constants, rules as forms, answers; of many key groups, blocks ---------------------------


MOST_KEY_GROUPS = 3000
"""Of more, those that move in no answer become a block a node, and of the others the heaviest stay by themselves."""
MOST_ALONE = 1000


@dataclass
class SharedArrays:
    """Arrays that many rules share, written once."""

    rows: list[list[Any]] = field(default_factory=list)
    _known: dict[bytes, int] = field(default_factory=dict)

    def at(self, values: np.ndarray) -> int:
        """The place of an array."""
        text = values.tobytes() + str(values.dtype).encode()
        if text not in self._known:
            self._known[text] = len(self.rows)
            self.rows.append(as_json(np.where(np.isfinite(values), values, 1e300) if values.dtype == float else values))
        return self._known[text]


def as_json(value: Any) -> Any:
    """Numbers as JSON writes them shortest: whole floats as integers; sparse matrices as rows, columns and data."""
    if isinstance(value, Mapping):
        return {str(name): as_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(part) for part in value]
    if hasattr(value, "tocoo"):
        pairs = value.tocoo()
        return {"row": pairs.row.tolist(), "col": pairs.col.tolist(), "data": as_json(pairs.data)}
    if isinstance(value, np.ndarray | np.generic):
        return as_json(value.tolist())
    if isinstance(value, float | Fraction):
        value = float(value)
        return int(value) if value.is_integer() and abs(value) < 2**53 else value if np.isfinite(value) else None
    return visible(value) if isinstance(value, str) else value


def blocks_of(workload: Workload, answers: Sequence[IntArray]) -> IntArray | None:
    """The block of each key group, shape (p,): what runs together in every answer; None where each stands for itself."""
    w = workload
    if w.key_groups <= MOST_KEY_GROUPS:
        return None
    places = np.array([w.current, *answers])
    moving = np.flatnonzero((places != w.current).any(axis=0))
    alone = np.sort(moving[np.argsort(-w.last_load[moving], kind="stable")][:MOST_ALONE])
    block = np.full(w.key_groups, -1, dtype=np.int64)
    block[alone] = np.arange(alone.size)
    rest = np.flatnonzero(block < 0)
    block[rest] = alone.size + np.unique(places[:, rest], axis=1, return_inverse=True)[1].ravel()
    return block


def contracted(problem: Problem, block: IntArray) -> Problem:
    """The problem about blocks: loads, states and traffic add up; its rules are counted by `rules_of`."""
    w: Workload = problem.workload  # type: ignore[attr-defined]  # problems with blocks have a workload
    size = int(block.max()) + 1
    join = sp.csr_array((np.ones(block.size), (block, np.arange(block.size))), shape=(size, block.size))
    first = np.unique(block, return_index=True)[1]
    traffic = [join @ t @ join.T for t in (*w.earlier_traffic, w.traffic) if t is not None]
    small = Workload(
        load=(join @ w.load.T).T, state=join @ w.state, current=w.current[first], nodes=w.capacity, draining=w.draining,
        traffic=traffic[0] if len(traffic) == 1 else traffic or None,
        home=None if w.home is None else w.home[first], node_names=w.node_names, domains=w.domains,
        resources={name: join @ use for name, use in w.resources.items()},
    )  # fmt: skip
    has = {f.name for f in fields(problem) if f.init}  # type: ignore[arg-type]  # every problem is a dataclass
    changes: dict[str, Any] = {"workload": small}
    if "rules" in has:
        changes["rules"] = ()
    if "priorities" in has:
        changes["priorities"] = tuple(p for p in problem.priorities if p != "broken_rules")  # type: ignore[attr-defined]
    if getattr(problem, "scenarios", None) is not None:
        changes["scenarios"] = (join @ np.atleast_2d(problem.scenarios).T).T  # type: ignore[attr-defined]
    return replace(problem, **changes)  # type: ignore[type-var]


def rules_of(problem: Problem, at: IntArray, arrays: SharedArrays) -> dict[str, Any]:
    """The rules as the four forms, in numbers of entries; those that give way as one, and what they wish."""
    if not isinstance(problem, Ruled) or not problem.rules:
        return {"rules": [], "stated": None, "rules_left": 0}
    soft, scope = problem.soft_rule, problem.scope
    if soft is None:
        low = [(r, Lowered.of(r.forms(scope), scope.workload.current, scope.places)) for r in problem.rules]
    else:
        low = [(soft, problem.lowered)]
    members = sum(sum(one.size for one in x.merged) + sum(r.key_groups.size for r in x.rooms) for _, x in low)
    if members > 300_000:  # such rules are left to `check`
        return {"rules": [], "stated": None, "rules_left": len(problem.rules)}
    made = [_forms(str(rule), rule.name, lowered, at, arrays) for rule, lowered in low]
    stated = None if soft is None else _forms("rules", "rules", problem.stated, at, arrays)
    return {"rules": made, "stated": stated, "rules_left": 0}


def _forms(words: str, name: str, low: Lowered, at: IntArray, arrays: SharedArrays) -> dict[str, Any]:
    shut: dict[bytes, int] = {}
    nodes: list[list[int]] = []
    closed = []
    for k in [] if low.closed is None else np.flatnonzero(low.closed.any(axis=1)).tolist():
        row = low.closed[k]  # type: ignore[index]  # else there are none
        if row.tobytes() not in shut:
            shut[row.tobytes()] = len(nodes)
            nodes.append(np.flatnonzero(row).tolist())
        closed.append([int(at[k]), shut[row.tobytes()]])

    def weighed(form: Any) -> dict[str, Any]:
        plain = bool((form.weights == 1).all())
        return {"groups": at[form.key_groups].tolist(), "weights": None if plain else as_json(form.weights)}

    rooms = [
        {**weighed(r), "domain": arrays.at(r.domain), "least": arrays.at(r.least), "most": arrays.at(r.most)}
        for r in low.rooms
    ]
    budgets = [{**weighed(b), "into": arrays.at(b.into.astype(np.int64)), "most": as_json(b.most)} for b in low.budgets]
    merged = [at[one].tolist() for one in low.merged]
    return {
        "words": visible(words), "name": name, "merged": merged, "closed": closed, "shut": nodes, "rooms": rooms,
        "budgets": budgets,
    }  # fmt: skip


def model_record(problem: Problem, answers: Sequence[IntArray]) -> dict[str, Any]:
    """The workload and the constants of its problem; with `answers` as blocks where there are too many key groups."""
    played = problem.played()
    w: Workload = problem.workload  # type: ignore[attr-defined]  # the caller has looked
    block = blocks_of(w, answers)
    arrays = SharedArrays()
    at = np.arange(w.key_groups) if block is None else block
    small = w
    if block is not None:
        posed = contracted(problem, block)
        small = posed.workload  # type: ignore[attr-defined]
        played = posed.played()
    made = {
        "name": problem.name, "key_groups": w.key_groups, "nodes": [node_name(w, i) for i in range(w.nodes)],
        "capacity": w.capacity, "draining": w.draining.astype(np.int64), "load": small.load, "state": small.state,
        "current": small.current, "traffic": small.traffic, "home": small.home,
        "total_traffic": 0.0 if small.traffic is None else float(small.traffic.sum()),
        "keys": [key_name(w, k) for k in range(w.key_groups)], "count": None, "block": None,
        "labels": _labels(w), "domains": {name: list(map(str, labels)) for name, labels in w.domains.items()},
        "by_hand": not isinstance(played, str), "play": None if isinstance(played, str) else played,
        **rules_of(problem, at, arrays), "arrays": arrays.rows,
    }  # fmt: skip
    return {**made, **({} if block is None else _blocked(w, block))}


def node_name(w: Workload, i: int) -> str:
    """A node's name; with the word where it has but a number."""
    return f"node {i}" if w.node_names is None else str(w.node(i))


def key_name(w: Workload, k: int) -> str:
    """A key group's name, likewise."""
    return f"key group {k}" if w.keys is None else str(w.key(k))


def _blocked(w: Workload, block: IntArray) -> dict[str, Any]:
    """Names of the blocks, their numbers of key groups, and the nodes to which these hash."""
    count, first = np.bincount(block), np.unique(block, return_index=True)[1]
    keys = [
        key_name(w, k) if many == 1 else f"{many:,} key groups of {node_name(w, int(w.current[k]))}"
        for k, many in zip(first.tolist(), count.tolist(), strict=True)
    ]
    made: dict[str, Any] = {"keys": keys, "count": count, "block": block, "labels": {}}
    if w.home is not None:
        homes: list[dict[str, int]] = [{} for _ in keys]
        pairs, many = np.unique(np.array([block, w.home]), axis=1, return_counts=True)
        for b, i, c in zip(*pairs.tolist(), many.tolist(), strict=True):
            homes[b][str(i)] = c
        made["home"] = homes
    return made


def _labels(w: Workload) -> dict[str, list[str]]:
    """A label a key group, to filter by: its operator, and the columns that rules may name."""
    columns = {name: list(map(str, labels)) for name, labels in w.groups.items()}
    return columns if w.operator is None else {"operator": list(map(str, w.operator.tolist())), **columns}


def answer_record(
    solution: Solution,
    name: str,
    trade: Trade | None,
    model: Mapping[str, Any] | None,
    schedule: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """An answer: its figures, its moves and, where there is one, their schedule."""
    s = solution
    record: dict[str, Any] = {
        "name": name, "method": s.method, "status": s.status, "objective": s.objective, "bound": s.bound,
        "seconds": s.seconds, "metrics": {k: v for k, v in s.metrics.items() if np.isfinite(v)}, "moves": [],
        "second": None if trade is None else s.metrics.get(trade.metric), "schedule": schedule,
        "limit": None if trade is None else getattr(s.problem, trade.limit, None),
    }  # fmt: skip
    if model is not None:
        target = reached(s)
        if target is not None:
            first = np.arange(target.size)
            if model["block"] is not None:
                first = np.unique(model["block"], return_index=True)[1]
            current = s.problem.reached(np.asarray(s.assignment))[0].current[first]
            record["moves"] = [[int(b), int(target[first[b]])] for b in np.flatnonzero(target[first] != current)]
    return record


def reached(solution: Solution) -> IntArray | None:
    """The node of each key group that an answer asks for now; None where it asks for something else."""
    try:
        return solution.problem.reached(np.asarray(solution.assignment))[1]
    except (InputError, AttributeError):
        return None
