"""The four forms as rows of a statement, in CP-SAT and in Pyomo. The numbers are those of `keyshift.models.rules.lowered`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from keyshift.models.base.integers import Knapsack, scaled
from keyshift.models.base.pyomo import errors, pyo
from keyshift.models.problem import SLACK
from keyshift.models.rules.lowered import Lowered, MoveBudget, Rooms
from keyshift.models.stages import WholeMeasure

Pairs = Mapping[tuple[int, int], Any]
"""x by key group and node; pairs that are not open have none."""


def _on_closed(lowered: Lowered, x: Pairs) -> list[Any]:
    """(2) The variables of closed pairs."""
    closed = lowered.closed
    return [] if closed is None else [var for (k, i), var in x.items() if closed[k, i]]


def merged_rows(lowered: Lowered, x: Pairs, nodes: int) -> Iterator[tuple[Any, Any]]:
    """(1) Both sides of each row: 0 where only one of two key groups may run on a node."""
    for members in lowered.merged:
        first, *others = members.tolist()
        for k in others:
            for i in range(nodes):
                one, other = x.get((first, i)), x.get((k, i))
                if one is not None or other is not None:
                    yield (one, 0) if other is None else (other, 0 if one is None else one)


def room_terms(room: Rooms, x: Pairs) -> list[list[tuple[int, Any]]]:
    """(3) For each domain of a room, the members (by their place in it) and their variables."""
    terms: list[list[tuple[int, Any]]] = [[] for _ in range(room.most.size)]
    domain = room.domain.tolist()
    inside = [i for i, d in enumerate(domain) if d >= 0]
    for place, k in enumerate(room.key_groups.tolist()):
        for i in inside:
            if (k, i) in x:
                terms[domain[i]].append((place, x[k, i]))
    return terms


def budget_terms(budget: MoveBudget, current: np.ndarray, x: Pairs) -> list[tuple[int, Any]]:
    """(4) The moves that a budget counts, each by its key group's place in it."""
    into = np.flatnonzero(budget.into).tolist()
    places = enumerate(budget.key_groups.tolist())
    return [(place, x[k, i]) for place, k in places for i in into if i != current[k] and (k, i) in x]


def add_to_cpsat(model: cp_model.CpModel, lowered: Lowered, x: Pairs, nodes: int) -> None:
    """Add (1) to (4); of (2), for pairs that have a variable nevertheless."""
    for var in _on_closed(lowered, x):
        model.add(var == 0).with_name("closed")
    for one, other in merged_rows(lowered, x, nodes):
        model.add(one == other).with_name("merged")
    for number, room in enumerate(lowered.rooms):
        for d, terms in enumerate(room_terms(room, x)):
            name = f"room[r{number},d{d}]"
            _at_most(model, room.weights, float(room.most[d]), terms, name)
            if room.least[d] > 0:
                least = int(np.ceil(room.least[d]))
                model.add(sum(int(room.weights[place]) * var for place, var in terms) >= least).with_name(name)
    for number, budget in enumerate(lowered.budgets):
        terms = budget_terms(budget, lowered.current, x)
        _at_most(model, budget.weights, budget.most, terms, f"budget[b{number}]")


def _at_most(
    model: cp_model.CpModel, weights: np.ndarray, most: float, terms: list[tuple[int, Any]], name: str
) -> None:
    """A row in whole numbers that never forbids what the floats of the check allow."""
    limit = Knapsack(weights, most * (1 + SLACK))
    for place, var in terms:
        if not limit.fits[place]:
            model.add(var == 0).with_name(name)
    keep_within(model, limit, terms, name)


def keep_within(model: cp_model.CpModel, limit: Knapsack, terms: Iterable[tuple[int, Any]], name: str) -> None:
    """A row for a limit on weights, given the items - by their place - that there is an expression for."""
    if limit.binds:
        whole, most = limit.whole()
        model.add(sum(int(whole[place]) * var for place, var in terms if whole[place]) <= most).with_name(name)


def linear_rows(
    lowered: Lowered, x: Pairs, nodes: int, total: Callable[[Iterable[Any]], Any]
) -> Iterator[tuple[str, Any]]:
    """(1) to (4) in floats, each with the name of its form, for solvers of linear programs; `total` is the language's sum.

    A row that has no variables is True or False.
    """
    for var in _on_closed(lowered, x):
        yield "closed", var == 0
    for one, other in merged_rows(lowered, x, nodes):
        yield "merged", one == other
    for room in lowered.rooms:
        for d, terms in enumerate(room_terms(room, x)):
            for row in _within(room.weights, float(room.most[d]), terms, total):
                yield "rooms", row
            if room.least[d] > 0:
                held = total(float(room.weights[place]) * var for place, var in terms)
                yield "rooms", held >= float(room.least[d]) if terms else False
    for budget in lowered.budgets:
        for row in _within(budget.weights, budget.most, budget_terms(budget, lowered.current, x), total):
            yield "budgets", row


