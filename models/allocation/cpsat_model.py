"""Key-group allocation as a CP-SAT model. The numbers are those of `KeyGroupAllocation`'s docstring."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from ortools.sat.python import cp_model

from keyshift.models.allocation.problem import SLACK, KeyGroupAllocation
from keyshift.models.allocation.whole_distances import WholeDistances
from keyshift.models.knapsack import Knapsack
from keyshift.models.rules.rows import add_to_cpsat, broken_in_cpsat
from keyshift.models.stages import FLOATS, CpSatStages, WholeMeasure, weighed
from keyshift.models.workload import IntArray


class AllocationCpSat(CpSatStages):
    """The model of [Madsen2016], section 4.3.1, in whole numbers, one method for each family of constraints.

    Loads and the mean become whole multiples of a unit of load distance (`WholeDistances`); costs and uses of resources
    have units of their own (`Knapsack`). Where that rounds, it widens: the model admits whatever the check admits, and
    `forbid` cuts off what it admits beyond that. `bound` turns the solver's integer bound back into one that holds for
    the original numbers.

    Parameters
    ----------
    problem : KeyGroupAllocation
    objective : {"distance", "deviation_sum"}
        First stage (d) or second stage ((d - d_u) + (d - d_l)).
    max_distance : float, optional
        Upper limit on d, which the second stage takes from the first.

    Attributes
    ----------
    model : ortools.sat.python.cp_model.CpModel
    """

    def __init__(
        self,
        problem: KeyGroupAllocation,
        objective: Literal["distance", "deviation_sum"] = "distance",
        max_distance: float | None = None,
    ) -> None:
        self.problem = problem
        self.workload = problem.workload
        self.distances = self.whole_distances()
        self.model = cp_model.CpModel()
        self.variables()
        self.sides(max_distance)
        self.one_node_each()
        self.migration_limits()
        self.upper_loads()
        self.lower_loads()
        self.distance_floor()
        self.resource_capacities()
        self.rules()
        self.model.minimize(self.d if objective == "distance" else self.upper + self.lower)

    def whole_distances(self) -> WholeDistances:
        """Loads and the mean in whole numbers."""
        return WholeDistances.of(self.problem)

    def variables(self) -> None:
        """X for the pairs that (6), or (2) or (7) by themselves, allow, and the integer distance d."""
        open_pairs = np.argwhere(self.problem.open_pairs).tolist()
        self.x = {(k, i): self.model.new_bool_var(f"x[k{k},n{i}]") for k, i in open_pairs}
        self.d = self.model.new_int_var(0, self.distances.most, "d")

    def sides(self, max_distance: float | None) -> None:
        """The two one-sided deviations d - d_u and d - d_l, neither above d; d no more than given, rounded up."""
        largest = self.distances.most
        if max_distance is not None:
            largest = min(largest, self.distances.units(max_distance))
        self.model.add(self.d <= largest).with_name("largest_distance")
        self.upper = self.model.new_int_var(-self.distances.mean_high, largest, "upper")
        self.lower = self.model.new_int_var(-largest, largest, "lower")
        self.model.add(self.upper <= self.d).with_name("upper_side")
        self.model.add(self.lower <= self.d).with_name("lower_side")

    def one_node_each(self) -> None:
        """(1) Every key group runs on exactly one node."""
        for k, row in enumerate(self.problem.open_pairs):
            self.model.add_exactly_one(self.x[k, int(i)] for i in np.flatnonzero(row)).with_name(f"one_node[k{k}]")

    def leaves(self, k: int) -> Any:
        """Whether key group k leaves its node: an expression, or 1 where it has to."""
        here = self.x.get((k, int(self.workload.current[k])))
        return 1 if here is None else 1 - here

    def migration_limits(self) -> None:
        """(2) The key groups that leave their node are no more, and cost no more, than allowed."""
        leaves = [self.leaves(k) for k in range(self.workload.key_groups)]
        most = self.problem.max_migrations
        if most is not None and most < len(leaves):
            self.model.add(sum(leaves) <= most).with_name("migrations")
        if self.problem.cost_limit is not None:
            self.keep_within(self.problem.cost_limit, leaves, "migration_cost")

    def keep_within(self, limit: Knapsack, chosen: list[Any], name: str) -> None:
        """Add a row for a limit on weights, given an expression for each item; None for items that cannot be chosen."""
        if not limit.binds:
            return
        weights, most = limit.whole()
        terms = [int(c) * item for c, item in zip(weights, chosen, strict=True) if c > 0 and item is not None]
        self.model.add(sum(terms) <= most).with_name(name)

    def node_load(self, i: int, loads: list[int]) -> cp_model.LinearExprT:
        """Load of node i, in whole units of distance."""
        return sum(y * self.x[k, i] for k, y in enumerate(loads) if y > 0 and (k, i) in self.x)

    def upper_loads(self) -> None:
        """(3) No node lies more than d - d_u above the mean."""
        for i, loads in enumerate(self.distances.high):
            row = self.node_load(i, loads) <= self.distances.mean_high + self.upper
            self.model.add(row).with_name(f"upper_load[n{i}]")

    def lower_loads(self) -> None:
        """(4) No kept node lies more than d - d_l below the mean."""
        for i in np.flatnonzero(self.workload.kept).tolist():
            row = self.node_load(i, self.distances.low[i]) >= self.distances.mean_low - self.lower
            self.model.add(row).with_name(f"lower_load[n{i}]")

    def distance_floor(self) -> None:
        """(5) The load distance does not exceed the mean, as printed; off by default."""
        if self.problem.distance_floor:
            largest = self.distances.units(self.problem.mean_load + 2 * SLACK * self.problem.scale)
            self.model.add(self.d <= largest).with_name("distance_floor")

    def resource_capacities(self) -> None:
        """(7) No node uses more of a resource than it has."""
        for name in self.problem.resource_capacity or {}:
            for i, room in enumerate(self.problem.rooms(name)):
                chosen = [self.x.get((k, i)) for k in range(self.workload.key_groups)]
                self.keep_within(room, chosen, f"capacity[{name},n{i}]")

    def rules(self) -> None:
        """The rules: (1), (3), (4) of `keyshift.models.rules.lowered`; what (2) closes has no variable."""
        add_to_cpsat(self.model, self.problem.lowered, self.x, self.workload.nodes)

    def measure(self, name: str) -> WholeMeasure:
        """A measure of key-group allocation in whole numbers."""
        w, it = self.workload, self.distances
        if name == "load_distance":
            return WholeMeasure(self.d, it.units, it.distance)
        if name == "deviation_sum":
            doubt = 2 * it.doubt + FLOATS * self.problem.unit(name)
            return WholeMeasure(
                self.upper + self.lower,
                lambda most: math.floor((Fraction(most) + Fraction(doubt)) * it.unit),
                lambda whole: float(Fraction(whole) / it.unit) - doubt,
            )
        if name == "draining_load":
            nodes = np.flatnonzero(w.draining).tolist()
            left = [sum(self.x[k, i] for i in nodes if (k, i) in self.x) for k in range(w.key_groups)]
            return WholeMeasure.sum(*weighed(w.last_load, left), w.key_groups, self.problem.unit(name))
        return self.of_moves(name)

    def of_moves(self, name: str) -> WholeMeasure:
        """The sum over the key groups that leave their node: their number, or their state; or (5) of the rules."""
        if name == "broken_rules":
            return broken_in_cpsat(self.model, self.problem.wished, self.x, self.workload.nodes)
        leaves = [self.leaves(k) for k in range(self.workload.key_groups)]
        if name == "migrations":
            return WholeMeasure.count(sum(leaves))
        return WholeMeasure.sum(*weighed(self.workload.state, leaves), len(leaves), self.problem.unit(name))

    def forbid(self, assignment: IntArray) -> None:
        """Cut off an assignment that rounding let into the model and the check refused, and others by the same cause."""
        cuts = 0
        for items, node in self.problem.covers(assignment):
            chosen = [self.leaves(k) if node is None else self.x[k, node] for k in items.tolist()]
            self.model.add(sum(chosen) <= len(chosen) - 1)
            cuts += 1
        if cuts == 0:
            self.model.add_bool_or(~self.x[k, int(i)] for k, i in enumerate(assignment))

    def set_start(self, assignment: IntArray) -> None:
        """Hint a known assignment."""
        self.model.clear_hints()
        for (k, i), x in self.x.items():
            self.model.add_hint(x, int(assignment[k] == i))

    def assignment(self, value: Callable[[Any], int]) -> IntArray:
        """Read the assignment through ``value``, a function from a variable to its value."""
        chosen = np.zeros(self.workload.key_groups, dtype=np.int64)
        for (k, i), x in self.x.items():
            if value(x):
                chosen[k] = i
        return chosen

    def load_distance(self, integer_objective: float) -> float:
        """A value of the integer objective in load per unit of capacity."""
        return integer_objective / float(self.distances.unit)

    def bound(self, integer_bound: float) -> float:
        """Turn a proven bound on the integer d into a safe one on the load distance."""
        return self.distances.distance(math.ceil(integer_bound - 1e-6))
