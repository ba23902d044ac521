"""Rows that a caller has added to a model, the equivalent rules, and a start from keyshift's search."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from keyshift.models import Budget, Problem
from keyshift.models.rules import Apart, Count, Never, Only, Together, Use
from keyshift.solving import solve

if TYPE_CHECKING:
    from keyshift.models.rules.rule import Rule

Place = tuple[int, int]
"""A key group and a node."""


class Row(NamedTuple):
    """A linear row that was added: its factors by the names of variables, and its two sides."""

    terms: Mapping[str, float]
    low: float
    high: float


def places(model: Any) -> dict[str, Place]:
    """The variables that place a key group on a node, by name; empty where the model has none for each key group."""
    w = getattr(model.problem, "workload", None)
    if w is None or not hasattr(model.problem, "rules"):
        return {}
    keys, nodes = ({s: i for i, s in enumerate(of.symbols)} for of in (w.names_of_key_groups, w.names_of_nodes))
    found = {}
    for name in model.names():
        parts = name[2:-1].split(",") if name.startswith("x[") else []
        if len(parts) == 2 and parts[0] in keys and parts[1] in nodes:
            found[name] = keys[parts[0]], nodes[parts[1]]
    return found


def as_rules(
    rows: Iterable[Row], placed: Mapping[str, Place], problem: Problem
) -> tuple[list[Rule], dict[str, np.ndarray], bool]:
    """The rules equivalent to some rows, the resources that they limit, and whether all rows are covered.

    ``x[k,i] = 0`` is `Never`, ``x[k,i] = 1`` is `Only`; ``x[k,i] + x[l,i] <= 1`` on every node is `Apart`, ``x[k,i] = x[l,i]``
    is `Together`; a limit on how many of all key groups a node has is `Count`, and any other limit on one node is `Use` of a
    resource of the row's factors.
    """
    w = problem.workload  # type: ignore[attr-defined]
    key, node = w.key, w.node
    on: dict[tuple[str, tuple[int, ...]], set[int]] = {}
    found: list[Rule] = []
    resources: dict[str, np.ndarray] = {}
    every = True
    for row in rows:
        at = [placed.get(name) for name in row.terms]
        if not at or None in at:
            every = False
            continue
        groups, nodes, factors = sorted(k for k, _ in at), {i for _, i in at}, sorted(set(row.terms.values()))  # type: ignore[misc]
        if len(at) == 1 and factors == [1.0]:
            where = ([key(groups[0])], [node(min(nodes))])
            found += [Only(*where)] if row.low > 0 else [Never(*where)] if row.high < 1 else []
        elif len(nodes) == 1 and factors == [1.0] and len(groups) == w.key_groups:
            least = math.ceil(row.low) if row.low > 0 else None
            most = math.floor(row.high) if row.high < w.key_groups else None
            found.append(Count(at_most=most, at_least=least, nodes=[node(min(nodes))]))
        elif len(nodes) == 1 and factors == [1.0] and 1 <= row.high < 2 and row.low <= 0:
            on.setdefault(("apart", tuple(groups)), set()).update(nodes)
        elif len(nodes) == 1 and len(at) == 2 and factors == [-1.0, 1.0] and row.low == row.high == 0:
            on.setdefault(("together", tuple(groups)), set()).update(nodes)
        elif len(nodes) == 1 and factors[0] >= 0 and row.low <= 0 and math.isfinite(row.high):
            use = np.zeros(w.key_groups)
            use[[k for k, _ in at]] = list(row.terms.values())  # type: ignore[misc]
            resources[f"added {len(resources) + 1}"] = use
            found.append(Use(f"added {len(resources)}", {str(node(min(nodes))): row.high}))
        else:
            every = False
    for (kind, those), nodes in on.items():
        shared = [i for i in range(w.nodes) if sum((k, i) in set(placed.values()) for k in those) > 1]
        if nodes >= set(shared):
            named = [key(k) for k in those]
            found.append(Apart(named) if kind == "apart" else Together(named))
        else:
            every = False
    return found, resources, every


def start_by_search(model: Any, rows: list[Row], budget: Budget, seed: int) -> tuple[np.ndarray | None, str]:
    """The search's answer under the problem's rules and those read from rows, adjusted to satisfy the other rows if possible.

    The model holds it as its start. First only what is not a placement is decided anew; then also the key groups that the rows
    are about. Beside it, what a message says of the rules.
    """
    placed = places(model)
    if not placed or {k for k, _ in placed.values()} != set(range(model.problem.workload.key_groups)):
        return None, ""
    rules, resources, every = as_rules(rows, placed, model.problem)
    said = _said_of(rules, every)
    problem: Any = model.problem
    if rules:
        w = problem.workload
        w = w.replace(resources={**w.resources, **resources})
        problem = problem.changed(workload=w, rules=[*problem.rules, *rules])
    share = max(1.0, min(10.0, budget.remaining / 4))  # also where a large model has taken the time to be read
    if problem.conflicts():
        return None, said
    found = solve(problem, time_limit=share, seed=seed, progress=False).assignment
    if found is None:
        return None, said
    if every and all(_keeps(found, row, placed) for row in rows):
        model._set_start(found)
        model._searched = True
        return found, said
    named = {placed[name][0] for row in rows for name in row.terms if name in placed}
    for free in (set(), named) if named else (set(),):
        fixed = {name: float(found[k] == i) for name, (k, i) in placed.items() if k not in free}
        kept = model._near(fixed, Budget(budget.remaining / 2), seed)
        if kept is not None:
            return kept, said
    return None, said


def _keeps(assignment: np.ndarray, row: Row, placed: Mapping[str, Place]) -> bool:
    """Whether an assignment keeps a row over placements alone."""
    value = sum(factor for name, factor in row.terms.items() if assignment[placed[name][0]] == placed[name][1])
    slack = 1e-9 * max(1.0, abs(value))
    return row.low - slack <= value <= row.high + slack


def _said_of(rules: list[Rule], every: bool) -> str:
    """The part of a message that names the rules which say what rows say."""
    if not rules:
        return ""
    named = ", ".join(dict.fromkeys(map(str, rules[:3]))) + (f" and {len(rules) - 3} more" if len(rules) > 3 else "")
    what = "what was added is" if every else "a part of what was added is"
    return f"; {what} also a rule, with which keyshift.solve proves bounds: {named}"


_SUMS = {"at_most_one": (0.0, 1.0), "exactly_one": (1.0, 1.0), "bool_or": (1.0, math.inf), "bool_and": (0.0, math.inf)}
"""CP-SAT's kinds of rows over literals, and between what their sum is."""


def rows_of(proto: Any, since: int, name: Any) -> list[Row]:
    """The rows of a CP-SAT model from a place on; those that are not linear limit nothing, and have factors of 0."""
    found = []
    for row in list(proto.constraints)[since:]:
        literals = list(row.enforcement_literal)
        read = None
        for kind, (low, high) in _SUMS.items():
            if getattr(row, f"has_{kind}")():
                literals += (inside := list(getattr(row, kind).literals))
                read = Row({name(v): 1.0 for v in inside}, low, high)
        if row.has_linear():
            literals += (inside := list(row.linear.vars))
            terms = {name(v): float(c) for c, v in zip(row.linear.coeffs, inside, strict=True)}
            read = Row(terms, float(row.linear.domain[0]), float(row.linear.domain[1]))
        plain = not row.enforcement_literal and not row.has_bool_and() and min(literals, default=0) >= 0
        if read is None or not plain or (row.has_linear() and len(row.linear.domain) > 2):
            read = Row({name(max(v, -v - 1)): 0.0 for v in literals}, -math.inf, math.inf)
        found.append(read)
    return found
