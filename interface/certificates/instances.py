"""A problem, and an assignment of it, as a certificate states them: whole numbers of exact units, and fractions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import ceil, floor
from typing import Any

import numpy as np

from keyshift.certificates import verify
from keyshift.models import InputError, Problem
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.allocation.problem import SLACK
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.integers import whole_numbers
from keyshift.models.intervals import IntervalMigration, MigrationPolicy, MigrationSequence
from keyshift.models.mclb import MCLB, MovementWithinLimits
from keyshift.models.routing import MixedRouting
from keyshift.models.splitting import KeyPlacement, KeySplitting
from keyshift.models.splitting.items import Items
from keyshift.models.workload import FloatArray, IntArray

Record = dict[str, Any]
ALLOWED = Fraction(str(SLACK))
"""What the check allows a sum of floats to exceed a limit by, as a share: part of the instance, so that both sides of a
claim mean the same assignments."""


def text(value: Fraction | float | int) -> int | str:
    """An exact number for JSON: a whole one as it is, a fraction as text."""
    exact = Fraction(value)
    return int(exact) if exact.denominator == 1 else str(exact)


def amounts(values: Any) -> Record:
    """Numbers >= 0 as whole multiples of a power of two."""
    whole, shift = whole_numbers(np.asarray(values, dtype=np.float64))
    return {"unit": text(Fraction(1, 2**shift)), "numbers": [int(v) for v in whole]}


def _row(load: Any, limits: list[tuple[int, int]] | None = None) -> Record:
    """Loads, and the least and the most of them on each node, in whole units of load."""
    least, most = (None, None) if limits is None else zip(*limits, strict=True)
    return {"load": load, "least": least and list(least), "most": most and list(most)}


def _windows(load: FloatArray) -> list[Record]:
    """Windows of loads, all in one unit."""
    flat, p = amounts(load.reshape(-1)), load.shape[1]
    return [{"unit": flat["unit"], "numbers": flat["numbers"][t * p : (t + 1) * p]} for t in range(len(load))]


def _placed(
    problem: Any,
    rows: list[Record],
    *,
    state: float | None = None,
    empty: bool = True,
    closed: bool = True,
    **other: Any,
) -> Record:
    """What all problems share: at most so much state moves; draining nodes must be empty, or closed for those elsewhere."""
    w = problem.workload
    most = None if state is None else text(Fraction(state) * (1 + ALLOWED))
    rules = {"home": None, "max_moves": None, "max_entries": None, "in_use": None, "places": w.nodes} | other
    return {
        "nodes": w.nodes, "state": amounts(w.state), "current": w.current.tolist(), "empty": empty, "closed": closed,
        "draining": np.flatnonzero(w.draining).tolist(), "max_state": most, "rows": rows, **rules,
    }  # fmt: skip


def _splitting(problem: KeySplitting) -> Record:
    items = Items.of(problem)
    groups = [
        {"candidates": [int(i) for i in options if i >= 0], "count": int(count)}
        for options, count in zip(items.options, items.count, strict=True)
    ]
    return {"speeds": amounts(items.speeds), "weights": amounts(items.weight), "groups": groups}


def _routing(problem: MixedRouting) -> Record:
    """Node i carries at most 1 + theta, and at least 1 - theta, of the mean load for its capacity."""
    w, theta = problem.workload, Fraction(problem.theta_max)
    load, capacity = amounts(w.last_load), [*map(Fraction, w.capacity.tolist())]
    mean = Fraction(sum(load["numbers"])) / sum(c for c, kept in zip(capacity, w.kept, strict=True) if kept)
    extra = ALLOWED * mean * max(capacity)
    low = max(Fraction(0), 1 - theta) if problem.sides == "both" else Fraction(0)
    limits = [
        (max(0, ceil(low * mean * c - extra)), floor((1 + theta) * mean * c + extra)) if kept else (0, 0)
        for c, kept in zip(capacity, w.kept.tolist(), strict=True)
    ]
    return _placed(problem, [_row(load, limits)], home=problem.home.tolist(), max_entries=problem.max_table_size)


def _movement(problem: MovementWithinLimits) -> Record:
    w, used = problem.workload, problem.nodes_after
    low, high, places = Fraction(problem.lower), Fraction(problem.upper), max(w.nodes, used + int(w.draining.sum()))
    loads = _windows(problem.load)
    unit = Fraction(loads[0]["unit"])
    limit = max(0, ceil((low - ALLOWED * high) / unit)), floor(high * (1 + ALLOWED) / unit)
    return _placed(problem, [_row(load, [limit] * places) for load in loads], in_use=used, places=places)


def _allocation(problem: KeyGroupAllocation, limit: Fraction | None = None) -> Record:
    w, cost = problem.workload, problem.max_migration_cost
    mean = mean_of(problem)
    if problem.distance_floor:
        limit = mean
    rows = [_row(amounts(w.last_load))]
    for name, room in (problem.resource_capacity or {}).items():
        use = amounts(problem.usage(name))
        unit = Fraction(use["unit"])
        rows.append(_row(use, [(0, floor(Fraction(float(r)) * (1 + ALLOWED) / unit)) for r in np.asarray(room)]))
    state = None if cost is None or problem.alpha == 0 else float(cost) / problem.alpha
    return {
        **_placed(problem, rows, state=state, empty=False, closed=not problem.into_draining, max_moves=problem.max_migrations),
        "capacity": amounts(w.capacity), "mean_rounded_up": problem.mean == "ceiling",
        "widest": None if limit is None else text(limit + mean * ALLOWED),
    }  # fmt: skip


def mean_of(problem: KeyGroupAllocation) -> Fraction:
    """The mean node load, exactly; rounded up where the problem says so."""
    w = problem.workload
    mean = Fraction(sum(map(Fraction, w.last_load.tolist()))) / sum(map(Fraction, w.capacity[w.kept].tolist()))
    return Fraction(ceil(mean)) if problem.mean == "ceiling" else mean


def _collocation(problem: CollocatedAllocation) -> Record:
    if problem.load_model.per_tuple > 0:
        raise InputError("certificates know no cost of serialisation: loads must be the same wherever key groups run")
    if problem.minimise != "remote_traffic":
        raise InputError("certificates are about remote traffic, this problem minimises the total load")
    pairs, limit = problem.pairs, problem.max_load_distance
    unit = mean_of(problem.allocation) / 100 if problem.distance_unit == "percent" else Fraction(1)
    return {
        **_allocation(problem.allocation, None if limit is None else Fraction(limit) * unit),
        "traffic": amounts(pairs.traffic),
        "pairs": [[int(k), int(l)] for k, l in zip(pairs.first, pairs.second, strict=True)],
    }  # fmt: skip


def _intervals(problem: Any, modes: list[Any], discount: int | str = 1) -> Record:
    """`modes`: for each its number of nodes and the modes that may follow, with their chances; the first is now."""
    rows = [_row(amounts(problem.workload.last_load))]
    return {**_placed(problem, rows), "tau": text(problem.tau), "modes": modes, "discount": discount}


def _step(problem: IntervalMigration) -> Record:
    return _chain(problem, [problem.nodes_after])


def _chain(problem: Any, counts: Sequence[int]) -> Record:
    now = int(problem.workload.kept.sum())
    return _intervals(problem, [[n, [[t + 1, 1]] if t < len(counts) else []] for t, n in enumerate([now, *counts])])


def _sequence(problem: MigrationSequence) -> Record:
    return _chain(problem, problem.counts)


def _policy(problem: MigrationPolicy) -> Record:
    """A mode for each number of nodes that may come."""
    rows, now = exact_rows(problem), int(problem.workload.kept.sum())
    first = rows[now] if problem.nodes_after is None else {problem.nodes_after: Fraction(1)}
    mode: dict[int, int] = {}
    waiting = list(first)
    while waiting:
        if (n := waiting.pop(0)) not in mode:
            mode[n] = 1 + len(mode)
            waiting += rows[n]
    modes = [
        [n, [[mode[after], text(p)] for after, p in row.items()]]
        for n, row in [(now, first), *((n, rows[n]) for n in mode)]
    ]
    return _intervals(problem, modes, text(Fraction(repr(problem.discount))))


def exact_rows(problem: MigrationPolicy) -> dict[int, dict[int, Fraction]]:
    """The transition matrix in fractions, each row rescaled so that it sums to 1: floats need not."""
    made = {}
    for n, row in problem.transitions.items():
        chances = {after: Fraction(repr(float(p))) for after, p in row.items()}
        total = sum(chances.values())
        made[n] = {after: p / total for after, p in chances.items()}
    return made


def _balance(problem: MCLB) -> Record:
    return _placed(problem, [_row(load) for load in _windows(problem.workload.load)], state=problem.max_state_moved)


STATED: dict[type[Problem], Callable[[Any], Record]] = {
    KeySplitting: _splitting, KeyPlacement: _splitting, MixedRouting: _routing, MovementWithinLimits: _movement,
    KeyGroupAllocation: _allocation, CollocatedAllocation: _collocation, IntervalMigration: _step,
    MigrationSequence: _sequence, MigrationPolicy: _policy, MCLB: _balance,
}  # fmt: skip


def instance_of(problem: Problem) -> Record:
    """The instance of a certificate."""
    return STATED[type(problem)](problem)


def assignment_of(problem: Problem, assignment: np.ndarray) -> Any:
    """The assignment of a certificate: numbers of items for splitting, nodes for all others."""
    if isinstance(problem, KeySplitting):
        items = Items.of(problem)
        shares = items.share(assignment)
        return [
            [int(x) for x, i in zip(row, options, strict=True) if i >= 0]
            for row, options in zip(shares, items.options, strict=True)
        ]
    if isinstance(problem, IntervalMigration | MigrationSequence):
        return _rows_of_chain(problem.workload.current, np.atleast_2d(assignment))
    if isinstance(problem, MigrationPolicy):
        return _rows_of_policy(problem, assignment)
    return assignment.tolist()


def _rows_of_chain(current: IntArray, decisions: IntArray) -> list[list[list[int]]]:
    """Each decision with the nodes before it numbered from left to right; after the last nothing is decided."""
    rows: list[list[list[int]]] = []
    before: dict[int, int] | None = None
    for decided in decisions.tolist():
        known = before
        if known is not None:
            for i in decided:
                known.setdefault(i, len(known))
        rows.append([decided if known is None else [known[i] for i in decided]])
        before = {i: at for at, i in enumerate(dict.fromkeys(decided))}
    return [*rows, []]


def _rows_of_policy(problem: MigrationPolicy, assignment: np.ndarray) -> list[list[list[int]]]:
    """What each state decides for the numbers of nodes that may follow."""
    counts, rows = sorted(problem.transitions), exact_rows(problem)
    first = [problem.nodes_after] if problem.nodes_after is not None else list(rows[int(problem.workload.kept.sum())])
    made, states, seen = [], [list(first)], set()
    for decisions, followed in zip(assignment.tolist(), states, strict=False):
        made.append([decisions[counts.index(n)] for n in followed])
        for n, decided in zip(followed, made[-1], strict=True):
            state = n, verify.cuts(decided)
            if state not in seen:
                seen.add(state)
                states.append(list(rows[n]))
    return made
