r"""What is minimised: measures of an assignment, one after another, each over k windows at once.

For windows or scenarios s with probabilities :math:`q_s` and values :math:`v_s`, all three rules that make one number of
them are one:

.. math:: \max \Bigl\{ \sum_s w_s v_s : \; 0 \le w_s \le \bar w_s, \; \sum_s w_s = 1 \Bigr\}
          = \min_t \; t + \sum_s \bar w_s \max(v_s - t, 0)

with :math:`\bar w_s = 1` for the worst ("max"), :math:`q_s` for the mean, and :math:`q_s / (1 - level)` for CVaR, the mean
of the worst share 1 - level [Rockafellar2000].
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from keyshift.models.base import guards
from keyshift.models.base.figures import apart
from keyshift.models.base.labels import aligned, in_time, ordered
from keyshift.models.base.lazily import sp
from keyshift.models.errors import InputError
from keyshift.models.problem import SLACK, below_step, step_of_sums
from keyshift.models.rules.ruled import BROKEN, NoWorse, Ruled
from keyshift.models.workload import FloatArray, IntArray, MoveSpace, Workload

Over = Literal["max", "mean", "cvar"]
RULES = ("max", "mean", "cvar")
SUM_SLACK = 1e-6
"""How far from 1 given probabilities may sum."""
TIE = 1e-6
"""Two values of a measure are the same when they differ by no more than this share of its unit."""


@dataclass(frozen=True, eq=False)
class PlannedWindows:
    """Loads in k windows, and the rule that combines one value per window into a single one.

    Attributes
    ----------
    load : ndarray, shape (k, p)
    share : ndarray, shape (k,)
        Probabilities; they sum to 1.
    over : {"max", "mean", "cvar"}
    level : float
        Of CVaR.
    """

    load: FloatArray
    share: FloatArray
    over: Over
    level: float

    @cached_property
    def count(self) -> int:
        """How many there are, k."""
        return int(self.share.size)

    @cached_property
    def most(self) -> FloatArray:
        """The largest weight that the rule gives to a window, shape (k,)."""
        if self.over == "max":
            return np.ones(self.count)
        return self.share if self.over == "mean" else np.minimum(self.share / (1.0 - self.level), 1.0)

    def weights(self, values: FloatArray) -> FloatArray:
        """The weights of values of shape (k,) in their combined value, the largest value first; they sum to 1."""
        if self.over == "mean":
            return self.share
        order = np.argsort(-values, kind="stable")
        before = np.concatenate(([0.0], np.cumsum(self.most[order])[:-1]))
        weights = np.empty(self.count)
        weights[order] = np.clip(1.0 - before, 0.0, self.most[order])
        return weights

    def combined(self, values: FloatArray) -> float:
        """The worst of values of shape (k,), their mean, or their mean over the worst share of probability."""
        if self.over == "max" or self.count == 1:
            return float(values.max())
        return float(self.weights(values) @ values)

    def means(self, workload: Workload) -> FloatArray:
        """Load per unit of kept capacity in each window, shape (k,)."""
        return np.asarray(self.load.sum(axis=1) / workload.capacity[workload.kept].sum())

    def node_loads(self, assignment: np.ndarray, nodes: int) -> FloatArray:
        """Load of every node in each window, shape (k, n)."""
        return np.array([np.bincount(assignment, row, nodes) for row in self.load])


class Searched(NamedTuple):
    """The view that local search has of a problem over k windows, in the problem's own units.

    Attributes
    ----------
    load : ndarray, shape (k, p)
        Of each key group were all its traffic remote.
    space : MoveSpace
        Which key group may run where.
    most : dict of str to float
        What the problem's limits allow of each measure, at most.
    mean : ndarray of shape (k,), or None
        What deviations are from; None: the mean of the loads, which remote traffic changes.
    pairs : tuple of ndarray
        Key groups that talk to each other, the first and the second of each pair, and their traffic: a row for each window where
        that matters, else one.
    per_tuple : float
        The load that a tuple costs which leaves its node.
    cost, cost_limit : ndarray of shape (p,), float or None
        What moving each key group costs, and the most that all may.
    rooms : tuple of (ndarray of shape (p,), ndarray of shape (n,))
        Use of each limited resource, and the room for it.
    bands : ndarray, shape (4, k, n)
        The most that a node may carry, as a share of all load and a rest; the least, likewise.
    share : ndarray, shape (k,)
        The windows' weights in a mean; None: alike.
    near : ndarray, shape (n, n), or None
        How much of their traffic's cost two nodes save, as a share; None: all on one node, none else.
    """

    load: FloatArray
    space: MoveSpace
    most: Mapping[str, float]
    mean: FloatArray | None = None
    pairs: tuple[IntArray, IntArray, FloatArray] | None = None
    per_tuple: float = 0.0
    cost: FloatArray | None = None
    cost_limit: float | None = None
    rooms: tuple[tuple[FloatArray, FloatArray], ...] = ()
    bands: FloatArray | None = None
    share: FloatArray | None = None
    near: FloatArray | None = None

    @property
    def shares(self) -> FloatArray:
        """The windows' weights in a mean, shape (k,)."""
        k = len(self.load)
        return np.full(k, 1.0 / max(k, 1)) if self.share is None else np.array(self.share)

    @property
    def most_moves(self) -> int:
        """How many key groups may move at most, by their number and by what they cost."""
        movers = self.space.movers
        most = min(self.most.get("migrations", math.inf), movers.size)
        if self.cost is not None and self.cost_limit is not None:
            cheapest = np.cumsum(np.sort(self.cost[movers])) * (1 - 1e-12 * self.cost.size)
            most = min(most, int(np.searchsorted(cheapest, self.cost_limit * (1 + SLACK), "right")))
        return int(most)


