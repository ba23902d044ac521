"""The data in the page of `keyshift.explore`: names, constants, rules as forms, answers; of many key groups, blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any

import numpy as np

from keyshift.catalogue.method import Trade
from keyshift.models import InputError, Problem, Solution, Workload
from keyshift.models.rules.lowered import Lowered
from keyshift.models.rules.ruled import Ruled
from keyshift.models.workload import IntArray
from keyshift.terminal import visible

MOST_KEY_GROUPS = 3000
"""Of more, those that move in no answer become a block a node, and of the others the heaviest stay by themselves."""
MOST_ALONE = 1000
MOST_MEMBERS = 300_000
"""Rules about more key groups together are left to `check`."""


@dataclass
class SharedArrays:
    """SharedArrays that many rules share, written once."""

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
    import scipy.sparse as sp

    w: Workload = problem.workload  # type: ignore[attr-defined]  # whoever has blocks has a workload
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
        return {"rules": [], "wished": None, "rules_left": 0}
    soft, scope = problem.yielding, problem.scope
    if soft is None:
        low = [(r, Lowered.of(r.forms(scope), scope.workload.current, scope.places)) for r in problem.rules]
    else:
        low = [(soft, problem.lowered)]
    members = sum(sum(one.size for one in x.merged) + sum(r.key_groups.size for r in x.rooms) for _, x in low)
    if members > MOST_MEMBERS:
        return {"rules": [], "wished": None, "rules_left": len(problem.rules)}
    made = [_forms(str(rule), rule.name, lowered, at, arrays) for rule, lowered in low]
    wished = None if soft is None else _forms("rules", "rules", problem.wished, at, arrays)
    return {"rules": made, "wished": wished, "rules_left": 0}


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
            current = s.problem.workload.current[first]  # type: ignore[attr-defined]
            record["moves"] = [[int(b), int(target[first[b]])] for b in np.flatnonzero(target[first] != current)]
    return record


def reached(solution: Solution) -> IntArray | None:
    """The node of each key group that an answer asks for now; None where it asks for something else."""
    try:
        return solution.problem.reached(np.asarray(solution.assignment))[1]
    except (InputError, AttributeError):
        return None
