"""The limits of an allocation: (2), (6) and (7) of key-group allocation and of collocation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from keyshift.models import guards, metrics
from keyshift.models.errors import InputError
from keyshift.models.integers import Knapsack
from keyshift.models.objectives import OverWindows
from keyshift.models.problem import Limit, Number, Problem, Violation
from keyshift.models.rules.ruled import Ruled
from keyshift.models.space import MoveSpace
from keyshift.models.workload import BoolArray, FloatArray, IntArray

SLACK = 1e-9
"""Relative rounding allowed when a sum of floats is held against a limit."""


class Limits(Ruled, OverWindows):
    """(2), (6), (7) and the rules of `KeyGroupAllocation`; the fields are its own."""

    max_migrations: int | None
    max_migration_cost: float | None
    alpha: float
    into_draining: bool
    resource_capacity: Mapping[str, ArrayLike | Mapping[str | int, float]] | None

    def _read_capacities(self, given: Mapping[str, Any]) -> Mapping[str, FloatArray]:
        known = {**self.workload.resources, "load": self.workload.last_load}
        limits = {}
        for name, limit in given.items():
            if name not in known:
                raise InputError(f"resource_capacity names {name!r}; the workload has {', '.join(sorted(known))}")
            full: Any = limit
            if isinstance(limit, Mapping):  # a node that is not named has room for everything
                w, everything = self.workload, float(known[name].sum())
                full = guards.by_name(f"resource_capacity[{name!r}]", limit, w.node_names, w.nodes, everything)
            elif np.ndim(limit) == 0:
                full = np.full(self.workload.nodes, limit)
            limits[name] = guards.non_negative(
                f"resource_capacity[{name!r}]", full, length=self.workload.nodes, of="nodes"
            )
        return MappingProxyType(limits)

    @property
    def migration_cost(self) -> FloatArray:
        """mc_k = alpha * state, shape (p,)."""
        return self.alpha * self.workload.state

    @cached_property
    def space(self) -> MoveSpace:
        """Which key group may run on which node, by (6) and by the rules."""
        return self.lowered.narrowed(MoveSpace.of(self.workload.current, self.workload.kept | self.into_draining))

    @property
    def allowed(self) -> BoolArray:
        """Which key group may run on which node under (6), shape (p, n): what `space` allows."""
        return self.space.allowed

    @cached_property
    def cost_limit(self) -> Knapsack | None:
        """The limit of (2) on the cost of the key groups that move; None without one."""
        limit = self.max_migration_cost
        return None if limit is None else Knapsack(self.migration_cost, limit * (1 + SLACK))

    def rooms(self, resource: str) -> list[Knapsack]:
        """The limit of (7) on the use of a resource, node by node."""
        limits = np.asarray((self.resource_capacity or {})[resource])
        return [Knapsack(self.usage(resource), float(limit) * (1 + SLACK)) for limit in limits]

    @cached_property
    def open_pairs(self) -> BoolArray:
        """The pairs of `space` that (2) and (7) allow if that key group alone moves, shape (p, n)."""
        w, may = self.workload, self.space.allowed
        if self.cost_limit is not None:
            bound = ~self.cost_limit.fits
            here = may[bound, w.current[bound]]
            may[bound] = False
            may[bound, w.current[bound]] = here
        for name in self.resource_capacity or {}:
            may &= np.array([room.fits for room in self.rooms(name)]).T
        return guards.frozen(may)

    def covers(self, assignment: np.ndarray) -> Iterator[tuple[IntArray, int | None]]:
        """For each limit of (2) on cost and of (7) that an assignment breaks: the key groups that break it together.

        They cannot all leave their nodes (node None), or all run on the node given.
        """
        if self.cost_limit is not None and self._costs_too_much(assignment):
            yield self.cost_limit.cover(np.flatnonzero(metrics.moved(self.workload, assignment))), None
        for name in self.resource_capacity or {}:
            for i, room in enumerate(self.rooms(name)):
                here = np.flatnonzero(assignment == i)
                if self.usage(name)[here].sum() > room.limit:
                    yield room.cover(here), i

    def usage(self, resource: str) -> FloatArray:
        """Use of a limited resource by each key group, shape (p,)."""
        return self.workload.last_load if resource == "load" else self.workload.resources[resource]

    def played_limits(self) -> dict[str, Any]:
        """(2), (6) and (7) as constants for a page."""
        rooms = (self.resource_capacity or {}).items()
        return {
            "migration_cost": self.migration_cost, "max_migrations": self.max_migrations,
            "max_migration_cost": self.max_migration_cost, "into_draining": self.into_draining,
            "rooms": [{"name": name, "use": self.usage(name), "most": np.asarray(most)} for name, most in rooms],
        }  # fmt: skip

    def _broken_migration_limits(self, assignment: np.ndarray) -> list[Violation]:  # (2)
        broken = []
        count = metrics.migrations(self.workload, assignment)
        if self.max_migrations is not None and count > self.max_migrations:
            said = f"{count} key groups move, the limit is {self.max_migrations}"
            broken.append(Violation("max_migrations", said, amount=count - self.max_migrations))
        if self.max_migration_cost is not None and self._costs_too_much(assignment):
            cost = self._cost(assignment)
            said = f"the moves cost {cost:g}, the limit is {self.max_migration_cost:g}"
            broken.append(Violation("max_migration_cost", said, amount=cost - self.max_migration_cost))
        return broken

    def _cost(self, assignment: np.ndarray) -> float:
        return float(self.migration_cost[metrics.moved(self.workload, assignment)].sum())

    def _costs_too_much(self, assignment: np.ndarray) -> bool:
        return self.cost_limit is not None and self._cost(assignment) > self.cost_limit.limit

    def _moves_into_draining(self, assignment: np.ndarray) -> list[Violation]:  # (6)
        if self.into_draining:
            return []
        w = self.workload
        wrong = w.draining[assignment] & metrics.moved(w, assignment)
        return [
            Violation(
                "into_draining",
                f"key group {w.key(k)} moves to node {w.node(assignment[k])}, which is draining",
                int(k),
            )
            for k in np.flatnonzero(wrong)
        ]

    def _broken_capacities(self, assignment: np.ndarray) -> list[Violation]:  # (7)
        w, broken = self.workload, []
        for name, limit in (self.resource_capacity or {}).items():
            used = np.bincount(assignment, weights=self.usage(name), minlength=w.nodes)
            for i in np.flatnonzero(used > np.asarray(limit) * (1 + SLACK)):
                excess = float(used[i] - np.asarray(limit)[i])
                said = f"node {w.node(i)} uses {used[i]:g} of {name}, its capacity is {np.asarray(limit)[i]:g}"
                broken.append(Violation("resource_capacity", said, int(i), excess))
        return broken

    def conflicts(self) -> list[str]:
        """Capacities that no assignment can meet: in total, for one key group, or with nothing allowed to move."""
        w, found = self.workload, []
        for name, limit in (self.resource_capacity or {}).items():
            limit, use = np.asarray(limit), self.usage(name)
            if use.sum() > limit.sum() * (1 + SLACK):
                found.append(f"all key groups use {use.sum():g} of {name}, all nodes together offer {limit.sum():g}")
            roomiest = np.where(self.space.allowed, limit, -np.inf).max(axis=1)
            found += [
                f"key group {w.key(k)} uses {use[k]:g} of {name}, no node open to it has more than {roomiest[k]:g}"
                for k in np.flatnonzero(use > roomiest * (1 + SLACK))
            ]
        found += self.rule_conflicts()
        if not found and (self.resource_capacity or self.rules):  # without these a key group may stay
            found = [
                f"key group {w.key(k)} has no node: it may not stay where it is, nor can it move within the limits"
                for k in np.flatnonzero(~self.open_pairs.any(axis=1))
            ]
        if self.max_migrations == 0 or (self.max_migration_cost == 0 and (self.migration_cost > 0).all()):
            found += [f"{v.message}, and nothing may move" for v in self._broken_capacities(self.workload.current)]
        return found


def allocation_limits(problem: Any) -> list[Limit]:
    """The limits (2) and (7) of an allocation, collocated or not, and its number of nodes."""
    w, found = problem.workload, []
    if problem.max_migrations is not None:
        found.append(
            Limit.of(problem, "max_migrations", whole=True, needed=partial(metrics.migrations, w), ends=w.key_groups)
        )
    if (most := problem.max_migration_cost) is not None:
        cost = problem.alpha * w.state
        found.append(
            Limit.of(
                problem, "max_migration_cost", needed=lambda a: float(cost[metrics.moved(w, a)].sum()),
                ends=float(cost.sum()), step=0.1 * most or float(cost.min()) or 1.0,
            )
        )  # fmt: skip
    capacities = dict(problem.resource_capacity or {})
    found += [limit for name in capacities if (limit := _capacity_limit(problem, name)) is not None]
    found += problem.rule_limits
    if not capacities:
        return [*found, problem.more_nodes()]

    def wider(new: int) -> dict[str, FloatArray]:
        return {name: np.concatenate([room, np.full(new, np.max(room))]) for name, room in capacities.items()}

    return [*found, problem.more_nodes(resource_capacity=wider)]


def _capacity_limit(problem: Any, name: str) -> Limit | None:
    """(7): a common factor on the capacities of one resource; None where no node has any."""
    w, capacities = problem.workload, problem.resource_capacity
    use, room = {**w.resources, "load": w.last_load}[name], np.asarray(capacities[name])
    if not (room > 0).any():
        return None

    def at(factor: Number) -> Problem:
        scaled = {r: np.asarray(c) * (float(factor) if r == name else 1.0) for r, c in capacities.items()}
        return replace(problem, resource_capacity=scaled)

    def needed(a: np.ndarray) -> float:
        used = np.bincount(a, weights=use, minlength=w.nodes)
        return float((used[used > 0] / np.maximum(room[used > 0], 1e-300)).max(initial=0.0))

    ends = float(use.sum() / room[room > 0].min())
    return Limit(f"resource_capacity.{name}", 1.0, at, needed, max(ends, 1.0), step=0.1)
