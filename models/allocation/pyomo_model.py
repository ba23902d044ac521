"""Key-group allocation as a Pyomo model. The numbers are those of `KeyGroupAllocation`'s docstring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from keyshift.models.allocation.problem import DRAINING, KeyGroupAllocation
from keyshift.models.answer import HIGHS_ERROR
from keyshift.models.base import guards
from keyshift.models.base.pyomo import pyo
from keyshift.models.errors import InputError
from keyshift.models.objectives import PlannedWindows
from keyshift.models.rules.rows import add_to_pyomo, broken_in_pyomo
from keyshift.models.stages import PlacedPyomo, PyomoStages
from keyshift.models.workload import FloatArray, IntArray

NEGLIGIBLE = 1e-8
"""HiGHS drops coefficients below 1e-9, and errs near it: we leave out loads that are so small a share of the mean."""


class AllocationPyomo(PlacedPyomo, PyomoStages):
    """The model of [Madsen2016], section 4.3.1, one method for each family of constraints.

    Parameters
    ----------
    problem : KeyGroupAllocation
        About one window or several: each of several has a load distance d[s], and (8) combines them.
    weights : (w1, w2), optional
        Minimise w1 * d - w2 * (d_u + d_l) as printed, which a problem about one window has, instead of d.
    negligible : float, default 0
        Loads below this share of the mean, or of the largest load on the same node, are left out of (3) and all added
        to the right side of (4): a relaxation, for solvers that lose such small numbers.

    Attributes
    ----------
    model : pyomo.environ.ConcreteModel
        Variables ``x[k, i]`` for the pairs that (6) allows, ``d``, and with one window ``d_u``, ``d_l``.
    """

    letters: Mapping[str, str] = {
        "x": "kn", "one_node": "k", "upper_load": "n", "lower_load": "n", "capacity": "-n", "d": "s", "above": "s", "excess": "s",
        "worst": "s", "distance_floor": "s",
    }  # fmt: skip

    @classmethod
    def of(cls, problem: KeyGroupAllocation, weights: tuple[float, float] | None = None) -> Self:
        """The problem for solvers that compute in floats: without loads that they lose; with w1 and w2 as printed."""
        if weights is None:
            return cls(problem, negligible=NEGLIGIBLE)
        w1, w2 = guards.non_negative("weights", weights, length=2).tolist()
        if problem.several:
            raise InputError("weights are of the two one-sided deviations, which only a problem about one window has")
        return cls(problem, (w1, w2), negligible=NEGLIGIBLE)

    def __init__(
        self, problem: KeyGroupAllocation, weights: tuple[float, float] | None = None, negligible: float = 0.0
    ) -> None:
        self.problem, self.weights, self.negligible = problem, weights, negligible
        self.workload = problem.workload
        self.current = problem.workload.current.tolist()
        self.open = [np.flatnonzero(row).tolist() for row in problem.open_pairs]
        self.model = pyo.ConcreteModel(name=problem.name)
        self.variables()
        self.set_objective()
        self.one_node_each()
        self.migration_limits()
        self.upper_loads()
        self.lower_loads()
        self.distance_floor()
        self.resource_capacities()
        self.rules()

    def placements(self) -> None:
        """x; pairs that (6), or (2) or (7) by themselves, forbid are left out."""
        m = self.model
        m.pairs = pyo.Set(initialize=[(k, i) for k, nodes in enumerate(self.open) for i in nodes], dimen=2)
        m.x = pyo.Var(m.pairs, domain=pyo.Binary)

    def variables(self) -> None:
        """x, and d, d_u, d_l or each window's d."""
        self.placements()
        m, it = self.model, self.problem.planned
        # No useful d exceeds the largest load a node could ever carry: a finite box makes safe dual bounds possible.
        self.most = it.load.sum(axis=1) / self.workload.capacity.min() + self.problem.means
        self.windows = (range(it.count),) if it.count > 1 else ()
        m.d = pyo.Var(*self.windows, bounds=lambda m, s=None: (0, float(self.most[s or 0])))
        self.d = self.upper = self.lower = list(m.d.values())
        if it.count > 1:
            self.letters = {**self.letters, "upper_load": "sn", "lower_load": "sn"}
            return
        m.d_u = pyo.Var(bounds=(0, 2 * float(self.most[0])))
        m.d_l = pyo.Var(bounds=(0, 2 * float(self.most[0])))
        self.upper, self.lower = [m.d - m.d_u], [m.d - m.d_l]

    def set_objective(self) -> None:
        """Minimise d - over windows what (8) makes of them -, or as printed."""
        m = self.model
        self.distance = combine(m, self.problem.planned, self.d, self.most)
        if self.weights is None:
            m.objective = pyo.Objective(expr=self.distance)
        else:
            w1, w2 = self.weights
            m.objective = pyo.Objective(expr=w1 * m.d - w2 * (m.d_u + m.d_l))

    def leaves(self, k: int) -> Any:
        """1 where key group k leaves its node: under (1) its variables off that node sum to it, and this is shorter."""
        here = (k, self.current[k])
        return 1 - self.model.x[here] if here in self.model.x else 1

    def leaving(self, key_groups: list[int]) -> list[Any]:
        """`leaves` of each; where none of them can stay, in variables: Pyomo takes no row without any."""
        leaves = [self.leaves(k) for k in key_groups]
        if any(not isinstance(leave, int) for leave in leaves):
            return leaves
        return [pyo.quicksum(self.model.x[k, i] for i in self.open[k]) for k in key_groups]

    def migration_limits(self) -> None:
        """(2) The key groups that leave their node are no more, and cost no more, than allowed."""
        m, p, limit, most = self.model, self.workload.key_groups, self.problem.cost_limit, self.problem.max_migrations
        if limit is not None and limit.binds:
            costly = np.flatnonzero((limit.weights > 0) & limit.fits)
            items = zip(limit.weights[costly].tolist(), self.leaving(costly.tolist()), strict=True)
            m.migration_cost = pyo.Constraint(expr=pyo.quicksum(c * leaves for c, leaves in items) <= limit.most)
        if most is not None and most < p:
            m.migrations = pyo.Constraint(expr=pyo.quicksum(self.leaving(list(range(p)))) <= most)

    def significant_load(self, s: int, i: int) -> tuple[pyo.Expression, float]:
        """Load per unit of capacity of node i in window s, and what negligible loads - beside the mean - could add to it."""
        m, c = self.model, float(self.workload.capacity[i])
        loads = {k: y / c for k, y in enumerate(self.problem.planned.load[s].tolist()) if y > 0 and (k, i) in m.x}
        least = self.negligible * max([float(self.problem.means[s]), *loads.values()])
        lost = sum(y for y in loads.values() if y < least)
        return pyo.quicksum(y * m.x[k, i] for k, y in loads.items() if y >= least), lost

    def upper_loads(self) -> None:
        """(3) No node lies more than d - d_u above the mean of a window."""

        def enough(m: pyo.ConcreteModel, *at: int) -> object:
            s, i = (0, *at)[-2:]
            return self.significant_load(s, i)[0] <= float(self.problem.means[s]) + self.upper[s]

        self.model.upper_load = pyo.Constraint(*self.windows, range(self.workload.nodes), rule=enough)

    def lower_loads(self) -> None:
        """(4) No kept node lies more than d - d_l below the mean of a window."""

        def enough(m: pyo.ConcreteModel, *at: int) -> object:
            s, i = (0, *at)[-2:]
            load, lost = self.significant_load(s, i)
            return load >= float(self.problem.means[s]) - lost - self.lower[s]

        kept = np.flatnonzero(self.workload.kept).tolist()
        self.model.lower_load = pyo.Constraint(*self.windows, kept, rule=enough)

    def distance_floor(self) -> None:
        """(5) No window's load distance exceeds its mean, as printed; off by default."""
        if self.problem.distance_floor:
            room = [mean - d for mean, d in zip(self.problem.means.tolist(), self.d, strict=True)]
            self.model.distance_floor = pyo.Constraint(*self.windows, rule=lambda m, s=None: room[s or 0] >= 0)

    def resource_capacities(self) -> None:
        """(7) No node uses more of a resource than it has."""
        m, names, rooms = self.model, self.problem.resource_capacity or {}, self.problem.rooms
        binding = {(name, i): room for name in names for i, room in enumerate(rooms(name)) if room.binds}

        def within(m: pyo.ConcreteModel, name: str, i: int) -> object:
            room = binding[name, i]
            items = np.flatnonzero((room.weights > 0) & room.fits).tolist()
            terms = [float(room.weights[k]) * m.x[k, i] for k in items if (k, i) in m.x]
            # A row without variables would be a constant to Pyomo, not a constraint.
            return pyo.quicksum(terms) <= room.most if terms else pyo.Constraint.Skip

        m.capacity = pyo.Constraint(pyo.Set(initialize=list(binding), dimen=2), rule=within)

    def rules(self) -> None:
        """The rules: (1), (3), (4) of `keyshift.models.rules.lowered`; what (2) closes has no variable."""
        add_to_pyomo(self.model, self.problem.lowered, dict(self.model.x.items()), self.workload.nodes)

    def measure(self, name: str) -> tuple[Any, float]:
        """A measure of key-group allocation: an expression, and its unit."""
        m, w, unit = self.model, self.workload, self.problem.unit(name)
        if name == "load_distance":
            return self.distance, 1.0
        if name == "deviation_sum":
            return self.upper[0] + self.lower[0], 1.0
        if name in DRAINING:
            load = w.last_load if name == "draining_load" else np.ones(w.key_groups)
            on = [(k, i) for k, i in m.x if w.draining[i] and load[k] > 0]
            return pyo.quicksum(float(load[k]) / unit * m.x[k, i] for k, i in on), unit
        if name == "broken_rules":
            return broken_in_pyomo(m, self.problem.stated, dict(m.x.items()), w.nodes), 1.0
        weights = np.ones(w.key_groups) if name == "migrations" else w.state / unit
        return pyo.quicksum(float(c) * self.leaves(k) for k, c in enumerate(weights) if c > 0), unit

    def set_start(self, assignment: IntArray) -> None:
        """Give every variable the value it has in a known assignment."""
        super().set_start(assignment)
        m, distances = self.model, self.problem.distances(assignment)
        # Rounding may put a value slightly outside its bounds.
        for d, value in zip(self.d, distances.tolist(), strict=True):
            d.set_value(value, skip_validation=True)
        start_combined(m, self.problem.planned, distances)
        if not self.windows:
            figures = self.problem.metrics(assignment)
            m.d_u.set_value(figures["load_distance"] - figures["upper_deviation"], skip_validation=True)
            m.d_l.set_value(figures["load_distance"] - figures["lower_deviation"], skip_validation=True)

    def bound(self, proven: float) -> float | None:
        """Turn a bound that HiGHS proves into one on (8): less what its tolerances amount to in the heaviest window.

        With weights it is that bound over w1, since d_u and d_l are not negative.
        """
        weight = 1.0 if self.weights is None else self.weights[0]
        if weight <= 0:
            return None
        if not np.isfinite(proven):
            return 0.0
        w, it, roughness = self.workload, self.problem.planned, self.problem.means
        if (w.capacity != w.capacity[0]).any():
            roughness = np.maximum(roughness, it.load.max(axis=1) / w.capacity.min())
        # A distance is never negative.
        return max(0.0, proven / weight - HIGHS_ERROR * (it.combined(roughness) or 1.0))


