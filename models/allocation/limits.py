"""What plans, remedies and explanations ask about the limits (2) and (7) of an allocation, collocated or not."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from keyshift.models import metrics
from keyshift.models.base.figures import figure
from keyshift.models.problem import SLACK, Limit, Number, Problem
from keyshift.models.rules.lowered import Closed, Lowered
from keyshift.models.rules.ruled import Forms
from keyshift.models.workload import FloatArray


def allocation_limits(problem: Any) -> list[Limit]:
    """The limits (2) and (7) of an allocation, collocated or not, and its number of nodes."""
    w, found = problem.workload, []
    if problem.max_migrations is not None:
        needed = partial(metrics.migrations, w)
        found.append(Limit.of(problem, "max_migrations", whole=True, needed=needed, ends=w.key_groups))
    if (most := problem.max_migration_cost) is not None:
        cost = problem.alpha * w.state
        found.append(
            Limit.of(
                problem, "max_migration_cost", needed=lambda a: float(cost[metrics.moved(w, a)].sum()),
                ends=float(cost.sum()), step=0.1 * most or float(cost.min()) or 1.0,
            )
        )  # fmt: skip
    capacities = problem.resource_capacity
    found += [_capacity_limit(problem, name) for name, room in capacities.items() if (room > 0).any()]

    def wider(new: int) -> dict[str, FloatArray]:
        return {name: np.append(room, np.full(new, room.max())) for name, room in capacities.items()}

    return [*found, *problem.rule_limits, problem.more_nodes(**({"resource_capacity": wider} if capacities else {}))]


def emptied(problem: Any, most: float, loaded: bool) -> Any:
    """The problem whose draining nodes keep no key group, or no `loaded` one; None where `most` allows one."""
    w, amounts = problem.workload, _amounts(problem, loaded)
    chosen = np.flatnonzero(amounts)
    if amounts[chosen].min(initial=np.inf) <= most:
        return None
    rule = Forms(Lowered.of([Closed(chosen, w.draining)], w.current, w.nodes))
    return replace(problem, priorities=(), rules=(*problem.rules, rule))


def least_left(problem: Any, loaded: bool) -> float:
    """A lower bound on what draining nodes keep, in load or in key groups: by open nodes, and by each limit of (2)."""
    w, space, amounts = problem.workload, problem.space, _amounts(problem, loaded)
    here = np.flatnonzero(w.draining[w.current])
    leaving = here[space.enter[:, w.kept].any(axis=1)[space.kind[here]]]
    leave = [float(amounts[leaving].sum())]
    if problem.max_migrations is not None:
        leave.append(float(np.sort(amounts[leaving])[::-1][: problem.max_migrations].sum()))
    if problem.cost_limit is not None:  # as if key groups could be divided
        cost, amount = problem.migration_cost[leaving], amounts[leaving]
        order = np.argsort(cost / np.maximum(amount, 1e-300), kind="stable")
        rest = problem.cost_limit.limit - (np.cumsum(cost[order]) - cost[order])
        with np.errstate(over="ignore"):  # what costs next to nothing can all go
            share = np.where(cost[order] > 0, np.clip(rest / np.maximum(cost[order], 1e-300), 0.0, 1.0), 1.0)
        leave.append(float(share @ amount[order]))
    left = float(amounts[here].sum()) - min(leave)
    error_bound = 1e-9 * float(amounts.sum())
    return max(0.0, left - error_bound) if loaded else float(math.ceil(left - error_bound))


def _amounts(problem: Any, loaded: bool) -> FloatArray:
    return problem.workload.last_load if loaded else np.ones(problem.workload.key_groups)  # type: ignore[no-any-return]


def _capacity_limit(problem: Any, name: str) -> Limit:
    """(7): a common factor on the capacities of a resource that some node has."""
    w, capacities = problem.workload, problem.resource_capacity
    use, room = {**w.resources, "load": w.last_load}[name], capacities[name]

    def at(factor: Number) -> Problem:
        return replace(problem, resource_capacity={**capacities, name: room * float(factor)})

    def needed(a: np.ndarray) -> float:
        used = np.bincount(a, weights=use, minlength=w.nodes)
        return float((used[used > 0] / np.maximum(room[used > 0], 1e-300)).max(initial=0.0))

    ends = float(use.sum() / room[room > 0].min())
    return Limit(f"resource_capacity.{name}", 1.0, at, needed, max(ends, 1.0), step=0.1)


def binding_limits(problem: Any, chosen: np.ndarray) -> list[str]:
    """The limits and nodes without slack, with their numbers in the formulation."""
    w, figures = problem.workload, problem.metrics(chosen)
    found = []
    if problem.max_migrations is not None and figures["migrations"] >= problem.max_migrations:
        found.append(f"(2) all {problem.max_migrations} migrations are used")
    if problem.max_migration_cost is not None:
        spare = problem.max_migration_cost - figures["migration_cost"]
        unmoved = problem.migration_cost[~metrics.moved(w, chosen)]
        if unmoved.size and spare < unmoved.min() - SLACK * max(1.0, problem.max_migration_cost):
            found.append(f"(2) the migration cost left, {figure(spare)}, moves no further key group")
    return found + _most_deviating(problem, chosen) + _full(problem, chosen)


def _most_deviating(problem: Any, chosen: np.ndarray) -> list[str]:
    """The nodes that make for the load distance, in every window that counts in it."""
    w, distances, near = problem.workload, problem.distances(chosen), SLACK * problem.scale
    found, weights, k = [], problem.planned.weights(distances), problem.planned.count
    for s, (deviation, distance) in enumerate(zip(problem.deviations(chosen), distances.tolist(), strict=True)):
        if distance <= near or weights[s] == 0:
            continue
        what = "the whole load distance" + (f" of window {s + 1} of {k}" if k > 1 else "")
        above, below = deviation >= distance - near, w.kept & (deviation <= near - distance)
        for number, nodes, side in ((3, above, "above"), (4, below, "below")):
            found += [
                f"({number}) node {w.node(i)} lies {figure(abs(deviation[i]))} {side} the mean, {what}"
                for i in np.flatnonzero(nodes)
            ]
    return found


def _full(problem: Any, chosen: np.ndarray) -> list[str]:
    """Nodes whose capacity (7) has no room for even the smallest key group."""
    w, found = problem.workload, []
    for name, limit in problem.resource_capacity.items():
        use = problem.usage(name)
        room = limit - np.bincount(chosen, use, w.nodes)
        tight = room < use[use > 0].min(initial=use.max()) * (1 - SLACK)
        found += [
            f"(7) node {w.node(i)} has {figure(room[i])} of {name} left, too little for any key group"
            for i in np.flatnonzero(tight)
        ]
    return found
