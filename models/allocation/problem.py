"""Key-group allocation ([Madsen2016], section 4.3.1): the problem and its check."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from keyshift.models import metrics, records
from keyshift.models.allocation.limits import allocation_limits, binding_limits, emptied, least_left
from keyshift.models.base import guards
from keyshift.models.base.figures import apart
from keyshift.models.base.integers import Knapsack
from keyshift.models.base.labels import by_label
from keyshift.models.errors import InputError
from keyshift.models.objectives import Over, OverWindows, Searched
from keyshift.models.problem import SLACK as SLACK
from keyshift.models.problem import Limit, Violation, step_of_sums
from keyshift.models.rules.rule import Rule
from keyshift.models.workload import BoolArray, FloatArray, MoveSpace, Workload

EPSILON = 2.0**-52
DRAINING = ("draining_load", "draining_key_groups")
"""The measures of what draining nodes keep."""


@dataclass(frozen=True, eq=False)
class KeyGroupAllocation(OverWindows):
    r"""Move key groups, within a migration limit, so that the largest deviation of a node from the mean load is least.

    Sets and data: key groups k, nodes i, of which A are kept and B drain; load :math:`y_k` (last window), state
    :math:`s_k`, capacity :math:`c_i` (1 when nodes are equal), :math:`q_{ki} = 1` iff k runs on i now, migration
    cost :math:`mc_k = \alpha s_k`, and :math:`mean = \sum_k y_k / \sum_{i \in A} c_i`.

    Variables: :math:`x_{ki} \in \{0, 1\}`, whether k runs on i; the load distance :math:`d \ge 0`; and
    :math:`d_u, d_l \ge 0`, by which the upper and the lower side stay below d.

    .. math::

        \text{lex min } \; d, \;\; (d - d_u) + (d - d_l) \quad \text{subject to}

        (1) \quad & \sum_i x_{ki} = 1 && \text{for every } k \\
        (2) \quad & \sum_{k,i} (1 - q_{ki})\, x_{ki}\, mc_k \le maxMigrCost && \text{and/or} \;
                    \sum_{k,i} (1 - q_{ki})\, x_{ki} \le maxMigrations \\
        (3) \quad & \tfrac{1}{c_i} \sum_k x_{ki} y_k \le mean + (d - d_u) && \text{for every } i \in A \cup B \\
        (4) \quad & \tfrac{1}{c_i} \sum_k x_{ki} y_k \ge mean - (d - d_l) && \text{for every } i \in A \\
        (5) \quad & mean - d \ge 0 && \text{only with } distance\_floor \\
        (6) \quad & x_{kb} \le q_{kb} && \text{for } b \in B, \text{unless } into\_draining \\
        (7) \quad & \sum_k x_{ki} r_{k} \le R_{i} && \text{for every node and resource}

    With windows or scenarios s, each has loads :math:`y_{ks}`, a mean of its own, and (3), (4) and (5) with a
    distance :math:`d_s` of its own; the objective is

    .. math:: (8) \quad \max_s d_s, \qquad \sum_s q_s d_s \qquad \text{or} \qquad
              \min_t \; t + \tfrac{1}{1 - level} \sum_s q_s \max(d_s - t, 0) \quad (\mathrm{CVaR}).

    `objective` is d, in load units, unless `priorities` puts another measure first. The program above is
    ``priorities=("load_distance", "deviation_sum")``.

    Parameters
    ----------
    workload : Workload
        p key groups on n nodes; only the last window of `load` counts, unless `windows` or `scenarios` says otherwise.
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
    resource_capacity : mapping of str to float, array_like of shape (n,) or mapping of node names to float, optional
        Limits R of (7) for resources of the workload; the name "load" limits the load itself. Of nodes by name, as in
        ``{"load": {"b1": 80}}``, those that are not named have room for everything.
    priorities : sequence of str, optional
        What to minimise, the most important first, each among the answers that are best in those before:
        "load_distance", "deviation_sum", "draining_load" (load left on draining nodes), "draining_key_groups" (how many key
        groups they keep, those without load included), "migrations", "state_moved". "broken_rules" may come first: rules
        that are broken today are then repaired as far as the limits allow, and get no worse.
        By default the load distance alone, under which a draining node may keep what does not raise it above the mean:
        ("draining_key_groups", "load_distance", "migrations") empties such nodes first. Where a draining measure is named,
        ties go to fewer key groups on draining nodes, then to fewer migrations.
        Over k > 1 windows there are no "deviation_sum" and "draining_load".
    windows : int, default 1
        Plan for the last so many windows at once. (7) is about the last one.
    over : {"max", "mean", "cvar"}, default "max"
        How (8) combines their load distances: the worst, the mean, or the mean over the worst share 1 - `level`.
    level : float, default 0.9
        0 <= level < 1, for "cvar": 0 is the mean.
    scenarios : array_like, shape (k, p), optional
        Plan for these loads instead of the workload's: samples of a forecast, say. On the shell, a file: .csv, a row a
        scenario; .json, a list of lists; or .npy.
    probabilities : array_like, shape (k,), optional
        Probabilities of the scenarios, or of the windows, the oldest first; equal by default. Those of probability 0
        are left out.
    rules : sequence of Rule, optional
        Further restrictions of the cluster (`keyshift.rules`).

    Raises
    ------
    InputError
        Names the field and the value that are wrong.

    Notes
    -----
    Source: [Madsen2016], section 4.3.1. Departures from the print:

    * :math:`d_u, d_l` are printed as real numbers, which makes the model unbounded; here they are >= 0.
    * (5) is off by default: it serves no purpose in the model and cuts off answers to very unbalanced starts.
    * Lemma 1 ("no key group moves from A to B") fails for indivisible loads, so (6) imposes it; with
      ``into_draining=True`` the printed model is back.
    * The distance d covers draining nodes upwards only, since (3) holds for them and (4) does not.
    * The mean is printed rounded up, which is no average; here it is exact, and ``mean="ceiling"`` is the print.
    """

    name: ClassVar[str] = "key-group-allocation"
    worth: ClassVar[str] = "load distance"
    repairable: ClassVar[tuple[str, ...]] = ("resource_capacity",)
    rescue: ClassVar[Literal["balance"]] = "balance"
    limits_first: ClassVar[bool] = True
    measures: ClassVar[tuple[str, ...]] = (
        "load_distance", "deviation_sum", "draining_load", "draining_key_groups", "migrations", "state_moved",
        "broken_rules",
    )  # fmt: skip

    workload: Workload
    max_migrations: int | None = None
    max_migration_cost: float | None = None
    alpha: float = 1.0
    mean: Literal["exact", "ceiling"] = "exact"
    into_draining: bool = False
    distance_floor: bool = False
    resource_capacity: Mapping[str, ArrayLike | Mapping[str | int, float]] | None = None
    priorities: str | tuple[str, ...] = ()
    windows: int = 1
    over: Over = "max"
    level: float = 0.9
    scenarios: ArrayLike | None = None
    probabilities: ArrayLike | None = None
    rules: Sequence[Rule] = ()

    def __post_init__(self) -> None:
        self._require_workload()
        self._read_windows()
        self._put("max_migrations", guards.whole("max_migrations", self.max_migrations))
        self._put("max_migration_cost", guards.real("max_migration_cost", self.max_migration_cost))
        self._put("alpha", guards.real("alpha", self.alpha, optional=False))
        guards.one_of("mean", self.mean, ("exact", "ceiling"))
        self._put("resource_capacity", self._read_capacities(self.resource_capacity or {}))
        self._read_priorities()
        self._refuse_priorities_of_one_window("deviation_sum", "draining_load")
        self._read_rules()
        self._refuse_what_no_float_holds()

    def _read_capacities(self, given: Mapping[str, Any]) -> Mapping[str, FloatArray]:
        w, limits = self.workload, {}
        known = {**w.resources, "load": w.last_load}
        for name, limit in given.items():
            if name not in known:
                raise InputError(f"resource_capacity names {name!r}; the workload has {', '.join(sorted(known))}")
            said = f"resource_capacity[{name!r}]"
            limit = by_label(said, limit)
            if isinstance(limit, Mapping):  # a node that is not named has room for everything
                limit = w.names_of_nodes.values(said, limit, float(known[name].sum()))
            elif np.ndim(limit) == 0:
                limit = np.full(w.nodes, limit)
            limits[name] = guards.non_negative(said, limit, length=w.nodes, of="nodes")
        return MappingProxyType(limits)

    def _refuse_what_no_float_holds(self) -> None:
        w, window = self.workload, "load of a window" if self.scenarios is None else "scenarios"
        c = w.capacity
        with np.errstate(over="ignore"):
            heaviest = np.array([w.last_load.sum(), self.planned.load.sum(axis=1).max()])
            squared = dict(zip(("load", window), heaviest / c.min() * (c.sum() / c.max()), strict=True))
            added = {"alpha * state": self.migration_cost.sum()} | {name: self.usage(name).sum() for name in self._room}
        # The sum of loads, per unit of the smallest capacity, must be smaller: searches square it.
        for sums, most in ((squared, 1e150), (added, math.inf)):
            for name, total in sums.items():
                if not total < most:
                    raise InputError(f"{name}: its sum is too large to calculate with")

    # Data of the formulation ------------------------------------------------------------------------------------

    @property
    def _room(self) -> Mapping[str, FloatArray]:
        """R of (7) by resource, as it was read."""
        return self.resource_capacity  # type: ignore[return-value]

    @cached_property
    def mean_load(self) -> float:
        """The mean in (3) and (4), in load per unit of kept capacity; over several windows, combined as in (8)."""
        return self.planned.combined(self.means)

    @cached_property
    def exact_mean(self) -> Fraction:
        """The mean of the last window, as a float64 number rounded once."""
        w = self.workload
        mean = Fraction(sum(map(Fraction, w.last_load.tolist()))) / sum(map(Fraction, w.capacity[w.kept].tolist()))
        return Fraction(math.ceil(mean)) if self.mean == "ceiling" else mean

    @cached_property
    def means(self) -> FloatArray:
        """The mean of (3) and (4) in each window, shape (k,)."""
        exact = self.planned.means(self.workload)
        return np.ceil(exact) if self.mean == "ceiling" else exact

    def distances(self, assignment: np.ndarray) -> FloatArray:
        """The load distance in each window, shape (k,)."""
        deviation = self.deviations(assignment)
        return np.asarray(np.where(self.workload.kept, np.abs(deviation), np.maximum(deviation, 0.0)).max(axis=1))

    def deviations(self, assignment: np.ndarray) -> FloatArray:
        """Load per unit of capacity minus the mean, for every node in each window, shape (k, n)."""
        loads = self.planned.node_loads(assignment, self.workload.nodes)
        return loads / self.workload.capacity - self.means[:, None]

    @cached_property
    def migration_cost(self) -> FloatArray:
        """mc_k = alpha * state, shape (p,)."""
        return guards.frozen(self.alpha * self.workload.state)

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
        return [Knapsack(self.usage(resource), limit * (1 + SLACK)) for limit in self._room[resource].tolist()]

    @cached_property
    def open_pairs(self) -> BoolArray:
        """The pairs of `space` that (2) and (7) allow if that key group alone moves, shape (p, n)."""
        w, may = self.workload, self.space.allowed
        if self.cost_limit is not None:
            may &= self.cost_limit.fits[:, None] | (w.current[:, None] == np.arange(w.nodes))
        for name in self._room:
            may &= np.array([room.fits for room in self.rooms(name)]).T
        return guards.frozen(may)

    def clauses(self, assignment: np.ndarray) -> list[list[tuple[int, int, bool]]]:
        """What an assignment breaks, of (2) on cost and of (7): of each of these, key groups on nodes or not, one holds."""
        w, cuts = self.workload, []
        if self.cost_limit is not None and self._cost(assignment) > self.cost_limit.limit:
            few = self.cost_limit.cover(np.flatnonzero(metrics.moved(w, assignment)))
            cuts.append([(k, int(w.current[k]), True) for k in few.tolist()])
        for name in self._room:
            for i, room in enumerate(self.rooms(name)):
                here = np.flatnonzero(assignment == i)
                if self.usage(name)[here].sum() > room.limit:
                    cuts.append([(k, i, False) for k in room.cover(here).tolist()])
        return cuts or [[(k, i, False) for k, i in enumerate(assignment.tolist())]]

    def usage(self, resource: str) -> FloatArray:
        """Use of a limited resource by each key group, shape (p,)."""
        return self.workload.last_load if resource == "load" else self.workload.resources[resource]

    @property
    def rounding(self) -> float:
        """A bound on the rounding error of a load distance; 0 for one window of small whole numbers, whose sums are exact."""
        w, it, means = self.workload, self.planned, self.means
        total = it.load.sum(axis=1)
        exact = bool((it.load == np.floor(it.load)).all()) and float(total.max()) < 2.0**50
        alike = it.count == 1 and bool((w.capacity == 1).all())
        if exact and alike and 2 * means[0] == math.floor(2 * means[0]):
            return 0.0
        terms = (0 if exact else w.key_groups) + it.count + 7
        return 4 * EPSILON * terms * float((total / w.capacity.min() + means).max())

    # What every problem answers ---------------------------------------------------------------------------------

    def unit(self, measure: str) -> float:
        """The unit of a measure: the mean for loads per unit of capacity; the total of load or state; 1 for counts."""
        if measure in ("load_distance", "deviation_sum"):
            return self.mean_load or 1.0
        w = self.workload
        return {"draining_load": float(w.last_load.sum()), "state_moved": float(w.state.sum())}.get(measure) or 1.0

    def step_of(self, measure: str) -> float:
        return self._load_step if measure in ("load_distance", "deviation_sum") else super().step_of(measure)

    @cached_property
    def _load_step(self) -> float:
        """A share of the step of loads: with nodes alike and an exact mean, one over all capacity; or what floats can tell."""
        w, step = self.workload, step_of_sums(self.planned.load)
        alike = self.mean == "exact" and bool((w.capacity == w.capacity[0]).all())
        unit = float(w.capacity[w.kept].sum() if alike else w.capacity.max())
        return max(step / unit, 4 * self.rounding) if step else 0.0

    def limited(self, kept: Mapping[str, float]) -> Self | None:
        if not kept or set(kept) - {"migrations"}:
            return None if kept else self.plain()
        return replace(self, priorities=(), max_migrations=math.floor(kept["migrations"] + 1e-6))

    def metrics(self, assignment: np.ndarray) -> dict[str, float]:
        """Further figures of the assignment; deviations are those of the window with the largest deviation."""
        deviation, distances = self.deviations(assignment), self.distances(assignment)
        upper, lower = float(deviation.max()), float(-deviation[:, self.workload.kept].min())
        by_window = {"worst_distance": float(distances.max()), "mean_distance": float(self.planned.share @ distances)}
        return {
            **metrics.summary(self.workload, assignment),
            "load_distance": self.planned.combined(distances),
            **(by_window if self.planned.count > 1 else {}),
            "upper_deviation": upper,  # d - d_u at its smallest
            "lower_deviation": lower,  # d - d_l at its smallest
            "deviation_sum": upper + lower,
            "migration_cost": self._cost(assignment),
            **({name: self.measured(name, assignment) for name in DRAINING} if self._drains else {}),
            **self._excess_of_rules(assignment),
        }

    @cached_property
    def _drains(self) -> bool:
        """Whether what is left on draining nodes is a metric."""
        return bool(self.workload.draining.any() or not set(self.stages).isdisjoint(DRAINING))

    @property
    def ties(self) -> tuple[str, ...]:
        """Where a priority empties nodes, they keep nothing that could leave, and nothing moves without need."""
        drained = self.workload.draining.any() and not set(self.stages).isdisjoint(DRAINING)
        return tuple(name for name in ("draining_key_groups", "migrations") if drained and name not in self.stages)

    def without(self, measure: str, most: float) -> Self | None:
        return emptied(self, most, loaded=measure == "draining_load") if measure in DRAINING else None

    def least(self, measure: str) -> float:
        return least_left(self, loaded=measure == "draining_load") if measure in DRAINING else 0.0

    def measured(self, measure: str, assignment: np.ndarray) -> float:
        if measure == "load_distance":
            return self.planned.combined(self.distances(assignment))
        if measure in DRAINING:
            return float(getattr(metrics, measure)(self.workload, assignment))
        return super().measured(measure, assignment)

    def record(self) -> records.Record:
        return self.record_within(self.exact_mean if self.distance_floor else None)

    def record_within(self, limit: Fraction | None) -> records.Record:
        """The instance with a limit on the load distance."""
        w, cost, allowed = self.workload, self.max_migration_cost, records.ALLOWED
        rows = [records.row(records.amounts(w.last_load))]
        for name, room in self._room.items():
            use = records.amounts(self.usage(name))
            share = (1 + allowed) / Fraction(use["unit"])
            rows.append(records.row(use, [(0, math.floor(Fraction(r) * share)) for r in room.tolist()]))
        placed = records.placed(
            w, rows, state=None if cost is None or self.alpha == 0 else cost / self.alpha, empty=False,
            closed=not self.into_draining, max_moves=self.max_migrations, **self.recorded_rules(),
        )  # fmt: skip
        widest = None if limit is None else records.text(limit + self.exact_mean * allowed)
        rounded_up = self.mean == "ceiling"
        return {**placed, "capacity": records.amounts(w.capacity), "mean_rounded_up": rounded_up, "widest": widest}

    def violations(self, assignment: np.ndarray) -> list[Violation]:
        return [
            *self._broken_migration_limits(assignment),
            *self._broken_distance_floor(assignment),
            *self._moves_into_draining(assignment),
            *self._broken_capacities(assignment),
            *self.broken_rules(assignment),
        ]

    def _broken_migration_limits(self, assignment: np.ndarray) -> list[Violation]:  # (2)
        broken = []
        count = metrics.migrations(self.workload, assignment)
        if self.max_migrations is not None and count > self.max_migrations:
            said = f"{count} key groups move, the limit is {self.max_migrations}"
            broken.append(Violation("max_migrations", said, amount=count - self.max_migrations))
        cost = self._cost(assignment)
        if self.max_migration_cost is not None and self.cost_limit is not None and cost > self.cost_limit.limit:
            said = "the moves cost {}, the limit is {}".format(*apart(cost, self.max_migration_cost))
            broken.append(Violation("max_migration_cost", said, amount=cost - self.max_migration_cost))
        return broken

    def _cost(self, assignment: np.ndarray) -> float:
        return float(self.migration_cost[metrics.moved(self.workload, assignment)].sum())

    def _moves_into_draining(self, assignment: np.ndarray) -> list[Violation]:  # (6)
        w, said = self.workload, "key group {} moves to node {}, which is draining"
        wrong = w.draining[assignment] & metrics.moved(w, assignment) & (not self.into_draining)
        found = np.flatnonzero(wrong).tolist()
        return [Violation("into_draining", said.format(w.key(k), w.node(assignment[k])), k) for k in found]

    def _broken_capacities(self, assignment: np.ndarray) -> list[Violation]:  # (7)
        w, broken = self.workload, []
        for name, limit in self._room.items():
            used = np.bincount(assignment, weights=self.usage(name), minlength=w.nodes)
            for i in np.flatnonzero(used > limit * (1 + SLACK)).tolist():
                use, most = apart(used[i], limit[i])
                said = f"node {w.node(i)} uses {use} of {name}, its capacity is {most}"
                broken.append(Violation("resource_capacity", said, i, float(used[i] - limit[i])))
        return broken

    def _broken_distance_floor(self, assignment: np.ndarray) -> list[Violation]:  # (5)
        if not self.distance_floor:
            return []
        over = self.distances(assignment) - self.means
        s = int(np.argmax(over - SLACK * np.where(self.means > 0, self.means, 1.0)))
        excess, mean = float(over[s]), float(self.means[s])
        if excess <= SLACK * (mean or 1.0):
            return []
        return [Violation("distance_floor", f"the load distance exceeds the mean by {excess:g}", amount=excess)]

    def conflicts(self) -> list[str]:
        """Capacities that no assignment can meet: in total, for one key group, or with nothing allowed to move."""
        w, found = self.workload, []
        for name, limit in self._room.items():
            use = self.usage(name)
            if use.sum() > limit.sum() * (1 + SLACK):
                needed, there = apart(use.sum(), limit.sum())
                found.append(f"all key groups use {needed} of {name}, all nodes together have {there}")
            roomiest = np.where(self.space.allowed, limit, -np.inf).max(axis=1)
            for k in np.flatnonzero(use > roomiest * (1 + SLACK)).tolist():
                needed, there = apart(use[k], roomiest[k])
                found.append(f"key group {w.key(k)} uses {needed} of {name}, no node open to it has more than {there}")
        found += self.rule_conflicts()
        if not found and (self.resource_capacity or self.rules):  # without these a key group may stay
            found = [
                f"key group {w.key(k)} has no node: it may not stay where it is, nor can it move within the limits"
                for k in np.flatnonzero(~self.open_pairs.any(axis=1))
            ]
        if self.max_migrations == 0 or (self.max_migration_cost == 0 and (self.migration_cost > 0).all()):
            found += [f"{v.message}, and nothing may move" for v in self._broken_capacities(self.workload.current)]
        return found

    # What stages, plans, remedies and replays ask ---------------------------------------------------------------

    def searched(self) -> Searched:
        floor = {"load_distance": self.mean_load} if self.distance_floor else {}
        most = floor if self.max_migrations is None else floor | {"migrations": float(self.max_migrations)}
        rooms, load = tuple((self.usage(name), limit) for name, limit in self._room.items()), self.planned.load
        given = self.means, None, 0.0, self.migration_cost, self.max_migration_cost, rooms
        return Searched(load, self._open_space, most, *given, share=self.planned.share)

    @cached_property
    def _open_space(self) -> MoveSpace:
        dear = np.flatnonzero([] if self.cost_limit is None else ~self.cost_limit.fits)
        return self.space.without(~self.open_pairs) if self._room else self.space.closed(dear)

    def played(self) -> dict[str, Any]:
        it = self.planned
        return {
            **self.played_limits(), "kind": self.name, "objective": self.stages[0], "over": it.over, "share": it.share,
            "most": it.most, "means": self.means, "distance_floor": self.distance_floor, "draining_load": self._drains,
            "windows": [{"load": row} for row in it.load], "mean": self.workload.mean_load,
        }  # fmt: skip

    def played_limits(self) -> dict[str, Any]:
        """(2), (6) and (7) as constants for a page."""
        return {
            "migration_cost": self.migration_cost, "max_migrations": self.max_migrations,
            "max_migration_cost": self.max_migration_cost, "into_draining": self.into_draining,
            "rooms": [{"name": name, "use": self.usage(name), "most": most} for name, most in self._room.items()],
        }  # fmt: skip

    @property
    def limits(self) -> list[Limit]:
        return allocation_limits(self)

    @classmethod
    def fallback(cls, workload: Workload, options: Mapping[str, Any]) -> KeyGroupAllocation:
        """Key-group allocation with the options that it shares with this problem."""
        known = {f.name for f in fields(KeyGroupAllocation)} - {"priorities", "windows", "over"}
        return KeyGroupAllocation(workload, **{name: value for name, value in options.items() if name in known})

    def binding(self, chosen: np.ndarray) -> list[str]:
        return binding_limits(self, chosen)

    def repaired(self, **changes: Any) -> Self:
        now = self.distance_floor and self.measured("load_distance", self.workload.current) <= self.mean_load
        return super().repaired(**changes, distance_floor=now)


def drains(problem: KeyGroupAllocation) -> bool:
    """Whether there is something to drain; without, all is balancing."""
    return bool(problem.workload.draining[problem.workload.current].any())
