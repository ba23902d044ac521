"""Which limits a problem has, what the problem is with another value of one, and what value an assignment needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from keyshift.models import Problem, metrics
from keyshift.models.allocation import KeyGroupAllocation
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.intervals import IntervalMigration, MigrationPolicy, MigrationSequence
from keyshift.models.intervals.exact_arithmetic import Prefix
from keyshift.models.mclb import MCLB, MovementWithinLimits
from keyshift.models.routing import MixedRouting
from keyshift.models.splitting import KeySplitting
from keyshift.plans.targets import grown

Number = float | Fraction


@dataclass(frozen=True, eq=False)
class Limit:
    """One limit of a problem.

    Attributes
    ----------
    name : str
        The problem's parameter, ``"resource_capacity.<name>"``, or ``"nodes"``.
    value : float or Fraction
        As it is now; for a resource, 1: a factor on every node's capacity; for nodes, how many there are.
    at : callable
        The problem with another value.
    needed : callable or None
        The tightest value that an assignment keeps; None where that says nothing.
    ends : float or None
        A value that limits nothing; None where there is none.
    whole : bool
        Whether only whole numbers make sense.
    step : float
        A little more of it, for marginal values.
    down : bool
        Whether the limit loosens as the value falls.
    ordered : bool
        Whether a looser value admits whatever a tighter one does. Another number of nodes does not: it moves the mean.
    arithmetic : callable or None
        The least value by arithmetic alone, where all other limits cannot stand in its way.
    """

    name: str
    value: Number
    at: Callable[[Number], Problem]
    needed: Callable[[np.ndarray], Number] | None = None
    ends: Number | None = None
    whole: bool = False
    step: float = 1.0
    down: bool = False
    ordered: bool = True
    arithmetic: Callable[[], Number] | None = None


def limits_of(problem: Problem) -> list[Limit]:
    """The limits of a problem that are set, and its number of nodes."""
    for kind, read in _READERS.items():
        if isinstance(problem, kind):
            return read(problem)
    return []


def _set(problem: Any, name: str) -> Callable[[Number], Problem]:
    return lambda value: replace(problem, **{name: value})


def _counted(problem: Any, name: str) -> Callable[[Number], Problem]:
    return lambda value: replace(problem, **{name: int(value)})


def _more_nodes(problem: Any) -> Limit:
    """Nodes added to the workload, each like the largest, with the largest limits of further resources."""
    n = problem.workload.nodes

    def at(nodes: Number) -> Problem:
        changes: dict[str, Any] = {"workload": grown(problem.workload, int(nodes))}
        if capacity := getattr(problem, "resource_capacity", None):
            new = int(nodes) - n
            changes["resource_capacity"] = {
                name: np.concatenate([limit, np.full(new, np.max(limit))]) for name, limit in capacity.items()
            }
        return replace(problem, **changes)

    return Limit("nodes", n, at, whole=True, ordered=False)


def _migrations(problem: KeyGroupAllocation | CollocatedAllocation) -> list[Limit]:
    """(2): how many key groups move, and at what cost."""
    w, found = problem.workload, []
    if problem.max_migrations is not None:
        found.append(
            Limit(
                "max_migrations", problem.max_migrations, _counted(problem, "max_migrations"),
                lambda a: metrics.migrations(w, a), w.key_groups, whole=True,
            )
        )  # fmt: skip
    if problem.max_migration_cost is not None:
        cost = problem.alpha * w.state
        found.append(
            Limit(
                "max_migration_cost", problem.max_migration_cost, _set(problem, "max_migration_cost"),
                lambda a: float(cost[metrics.moved(w, a)].sum()), float(cost.sum()),
                step=0.1 * problem.max_migration_cost or float(cost.min()) or 1.0,
            )
        )  # fmt: skip
    return found


def _resources(problem: KeyGroupAllocation | CollocatedAllocation) -> list[Limit]:
    """(7): a common factor on the capacities of one resource."""
    w, capacities = problem.workload, dict(problem.resource_capacity or {})
    made = []
    for name, limit in capacities.items():
        use, room = {**w.resources, "load": w.last_load}[name], np.asarray(limit)

        def at(factor: Number, name: str = name) -> Problem:
            scaled = {r: np.asarray(c) * (float(factor) if r == name else 1.0) for r, c in capacities.items()}
            return replace(problem, resource_capacity=scaled)

        def needed(a: np.ndarray, use: np.ndarray = use, room: np.ndarray = room) -> float:
            used = np.bincount(a, weights=use, minlength=w.nodes)
            return float((used[used > 0] / np.maximum(room[used > 0], 1e-300)).max(initial=0.0))

        positive = room[room > 0]
        ends = float(use.sum() / positive.min()) if positive.size else None
        if ends is not None:
            made.append(Limit(f"resource_capacity.{name}", 1.0, at, needed, max(ends, 1.0), step=0.1))
    return made


def _allocation(problem: KeyGroupAllocation) -> list[Limit]:
    return [*_migrations(problem), *_resources(problem), _more_nodes(problem)]


def _collocation(problem: CollocatedAllocation) -> list[Limit]:
    found = []
    if problem.max_load_distance is not None:
        figure = "load_distance_percent" if problem.distance_unit == "percent" else "load_distance"
        ends = (
            100.0 * problem.workload.nodes if figure == "load_distance_percent" else float(problem.remote_loads.sum())
        )
        found.append(
            Limit(
                "max_load_distance", problem.max_load_distance, _set(problem, "max_load_distance"),
                lambda a: problem.metrics(a)[figure], max(ends, problem.max_load_distance),
            )
        )  # fmt: skip
    return [*found, *_migrations(problem), *_resources(problem), _more_nodes(problem)]


def _mclb(problem: MCLB) -> list[Limit]:
    w, found = problem.workload, []
    if problem.max_state_moved is not None:
        found.append(
            Limit(
                "max_state_moved", problem.max_state_moved, _set(problem, "max_state_moved"),
                lambda a: metrics.state_moved(w, a), float(w.state.sum()),
                step=0.1 * problem.max_state_moved or 0.1 * float(w.state.sum()) or 1.0,
            )
        )  # fmt: skip
    return [*found, _more_nodes(problem)]


def _movement(problem: MovementWithinLimits) -> list[Limit]:
    highest = float(problem.load.sum(axis=1).max())

    def used(a: np.ndarray) -> np.ndarray:
        loads = problem.node_loads(a)
        return loads[:, np.bincount(a, minlength=loads.shape[1]) > 0]

    def lower(a: np.ndarray) -> float:
        loads = used(a)  # only a lower limit of 0 lets nodes be empty that should be used
        return float(loads.min()) if loads.shape[1] == problem.nodes_after else 0.0

    return [
        Limit(
            "upper", problem.upper, _set(problem, "upper"), lambda a: float(used(a).max()),
            max(highest, problem.upper), step=0.05 * problem.upper,
        ),
        Limit(
            "lower", problem.lower, _set(problem, "lower"), lower, 0.0,
            step=0.05 * problem.lower or 1.0, down=True,
        ),
        Limit("nodes_after", problem.nodes_after, _counted(problem, "nodes_after"), whole=True, ordered=False),
    ]  # fmt: skip


def _routing(problem: MixedRouting) -> list[Limit]:
    w = problem.workload
    fair = metrics.mean_load(w) * w.capacity

    def theta(a: np.ndarray) -> float:
        if problem.several:
            return problem.theta(a)
        share = (metrics.last_node_loads(w, a) / fair - 1)[w.kept] if fair.max() > 0 else np.zeros(1)
        return float(max(0.0, (share if problem.sides == "upper" else np.abs(share)).max()))

    found = [
        Limit(
            "theta_max", problem.theta_max, _set(problem, "theta_max"), theta,
            max(float(w.capacity[w.kept].sum() / w.capacity[w.kept].min()), problem.theta_max), step=0.01,
        )
    ]  # fmt: skip
    if problem.max_table_size is not None:
        found.append(
            Limit(
                "max_table_size", problem.max_table_size, _counted(problem, "max_table_size"),
                lambda a: metrics.table_size(w, a), w.key_groups, whole=True,
            )
        )  # fmt: skip
    return [*found, _more_nodes(problem)]


def _intervals(problem: IntervalMigration | MigrationSequence | MigrationPolicy) -> list[Limit]:
    """Tau: whether any partition fits is arithmetic on the loads alone."""
    prefix: Prefix = problem.prefix
    counts = (problem.nodes_after,) if isinstance(problem, IntervalMigration) else problem.counts
    tau = Fraction(problem.tau)
    least = Limit(
        "tau", tau, _set(problem, "tau"), ends=max(tau, Fraction(max(counts))), step=0.01,
        arithmetic=lambda: max(prefix.smallest_tau(n) for n in counts),
    )  # fmt: skip
    if isinstance(problem, IntervalMigration):
        return [
            least,
            Limit("nodes_after", problem.nodes_after, _counted(problem, "nodes_after"), whole=True, ordered=False),
        ]
    return [least]


def _splitting(problem: KeySplitting) -> list[Limit]:
    made = []
    if problem.choices is not None:
        made.append(
            Limit("choices", problem.choices, lambda d: problem.with_choices(int(d)), ends=problem.workers, whole=True)
        )
    if problem.equal_speeds:
        at = _counted(problem, "workers")
        made.append(Limit("workers", problem.workers, at, whole=True, ordered=False))
    return made


_READERS: dict[type[Problem], Callable[[Any], list[Limit]]] = {
    KeyGroupAllocation: _allocation,
    CollocatedAllocation: _collocation,
    MCLB: _mclb,
    MovementWithinLimits: _movement,
    MixedRouting: _routing,
    IntervalMigration: _intervals,
    MigrationSequence: _intervals,
    MigrationPolicy: _intervals,
    KeySplitting: _splitting,
}