# Aggregation over the windows: the minimum over t in `keyshift.models.objectives` -------------------------------------------


def combine(m: pyo.ConcreteModel, it: PlannedWindows, values: Sequence[Any], most: FloatArray) -> Any:
    """Add t and, for CVaR, what each value is above it, with their rows; the combined value. Of one window it is its own.

    Parameters
    ----------
    m : ConcreteModel
    it : PlannedWindows
    values : sequence of expressions, one for each window
    most : ndarray, shape (k,)
        What no value exceeds.
    """
    windows, weights = range(it.count), it.most.tolist()
    if it.count == 1:
        return values[0]
    if it.over == "mean":
        return pyo.quicksum(weights[s] * values[s] for s in windows)
    m.t = pyo.Var(domain=pyo.NonNegativeReals)  # no upper bound: with one, presolve of HiGHS 1.13 proves wrong optima
    if it.over == "max":
        m.worst = pyo.Constraint(windows, rule=lambda m, s: values[s] <= m.t)
        return 1.0 * m.t
    m.excess = pyo.Var(windows, bounds=lambda m, s: (0, float(most[s])))
    m.above = pyo.Constraint(windows, rule=lambda m, s: values[s] <= m.t + m.excess[s])
    return m.t + pyo.quicksum(weights[s] * m.excess[s] for s in windows)


def start_combined(m: pyo.ConcreteModel, it: PlannedWindows, values: FloatArray) -> None:
    """Give t and the excesses what they are at known values."""
    if it.over == "mean" or it.count == 1:
        return
    level = float(values[it.weights(values) > 0].min()) if it.over == "cvar" else float(values.max())
    m.t.set_value(level, skip_validation=True)
    for s, value in enumerate(values.tolist() if it.over == "cvar" else ()):
        m.excess[s].set_value(max(0.0, value - level), skip_validation=True)
