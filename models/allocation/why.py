"""Why an allocation looks as it does: what each move is worth, and which limits hold it back. No solver behind it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keyshift.models import metrics
from keyshift.models.allocation.problem import KeyGroupAllocation
from keyshift.models.figures import figure, signed

NEAR = 1e-9
"""A limit is binding when it is met within this share of itself."""


@dataclass(frozen=True)
class Move:
    """One migration and what it is worth: by how much the load distance would rise if it alone were undone."""

    key_group: int
    source: int
    target: int
    load: float
    cost: float
    gain: float

    def __str__(self) -> str:
        where = f"key group {self.key_group}: node {self.source} -> {self.target}"
        return f"{where}, load {figure(self.load)}, worth {signed(self.gain)}"


@dataclass(frozen=True)
class AllocationExplanation:
    """The moves, the most valuable first; the nodes that set the load distance; the limits that are used up."""

    load_distance: float
    moves: tuple[Move, ...]
    binding: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([f"load distance {figure(self.load_distance)}", *map(str, self.moves), *self.binding])


def explain(problem: KeyGroupAllocation, assignment: object) -> AllocationExplanation:
    """Explain an assignment by arithmetic alone.

    Parameters
    ----------
    problem : KeyGroupAllocation
    assignment : array_like of int, shape (p,)

    Returns
    -------
    AllocationExplanation
        A gain may be negative: the move then serves another purpose, or none. Gains do not add up: two moves may be
        worth something only together.
    """
    chosen = problem.canonical(assignment)
    return AllocationExplanation(problem.objective(chosen), _moves(problem, chosen), tuple(_binding(problem, chosen)))


def _moves(problem: KeyGroupAllocation, chosen: np.ndarray) -> tuple[Move, ...]:
    w = problem.workload
    now = problem.objective(chosen)
    found = []
    for k in np.flatnonzero(metrics.moved(w, chosen)):
        undone = chosen.copy()
        undone[k] = w.current[k]
        found.append(
            Move(
                int(k), int(w.current[k]), int(chosen[k]), float(w.last_load[k]), float(problem.migration_cost[k]),
                problem.objective(undone) - now,
            )
        )  # fmt: skip
    return tuple(sorted(found, key=lambda move: (-move.gain, move.key_group)))


def _binding(problem: KeyGroupAllocation, chosen: np.ndarray) -> list[str]:
    """Limits and nodes without slack, by the numbers of the formulation."""
    w, figures = problem.workload, problem.metrics(chosen)
    deviation = metrics.deviations(w, chosen, problem.mean_load)
    distance, near = figures["load_distance"], NEAR * problem.scale
    found = []
    if problem.max_migrations is not None and figures["migrations"] >= problem.max_migrations:
        found.append(f"(2) all {problem.max_migrations} migrations are used")
    if problem.max_migration_cost is not None:
        spare = problem.max_migration_cost - figures["migration_cost"]
        unmoved = problem.migration_cost[~metrics.moved(w, chosen)]
        if unmoved.size and spare < unmoved.min() - NEAR * max(1.0, problem.max_migration_cost):
            found.append(f"(2) the migration cost left, {figure(spare)}, moves no further key group")
    if distance <= near:
        return found + _full(problem, chosen)
    above, below = deviation >= distance - near, w.kept & (deviation <= near - distance)
    for number, nodes, side in ((3, above, "above"), (4, below, "below")):
        found += [
            f"({number}) node {w.node(i)} lies {figure(abs(deviation[i]))} {side} the mean, the whole load distance"
            for i in np.flatnonzero(nodes)
        ]
    return found + _full(problem, chosen)


def _full(problem: KeyGroupAllocation, chosen: np.ndarray) -> list[str]:
    """Nodes whose capacity (7) has no room for even the smallest key group."""
    w, found = problem.workload, []
    for name, limit in (problem.resource_capacity or {}).items():
        room = np.asarray(limit) - np.bincount(chosen, problem.usage(name), w.nodes)
        used = problem.usage(name)[problem.usage(name) > 0]
        tight = room < (used.min() if used.size else 0.0) * (1 - NEAR)
        found += [
            f"(7) node {w.node(i)} has {figure(room[i])} of {name} left, too little for any key group"
            for i in np.flatnonzero(tight)
        ]
    return found
