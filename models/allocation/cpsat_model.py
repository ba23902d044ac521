"""Key-group allocation as a CP-SAT model. The numbers are those of `KeyGroupAllocation`'s docstring."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

import numpy as np
from ortools.sat.python import cp_model

from keyshift.models.allocation.problem import KeyGroupAllocation
from keyshift.models.integers import scaled
from keyshift.models.workload import IntArray


class AllocationCpSat:
    """The model of paper 2, section 4.3.1, in whole numbers, one method for each family of constraints.

    Loads and capacities become integers (`keyshift.models.integers`), and (3), (4) are multiplied by the kept
    capacity, so that the mean - a quotient - needs no rounding. `bound` turns the solver's integer bound back
    into one that holds for the original numbers.

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
        w = self.workload = problem.workload
        self.unequal = bool((w.capacity != w.capacity[0]).any())
        # Unequal capacities, or a rounded mean, make the integer distance a rounded one: keep its unit small.
        exact = not self.unequal and problem.mean == "exact"
        self.load = scaled(w.last_load) if exact else scaled(w.last_load).finer()
        self.capacity = scaled(w.capacity, bits=16)
        self.kept_capacity = int(self.capacity.values[w.kept].sum())
        self.unit = self.load.scale * self.kept_capacity / self.capacity.scale  # integer distance per unit of load
        self.mean = self._integer_mean()
        self.model = cp_model.CpModel()
        self.variables()
        self.sides(max_distance)
        self.one_node_each()
        self.migration_limits()
        self.upper_loads()
        self.lower_loads()
        self.distance_floor()
        self.resource_capacities()
        self.model.minimize(self.d if objective == "distance" else self.upper + self.lower)

    def _integer_mean(self) -> int:
        """The mean in units of the distance: exactly the total load, unless rounded up as printed."""
        if self.problem.mean == "exact":
            return int(self.load.values.sum())
        return round(Fraction(self.problem.mean_load) * self.unit)

    def variables(self) -> None:
        """X for the pairs that (6) allows, and the integer distance d."""
        allowed = self.problem.allowed
        self.x = {(int(k), int(i)): self.model.new_bool_var(f"x[{k},{i}]") for k, i in np.argwhere(allowed)}
        everything_on_the_smallest = self.kept_capacity * int(self.load.values.sum()) // int(self.capacity.values.min())
        self.d = self.model.new_int_var(0, max(everything_on_the_smallest, self.mean) + 1, "d")

    def sides(self, max_distance: float | None) -> None:
        """The two one-sided deviations d - d_u and d - d_l, neither above d; d no more than given, rounded up."""
        largest = int(self.d.proto.domain[1]) if max_distance is None else self._units(max_distance)
        self.model.add(self.d <= largest)
        self.upper = self.model.new_int_var(-self.mean, largest, "upper")
        self.lower = self.model.new_int_var(-largest, largest, "lower")
        self.model.add(self.upper <= self.d)
        self.model.add(self.lower <= self.d)

    def _units(self, distance: float) -> int:
        """A load distance in units of d, rounded up, and what rounding the loads can have added."""
        rounding = 2 * self.load.error * self.workload.key_groups / float(self.workload.capacity.min())
        return math.ceil(Fraction(distance * (1 + 1e-12) + rounding) * self.unit) + self.unequal + 1

    def one_node_each(self) -> None:
        """(1) Every key group runs on exactly one node."""
        for k, row in enumerate(self.problem.allowed):
            self.model.add_exactly_one(self.x[k, int(i)] for i in np.flatnonzero(row))

    def migration_limits(self) -> None:
        """(2) The key groups that leave their node cost, and number, no more than allowed."""
        leaves = [1 - self.x[k, int(i)] for k, i in enumerate(self.workload.current)]
        if self.problem.max_migrations is not None:
            self.model.add(sum(leaves) <= self.problem.max_migrations)
        if self.problem.max_migration_cost is not None:
            cost = scaled(self.problem.migration_cost)
            limit = self._limit(self.problem.max_migration_cost, cost.scale, cost.error)
            self.model.add(sum(int(c) * leave for c, leave in zip(cost.values, leaves, strict=True)) <= limit)

    def _limit(self, limit: float, scale: Fraction, error: float) -> int:
        """A limit in scaled units, widened by what rounding the terms can have added to their sum."""
        return math.floor(Fraction(limit) * scale) + math.ceil(error * float(scale) * self.workload.key_groups)

    def node_load(self, i: int) -> cp_model.LinearExprT:
        """Load of node i times the kept capacity, in the units of d times the capacity of i."""
        return sum(
            self.kept_capacity * int(y) * self.x[k, i]
            for k, y in enumerate(self.load.values)
            if y > 0 and (k, i) in self.x
        )

    def upper_loads(self) -> None:
        """(3) No node lies more than d - d_u above the mean."""
        for i, c in enumerate(self.capacity.values):
            self.model.add(self.node_load(i) <= int(c) * (self.mean + self.upper))

    def lower_loads(self) -> None:
        """(4) No kept node lies more than d - d_l below the mean."""
        for i in np.flatnonzero(self.workload.kept):
            self.model.add(self.node_load(int(i)) >= int(self.capacity.values[i]) * (self.mean - self.lower))

    def distance_floor(self) -> None:
        """(5) The load distance does not exceed the mean, as printed; off by default."""
        if self.problem.distance_floor:
            self.model.add(self.d <= self.mean)

    def resource_capacities(self) -> None:
        """(7) No node uses more of a resource than it has."""
        for name, limits in (self.problem.resource_capacity or {}).items():
            use = scaled(self.problem.usage(name))
            for i, limit in enumerate(np.asarray(limits)):
                terms = [int(r) * self.x[k, i] for k, r in enumerate(use.values) if r > 0 and (k, i) in self.x]
                if terms:
                    self.model.add(sum(terms) <= self._limit(float(limit), use.scale, use.error))

    def set_start(self, assignment: IntArray) -> None:
        """Hint a known assignment."""
        for (k, i), x in self.x.items():
            self.model.add_hint(x, int(assignment[k] == i))

    def assignment(self, value: object) -> IntArray:
        """Read the assignment through ``value``, a function from a variable to its value."""
        chosen = np.zeros(self.workload.key_groups, dtype=np.int64)
        for (k, i), x in self.x.items():
            if value(x):  # type: ignore[operator]
                chosen[k] = i
        return chosen

    def bound(self, integer_bound: float) -> float:
        """Turn a proven bound on the integer d into a safe one on the load distance.

        What rounding can have added is taken off: half a unit for every load, on the node and in the mean; a unit
        of d where unequal capacities made the solver round it up, another where the mean was rounded; and the
        relative error of rounded capacities, which bears on a node's load and on the mean.
        """
        capacity = self.workload.capacity
        whole = math.ceil(integer_bound - 1e-6) - self.unequal - (self.problem.mean != "exact")
        value = float(Fraction(max(whole, 0)) / self.unit)
        loads = 2 * self.load.error * self.workload.key_groups / float(capacity.min())
        relative = 2 * self.capacity.error / float(capacity.min())
        safe = (value * (1 - 1e-12) - loads - 2 * relative * self.problem.mean_load) / (1 + relative)
        return max(0.0, safe)