def _within(
    weights: np.ndarray, most: float, terms: list[tuple[int, Any]], total: Callable[[Iterable[Any]], Any]
) -> Iterator[Any]:
    """A row in shares of the limit, as the other capacities are written; what exceeds it by itself is 0."""
    limit = Knapsack(weights, most * (1 + SLACK))
    yield from (var == 0 for place, var in terms if not limit.fits[place])
    weight = [(float(limit.weights[place]), var) for place, var in terms if limit.fits[place] and limit.weights[place]]
    if limit.binds and weight:
        scale = limit.most if limit.most > 0 else 1.0
        yield total(w / scale * var for w, var in weight) <= limit.most / scale


def add_to_pyomo(model: pyo.ConcreteModel, lowered: Lowered, x: Pairs, nodes: int) -> None:
    """Add (1) to (4), as lists of their names; of (2), for pairs that have a variable nevertheless."""
    if not lowered:
        return
    for name in ("closed", "merged", "rooms", "budgets"):
        setattr(model, name, pyo.ConstraintList())
    for name, row in linear_rows(lowered, x, nodes, pyo.quicksum):
        if not isinstance(row, bool | np.bool_):
            getattr(model, name).add(row)
        elif not row:  # of key groups that have no choice: a row still needs a variable
            free = next((var for var in x.values() if not isinstance(var, int | float)), None)
            if free is None:
                raise errors.InfeasibleConstraintException(f"{name}: what is given breaks a row")
            getattr(model, name).add(free <= -1)


# (5), by how much rules are broken, as an expression to minimise or to keep ---------------------------------------------


def _at(x: Pairs, members: np.ndarray, i: int) -> list[Any]:
    """The variables of some key groups on a node."""
    return [x[k, i] for k in members.tolist() if (k, i) in x]


def broken_in_cpsat(model: cp_model.CpModel, lowered: Lowered, x: Pairs, nodes: int) -> WholeMeasure:
    """(5) in whole numbers."""
    rooms = [(room, np.minimum(room.most * (1 + SLACK), room.weights.sum())) for room in lowered.rooms]
    parts = [np.ones(1), *(part / room.heaviest for room, most in rooms for part in (room.weights, room.least, most))]
    numbers = scaled(np.concatenate(parts))
    one, *whole = (part.tolist() for part in np.split(numbers.values, np.cumsum([part.size for part in parts])[:-1]))
    broken = one[0] * sum(_on_closed(lowered, x))
    for number, members in enumerate(lowered.merged):
        those = model.new_int_var(0, members.size, f"together[s{number}]")
        chosen = [model.new_bool_var(f"on[s{number},n{i}]") for i in range(nodes)]
        model.add_exactly_one(chosen)
        for i, here in enumerate(chosen):
            model.add(those <= sum(_at(x, members, i)) + members.size * (1 - here)).with_name(f"together[s{number}]")
        broken += one[0] * (members.size - those)
    for number, (room, _) in enumerate(rooms):
        weights, least, most = whole[3 * number : 3 * number + 3]
        for d, terms in enumerate(room_terms(room, x)):
            held = sum(weights[place] * var for place, var in terms)
            over = model.new_int_var(0, sum(weights) + least[d], f"over[r{number},d{d}]")
            model.add(over >= held - most[d]).with_name(f"over[r{number},d{d}]")
            model.add(over >= least[d] - held).with_name(f"under[r{number},d{d}]")
            broken += over
    return WholeMeasure.sum(numbers, broken, numbers.values.size, 1.0)


def broken_in_pyomo(model: pyo.ConcreteModel, lowered: Lowered, x: Pairs, nodes: int) -> Any:
    """(5) as a variable that is at least so much."""
    if hasattr(model, "broken"):
        return model.broken
    model.broken, model.chosen = pyo.Var(domain=pyo.NonNegativeReals), pyo.VarList(domain=pyo.Binary)
    model.over, model.soft = pyo.VarList(domain=pyo.NonNegativeReals), pyo.ConstraintList()
    parts = _on_closed(lowered, x)
    for members in lowered.merged:
        chosen, apart = [model.chosen.add() for _ in range(nodes)], model.over.add()
        model.soft.add(pyo.quicksum(chosen) == 1)
        for i, here in enumerate(chosen):
            model.soft.add(apart >= members.size * here - pyo.quicksum(_at(x, members, i)))
        parts.append(apart)
    for room in lowered.rooms:
        weights, most = (room.weights / room.heaviest).tolist(), room.most * (1 + SLACK) / room.heaviest
        for d, terms in enumerate(room_terms(room, x)):
            held, over = pyo.quicksum(weights[place] * var for place, var in terms), model.over.add()
            model.soft.add(over >= held - float(most[d]))
            model.soft.add(over >= float(room.least[d]) / room.heaviest - held)
            parts.append(over)
    model.soft.add(model.broken >= pyo.quicksum(parts))
    return model.broken