class Prioritised(Ruled):
    r"""A problem with priorities: measures that are minimised one after another.

    With ``priorities = (f1, f2, ...)`` the answer is the lexicographic minimum: of least :math:`f_1`; among those
    of least :math:`f_2`; and so on. Two values that are closer than `tie` are the same.

    A subclass names its `measures`, which are metrics of its own, and its `own_measure`, which its formulation minimises. Of each
    it says the value (`measured`), the `unit` and what a `tie` is; which earlier ones are limits of its own (`limited`); and what
    the search for later stages needs (`searched`).
    """

    measures: ClassVar[tuple[str, ...]]
    """The metrics that `priorities` may name."""

    @property
    def own_measure(self) -> str:
        """The measure that the formulation minimises."""
        return self.measures[0]

    @cached_property
    def stages(self) -> tuple[str, ...]:
        """The measures in the order in which they are minimised; the first is the objective."""
        return tuple(self.priorities) or (self.own_measure,)

    @property
    def objective_name(self) -> str:  # type: ignore[override]
        """The objective's name."""
        return self.stages[0].replace("_", " ")

    @cached_property
    def scale(self) -> float:
        """The unit of the first measure; 1 if that unit is 0."""
        return self.unit(self.stages[0])

    def tolerance_of(self, objective: float) -> float:
        """The `tie` of the first measure."""
        return self.tie(self.stages[0], objective)

    def objective(self, assignment: np.ndarray) -> float:
        return self.measured(self.stages[0], assignment)

    def plain(self) -> Self:
        """The same problem with its own objective alone; rules that may stay broken still may."""
        soft = self.soft_rule
        if soft is not None and self.rules != (soft,):
            return self.changed(rules=(soft,), priorities=())
        return self.changed(priorities=()) if self.priorities else self

    def hard(self) -> Self:
        """The same problem, in which every rule must be kept."""
        soft, left = self.soft_rule, tuple(name for name in self.priorities if name != BROKEN)
        return self if soft is None else self.changed(rules=soft.rules, priorities=left)

    def elastic_at(self, assignment: IntArray) -> Self:
        """The same problem, in which no rule may be broken by more than this assignment breaks it."""
        rules = (NoWorse(tuple(self.stated_rules), tuple(assignment.tolist())),)
        return self.changed(rules=rules, priorities=())

    def _read_priorities(self) -> None:
        """Read the field `priorities`, or raise `InputError`."""
        given: Any = self.priorities
        names = given.replace(",", " ").split() if isinstance(given, str) else given
        known = ", ".join(self.measures)
        if not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
            raise InputError(f"priorities = {given!r} must be names of measures, the first the most important: {known}")
        names = tuple(names)
        for place, name in enumerate(names):
            if name not in self.measures:
                raise InputError(f"priorities[{place}] = {name!r}: {self.name} has the measures {known}")
            if name in names[:place]:
                raise InputError(f"priorities names {name!r} twice")
        self._put("priorities", names)

    def limited(self, kept: Mapping[str, float]) -> Self | None:
        """The problem with limits that hold measures at given values; None if it has no such limits."""
        return None if kept else self.plain()

    @property
    def ties(self) -> tuple[str, ...]:
        """Measures that break ties between answers that agree in all stages; no bound is proven for them."""
        return ()

    def without(self, measure: str, most: float) -> Self | None:
        """The problem in which a measure is 0, by limits of its own.

        None without such limits, or where a measure of at most `most` may be above 0.
        """
        return None

    def least(self, measure: str) -> float:
        """A lower bound on a measure by arithmetic alone."""
        return 0.0

    @abstractmethod
    def searched(self) -> Searched:
        """The problem as local search sees it."""

    @abstractmethod
    def unit(self, measure: str) -> float:
        """The size of one natural unit of a measure, > 0."""

    def step_of(self, measure: str) -> float:
        """As `step`, for any measure."""
        w = self.workload
        return step_of_sums({"state_moved": w.state, "draining_load": w.last_load}.get(measure, np.full(1, 0.5)))

    @cached_property
    def step(self) -> float:
        return self.step_of(self.stages[0])

    def tie(self, measure: str, value: float) -> float:
        """How far a value of a measure may be from the given one and still count as equal."""
        return below_step(TIE * self.unit(measure), self.step_of(measure))

    def measured(self, measure: str, assignment: np.ndarray) -> float:
        """A measure of a canonical assignment."""
        return self.stated.excess(assignment) if measure == BROKEN else float(self.metrics(assignment)[measure])

    def _excess_of_rules(self, assignment: np.ndarray) -> dict[str, float]:
        """By how much rules are broken, where they give way: for `metrics`."""
        return {} if self.soft_rule is None else {BROKEN: self.stated.excess(assignment)}

    def rank(self, assignment: np.ndarray) -> tuple[float, ...]:
        """The measures of a canonical assignment in the order of the priorities."""
        return tuple(self.measured(name, assignment) for name in self.stages)


