"""Key-group allocation ([Madsen2016], section 4.3.1): the problem and its check."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from keyshift.models import guards, metrics
from keyshift.models.errors import InputError
from keyshift.models.knapsack import Knapsack
from keyshift.models.priorities import Prioritised
from keyshift.models.problem import Violation, read_assignment
from keyshift.models.workload import BoolArray, FloatArray, IntArray, Workload

SLACK = 1e-9
"""Relative rounding allowed when a sum of floats is held against a limit."""
EPSILON = 2.0**-52
LARGEST = 1e150
"""The sum of loads, per unit of the smallest capacity, must be smaller: searches square it."""


@dataclass(frozen=True, eq=False)
class KeyGroupAllocation(Prioritised):
    r"""Move key groups so that the most deviating node deviates least, within a migration limit.

    Sets and data: key groups k, nodes i, of which A are kept and B drain; load :math:`y_k` (last window), state
    :math:`s_k`, capacity :math:`c_i` (1 when nodes are equal), :math:`q_{ik} = 1` iff k runs on i now, migration
    cost :math:`mc_k = \alpha s_k`, and :math:`mean = \sum_k y_k / \sum_{i \in A} c_i`.

    Variables: :math:`x_{ik} \in \{0, 1\}`, whether k runs on i; the load distance :math:`d \ge 0`; and
    :math:`d_u, d_l \ge 0`, by which the upper and the lower side stay below d.

    .. math::

        \text{lex min } \; d, \;\; (d - d_u) + (d - d_l) \quad \text{subject to}

        (1) \quad & \sum_i x_{ik} = 1 && \text{for every } k \\
        (2) \quad & \sum_{i,k} (1 - q_{ik})\, x_{ik}\, mc_k \le maxMigrCost && \text{and/or} \;
                    \sum_{i,k} (1 - q_{ik})\, x_{ik} \le maxMigrations \\
        (3) \quad & \tfrac{1}{c_i} \sum_k x_{ik} y_k \le mean + (d - d_u) && \text{for every } i \in A \cup B \\
        (4) \quad & \tfrac{1}{c_i} \sum_k x_{ik} y_k \ge mean - (d - d_l) && \text{for every } i \in A \\
        (5) \quad & mean - d \ge 0 && \text{only with } distance\_floor \\
        (6) \quad & x_{bk} \le q_{bk} && \text{for } b \in B, \text{unless } into\_draining \\
        (7) \quad & \sum_k x_{ik} r_{k} \le R_{i} && \text{for every node and resource}

    `objective` is d, in load units, unless `priorities` puts another measure first. The program above is
    ``priorities=("load_distance", "deviation_sum")``.

    Parameters
    ----------
    workload : Workload
        p key groups on n nodes; only the last window of `load` counts.
    max_migrations : int, optional
        At most this many key groups move ([Madsen2016], section 5).
    max_migration_cost : float, optional
        The most that migrations may cost, in units of ``alpha * state`` ([Madsen2016], eq. 2).
    alpha : float, default 1
        Migration cost of one unit of state.
    mean : {"exact", "ceiling"}, default "exact"
        "ceiling" rounds the mean up, as Table 2 prints it.
    into_draining : bool, default False
        Allow a key group to move to a draining node; see the notes.
    distance_floor : bool, default False
        Keep (5) as printed. It makes an instance infeasible whose best load distance exceeds the mean.
    resource_capacity : mapping of str to float or array_like of shape (n,), optional
        Limits R of (7) for resources of the workload; the name "load" limits the load itself.
    priorities : sequence of str, optional
        What to minimise, the most important first, each among the answers that are best in those before:
        "load_distance", "deviation_sum", "draining_load" (load left on draining nodes), "migrations", "state_moved".
        By default the load distance alone.

    Raises
    ------
    InputError
        With the field and the value that are wrong.

    Notes
    -----
    Source: [Madsen2016], section 4.3.1. Departures from the print:

    * :math:`d_u, d_l` are printed as real numbers, which makes the model unbounded; here they are >= 0.
    * (5) is off by default: it serves no purpose in the model and cuts off answers to very unbalanced starts.
    * Lemma 1 ("no key group moves from A to B") fails for indivisible loads, so (6) imposes it; with
      ``into_draining=True`` the printed model is back.
    * The distance d covers draining nodes upwards only, since (3) holds for them and (4) does not.
    """

    name: ClassVar[str] = "key-group-allocation"
    measures: ClassVar[tuple[str, ...]] = (
        "load_distance", "deviation_sum", "draining_load", "migrations", "state_moved",
    )  # fmt: skip

    workload: Workload
    max_migrations: int | None = None
    max_migration_cost: float | None = None
    alpha: float = 1.0
    mean: Literal["exact", "ceiling"] = "exact"
    into_draining: bool = False
    distance_floor: bool = False
    resource_capacity: Mapping[str, ArrayLike] | None = None
    priorities: str | tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._require_workload()
        self._put("max_migrations", guards.whole("max_migrations", self.max_migrations))
        self._put("max_migration_cost", guards.real("max_migration_cost", self.max_migration_cost))
        self._put("alpha", guards.real("alpha", self.alpha, optional=False))
        if self.mean not in ("exact", "ceiling"):
            raise InputError(f"mean = {self.mean!r} must be 'exact' or 'ceiling'")
        self._put("resource_capacity", self._read_capacities(self.resource_capacity or {}))
        self._read_priorities()
        self._refuse_what_no_float_holds()

    def _refuse_what_no_float_holds(self) -> None:
        w = self.workload
        with np.errstate(over="ignore"):
            sums = {
                "load": w.last_load.sum() / w.capacity.min() * (w.capacity.sum() / w.capacity.max()),
                "alpha * state": self.migration_cost.sum(),
                **{name: self.usage(name).sum() for name in self.resource_capacity or {}},
            }
        for name, total in sums.items():
            if not total < (LARGEST if name == "load" else math.inf):
                raise InputError(f"{name}: its sum is too large to calculate with")

    def _read_capacities(self, given: Mapping[str, ArrayLike]) -> Mapping[str, FloatArray]:
        known = {**self.workload.resources, "load": self.workload.last_load}
        limits = {}
        for name, limit in given.items():
            if name not in known:
                raise InputError(f"resource_capacity names {name!r}; the workload has {', '.join(sorted(known))}")
            full = np.full(self.workload.nodes, limit) if np.ndim(limit) == 0 else limit
            limits[name] = guards.non_negative(
                f"resource_capacity[{name!r}]", full, length=self.workload.nodes, of="nodes"
            )
        return MappingProxyType(limits)

    # Data of the formulation ------------------------------------------------------------------------------------

    @property
    def mean_load(self) -> float:
        """The mean of (3) and (4), load per unit of kept capacity."""
        exact = metrics.mean_load(self.workload)
        return float(math.ceil(exact)) if self.mean == "ceiling" else exact

    @property
    def rounding(self) -> float:
        """A bound on the rounding error of a load distance; 0 where loads are small whole numbers."""
        w = self.workload
        total, mean = float(w.last_load.sum()), self.mean_load
        whole = bool((w.last_load == np.floor(w.last_load)).all()) and bool((w.capacity == 1).all())
        if whole and total < 2.0**50 and 2 * mean == math.floor(2 * mean):
            return 0.0
        return 4 * EPSILON * (w.key_groups + 8) * (total / float(w.capacity.min()) + mean)

    @property
    def migration_cost(self) -> FloatArray:
        """mc_k = alpha * state, shape (p,)."""
        return self.alpha * self.workload.state

    @property
    def allowed(self) -> BoolArray:
        """Which key group may run on which node under (6), shape (p, n)."""
        w = self.workload
        open_to_all = np.broadcast_to(w.kept | self.into_draining, (w.key_groups, w.nodes)).copy()
        open_to_all[np.arange(w.key_groups), w.current] = True
        return open_to_all

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
        """Which key group may run on which node as far as (2), (6) and (7) say of it alone, shape (p, n)."""
        w, may = self.workload, self.allowed
        if self.cost_limit is not None:
            may[~self.cost_limit.fits] = False
            may[np.arange(w.key_groups), w.current] = True
        for name in self.resource_capacity or {}:
            may &= np.array([room.fits for room in self.rooms(name)]).T
        return guards.frozen(may)

    def covers(self, assignment: np.ndarray) -> Iterator[tuple[IntArray, int | None]]:
        """For each limit of (2) on cost and of (7) that an assignment breaks: the key groups that break it together.

        Not all of them can leave their nodes (None), or run on the node given.
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

    # What every problem answers ---------------------------------------------------------------------------------

    @property
    def objective_name(self) -> str:  # type: ignore[override]
        """What the objective measures."""
        return self.stages[0].replace("_", " ")

    @property
    def scale(self) -> float:
        """The mean of the formulation (1 when nothing is loaded); with priorities, the unit of the first."""
        return self.unit(self.stages[0])

    def unit(self, measure: str) -> float:
        """The mean for loads per unit of capacity, all load or state for sums of these, 1 for counts."""
        if measure in ("load_distance", "deviation_sum"):
            return self.mean_load or 1.0
        w = self.workload
        return {"draining_load": float(w.last_load.sum()), "state_moved": float(w.state.sum())}.get(measure) or 1.0

    def limited(self, kept: Mapping[str, float]) -> Self | None:
        if set(kept) - {"migrations"}:
            return None
        most = {name: math.floor(value + 1e-6) for name, value in kept.items()}
        return replace(self, priorities=(), max_migrations=most["migrations"]) if kept else self.plain()

    def tolerance_of(self, objective: float) -> float:
        return self.tie(self.stages[0], objective)

    def canonical(self, assignment: Any) -> np.ndarray:
        return read_assignment(assignment, self.workload.key_groups, self.workload.nodes)

    def objective(self, assignment: np.ndarray) -> float:
        if self.stages[0] == self.own_measure:
            return metrics.load_distance(self.workload, assignment, self.mean_load)
        return self.measured(self.stages[0], assignment)

    def metrics(self, assignment: np.ndarray) -> dict[str, float]:
        deviation = metrics.deviations(self.workload, assignment, self.mean_load)
        upper, lower = float(deviation.max()), float(-deviation[self.workload.kept].min())
        return {
            **metrics.summary(self.workload, assignment),
            "load_distance": metrics.load_distance(self.workload, assignment, self.mean_load),
            "upper_deviation": upper,  # d - d_u at its smallest
            "lower_deviation": lower,  # d - d_l at its smallest
            "deviation_sum": upper + lower,
            "migration_cost": self._cost(assignment),
            **self._left_to_drain(assignment),
        }

    def _left_to_drain(self, assignment: np.ndarray) -> dict[str, float]:
        """The load left on draining nodes, where there are any."""
        asked = self.workload.draining.any() or "draining_load" in self.stages
        return {"draining_load": metrics.draining_load(self.workload, assignment)} if asked else {}

    def measured(self, measure: str, assignment: np.ndarray) -> float:
        if measure == "draining_load":
            return metrics.draining_load(self.workload, assignment)
        return super().measured(measure, assignment)

    def violations(self, assignment: np.ndarray) -> list[Violation]:
        return [
            *self._broken_migration_limits(assignment),
            *self._broken_distance_floor(assignment),
            *self._moves_into_draining(assignment),
            *self._broken_capacities(assignment),
        ]

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

    def _broken_distance_floor(self, assignment: np.ndarray) -> list[Violation]:  # (5)
        if not self.distance_floor:
            return []
        excess = metrics.load_distance(self.workload, assignment, self.mean_load) - self.mean_load
        if excess <= SLACK * (self.mean_load or 1.0):
            return []
        return [Violation("distance_floor", f"the load distance exceeds the mean by {excess:g}", amount=excess)]

    def _moves_into_draining(self, assignment: np.ndarray) -> list[Violation]:  # (6)
        if self.into_draining:
            return []
        wrong = self.workload.draining[assignment] & metrics.moved(self.workload, assignment)
        return [
            Violation("into_draining", f"key group {k} moves to node {assignment[k]}, which is draining", int(k))
            for k in np.flatnonzero(wrong)
        ]

    def _broken_capacities(self, assignment: np.ndarray) -> list[Violation]:  # (7)
        broken = []
        for name, limit in (self.resource_capacity or {}).items():
            used = np.bincount(assignment, weights=self.usage(name), minlength=self.workload.nodes)
            for i in np.flatnonzero(used > np.asarray(limit) * (1 + SLACK)):
                excess = float(used[i] - np.asarray(limit)[i])
                said = f"node {i} uses {used[i]:g} of {name}, its capacity is {np.asarray(limit)[i]:g}"
                broken.append(Violation("resource_capacity", said, int(i), excess))
        return broken

    def conflicts(self) -> list[str]:
        """Capacities that no assignment can meet: in total, for one key group, or with nothing allowed to move."""
        found = []
        for name, limit in (self.resource_capacity or {}).items():
            limit, use = np.asarray(limit), self.usage(name)
            if use.sum() > limit.sum() * (1 + SLACK):
                found.append(f"all key groups use {use.sum():g} of {name}, all nodes together offer {limit.sum():g}")
            roomiest = np.where(self.allowed, limit, -np.inf).max(axis=1)
            found += [
                f"key group {k} uses {use[k]:g} of {name}, no node open to it has more than {roomiest[k]:g}"
                for k in np.flatnonzero(use > roomiest * (1 + SLACK))
            ]
        if not found:
            found = [
                f"key group {k} has no node: it may not stay where it is, nor can it move within the limits"
                for k in np.flatnonzero(~self.open_pairs.any(axis=1))
            ]
        if self.max_migrations == 0 or (self.max_migration_cost == 0 and (self.migration_cost > 0).all()):
            found += [f"{v.message}, and nothing may move" for v in self._broken_capacities(self.workload.current)]
        return found
