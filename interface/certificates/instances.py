"""A problem, and an assignment of it, as a certificate states them: whole numbers of exact units, and fractions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

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


def _rows(load: np.ndarray) -> list[Record]:
    """Windows of loads, all in one unit."""
    flat = amounts(load.reshape(-1))
    p = load.shape[1]
    return [{"unit": flat["unit"], "numbers": flat["numbers"][t * p : (t + 1) * p]} for t in range(len(load))]


def _placed(problem: Any) -> Record:
    w = problem.workload
    return {
        "nodes": w.nodes, "state": amounts(w.state), "current": w.current.tolist(),
        "draining": np.flatnonzero(w.draining).tolist(), "slack": text(ALLOWED),
    }  # fmt: skip


def _splitting(problem: KeySplitting) -> Record:
    items = Items.of(problem)
    groups = [
        {"candidates": [int(i) for i in options if i >= 0], "count": int(count)}
        for options, count in zip(items.options, items.count, strict=True)
    ]
    return {"speeds": amounts(items.speeds), "weights": amounts(items.weight), "groups": groups}


def _routing(problem: MixedRouting) -> Record:
    w = problem.workload
    return {
        **_placed(problem), "load": amounts(w.last_load), "home": problem.home.tolist(), "capacity": amounts(w.capacity),
        "theta_max": text(problem.theta_max), "max_table_size": problem.max_table_size, "both_sides": problem.sides == "both",
    }  # fmt: skip


def _movement(problem: MovementWithinLimits) -> Record:
    return {
        **_placed(problem), "load": _rows(problem.load), "lower": text(problem.lower), "upper": text(problem.upper),
        "nodes_after": problem.nodes_after,
    }  # fmt: skip


def _allocation(problem: KeyGroupAllocation) -> Record:
    w, cost = problem.workload, problem.max_migration_cost
    return {
        **_placed(problem), "load": amounts(w.last_load), "capacity": amounts(w.capacity),
        "mean_rounded_up": problem.mean == "ceiling", "max_migrations": problem.max_migrations,
        "max_state_moved": None if cost is None or problem.alpha == 0 else text(Fraction(cost) / Fraction(problem.alpha)),
        "distance_floor": problem.distance_floor, "into_draining": problem.into_draining,
        "resources": [
            {"use": amounts(problem.usage(name)), "room": [text(float(r)) for r in np.asarray(room)]}
            for name, room in (problem.resource_capacity or {}).items()
        ],
    }  # fmt: skip


def _collocation(problem: CollocatedAllocation) -> Record:
    if problem.load_model.per_tuple > 0:
        raise InputError("certificates know no cost of serialisation: loads must be the same wherever key groups run")
    pairs, limit, w = problem.pairs, problem.max_load_distance, problem.workload
    mean = sum(map(Fraction, w.last_load.tolist())) / sum(map(Fraction, w.capacity[w.kept].tolist()))
    unit = mean / 100 if problem.distance_unit == "percent" else Fraction(1)
    return {
        **_allocation(problem.allocation), "traffic": amounts(pairs.traffic),
        "pairs": [[int(k), int(l)] for k, l in zip(pairs.first, pairs.second, strict=True)],
        "max_distance": None if limit is None else text(Fraction(limit) * unit),
    }  # fmt: skip


def _intervals(problem: Any) -> Record:
    return {**_placed(problem), "load": amounts(problem.workload.last_load), "tau": text(problem.tau)}


def _step(problem: IntervalMigration) -> Record:
    return {**_intervals(problem), "node_counts": [problem.nodes_after], "single": True}


def _sequence(problem: MigrationSequence) -> Record:
    return {**_intervals(problem), "node_counts": list(problem.counts), "single": False}


def exact_rows(problem: MigrationPolicy) -> dict[int, dict[int, Fraction]]:
    """The transition matrix in fractions, each row rescaled so that it sums to 1: floats need not."""
    made = {}
    for n, row in problem.transitions.items():
        chances = {after: Fraction(repr(float(p))) for after, p in row.items()}
        total = sum(chances.values())
        made[n] = {after: p / total for after, p in chances.items()}
    return made


def _policy(problem: MigrationPolicy) -> Record:
    rows = [[n, [[after, text(p)] for after, p in row.items()]] for n, row in exact_rows(problem).items()]
    return {
        **_intervals(problem), "transitions": rows, "discount": text(Fraction(repr(problem.discount))),
        "nodes_after": problem.nodes_after,
    }  # fmt: skip


def _balance(problem: MCLB) -> Record:
    limit = problem.max_state_moved
    return {
        **_placed(problem), "load": _rows(problem.workload.load), "max_state_moved": None if limit is None else text(limit)
    }  # fmt: skip


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
    if isinstance(problem, MigrationPolicy):
        return [[row.tolist() for row in state] for state in assignment]
    return assignment.tolist()