class OverWindows(Prioritised):
    """A problem over k windows; its dataclass has the fields, this class reads them."""

    OF_WINDOWS: ClassVar = ("windows", "scenarios", "over", "level", "probabilities")
    windows: int = 1
    scenarios: ArrayLike | None = None
    over: Over = "max"
    level: float = 0.9
    probabilities: ArrayLike | None = None
    resource_capacity: Mapping[str, Any] | None = None

    def arguments(self) -> dict[str, Any]:
        """The arguments without defaults about windows, so that fingerprints stay those of earlier versions."""
        given = super().arguments()
        if self.several:
            return given
        usual = {name: getattr(type(self), name) for name in self.OF_WINDOWS}
        return {k: v for k, v in given.items() if k not in usual or not np.array_equal(v, usual[k])}

    def _read_windows(self) -> None:
        """Read the fields, or raise `InputError`."""
        w = self.workload
        self._put("windows", guards.whole("windows", self.windows, least=1, optional=False))
        if self.windows > w.windows:
            raise InputError(f"windows = {self.windows}: the workload has {w.windows}")
        guards.one_of("over", self.over, RULES)
        self._put("level", guards.real("level", self.level, optional=False))
        if self.level >= 1:
            said = f"level = {self.level:g} must be below 1: it is the share of probability that CVaR leaves out"
            raise InputError(said)
        if self.scenarios is not None:
            if self.windows > 1:
                raise InputError(f"windows = {self.windows} and scenarios: give one of the two")
            both = {"scenarios": self.scenarios, "probabilities": self.probabilities}
            if getattr(self.scenarios, "ndim", 1) == 2:  # their rows are the scenarios
                self._put("probabilities", aligned(both)[0].get("probabilities"))
            given = ordered("scenarios", self.scenarios, w.keys, w.key_groups)
            given = guards.non_negative("scenarios", given, ndim=(1, 2), length=w.key_groups, of="key groups")
            self._put("scenarios", given)
        if self.probabilities is not None:
            self._put("probabilities", self._read_probabilities())

    def _read_probabilities(self) -> FloatArray:
        count = self.windows if self.scenarios is None else len(np.asarray(self.scenarios))
        what = "windows" if self.scenarios is None else "scenarios"
        given = guards.non_negative(
            "probabilities", in_time("probabilities", self.probabilities), length=count, of=what
        )
        total = float(given.sum())
        if abs(total - 1) > SUM_SLACK:
            raise InputError(f"probabilities sum to {apart(total, 1)[0]}, expected 1")
        return given

    def _refuse_priorities_of_one_window(self, *names: str) -> None:
        """Raise `InputError` where more windows meet a priority that only one has."""
        for name in names if self.several else ():
            if name in self.priorities:
                raise InputError(f"priorities names {name!r}, which only a problem about one window has")

    @cached_property
    def several(self) -> bool:
        """Whether the problem is about more than the last window: several windows, or scenarios."""
        return self.windows > 1 or self.scenarios is not None

    @cached_property
    def planned(self) -> PlannedWindows:
        """The loads that the problem plans for, without windows of probability 0."""
        w = self.workload
        load = w.load[-self.windows :] if self.scenarios is None else np.asarray(self.scenarios)
        share = np.full(len(load), 1.0) if self.probabilities is None else np.asarray(self.probabilities)
        return PlannedWindows(load[share > 0], share[share > 0] / share.sum(), self.over, self.level)

    @property
    def by_window(self) -> tuple[Self, ...]:
        """One problem for each window, the oldest first; this problem itself if it has one window."""
        return self._several_windows if self.several else (self,)  # never kept: a circle would outlive its last reader

    @cached_property
    def _several_windows(self) -> tuple[Self, ...]:
        """One problem for each of several windows."""
        own = self.planned_traffic or (self.workload.traffic,) * self.planned.count
        rows = zip(self.planned.load, own, strict=True)
        return tuple(self._about(self.workload.replace(load=row, traffic=traffic)) for row, traffic in rows)

    @cached_property
    def planned_traffic(self) -> tuple[sp.csr_array, ...]:
        """The traffic of each window that is planned for; empty where one matrix, or none, stands for all of them."""
        if not self.several or self.scenarios is not None or not self.workload.earlier_traffic:
            return ()
        share = np.ones(self.windows) if self.probabilities is None else np.asarray(self.probabilities)
        last = self.workload.window_traffic[-self.windows :]
        return tuple(traffic for traffic, q in zip(last, share, strict=True) if q > 0)

    def averaged(self) -> Self:
        """The problem on a single window, the mean of all, which relaxes the limits of each window.

        For bounds, and for methods that use a single load for each key group.
        """
        return self._about(self.typical()) if self.several else self

    def _about(self, workload: Workload) -> Self:
        """The problem about the last window of a workload; a capacity, or a rule, for the load of today's has no part in it."""
        rest: dict[str, Any] = {} if self.probabilities is None else {"probabilities": None}
        if (limits := self.resource_capacity) and "load" in limits:
            rest["resource_capacity"] = {name: limit for name, limit in limits.items() if name != "load"}
        if any(rule.of_today for rule in self.rules):
            rest["rules"] = [rule for rule in self.rules if not rule.of_today]
        return self.changed(workload=workload, windows=1, scenarios=None, **rest)

    def typical(self) -> Workload:
        """The workload with the mean load and traffic over the windows as its last one.

        For methods that use a single load for each key group.
        """
        return self._typical

    @cached_property
    def _typical(self) -> Workload:
        if not self.several:
            return self.workload
        it, own = self.planned, self.planned_traffic
        traffic = self.workload.traffic
        if own:
            traffic = sum((q * t for q, t in zip(it.share[1:], own[1:], strict=True)), it.share[0] * own[0])
        return self.workload.replace(load=it.share @ it.load, traffic=traffic)
