"""Key-group allocation as a Pyomo model. The numbers are those of `KeyGroupAllocation`'s docstring."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyomo.environ as pyo

from keyshift.models.allocation.problem import KeyGroupAllocation
from keyshift.models.workload import IntArray

Objective = Literal["distance", "deviation_sum"] | tuple[float, float]


class AllocationPyomo:
    """The model of paper 2, section 4.3.1, one method for each family of constraints.

    Parameters
    ----------
    problem : KeyGroupAllocation
    objective : {"distance", "deviation_sum"} or (w1, w2)
        First stage (d), second stage ((d - d_u) + (d - d_l)), or the printed w1 * d - w2 * (d_u + d_l).
    max_distance : float, optional
        Upper limit on d, which the second stage takes from the first.

    Attributes
    ----------
    model : pyomo.environ.ConcreteModel
        Variables ``x[k, i]`` for the pairs that (6) allows, ``d``, ``d_u``, ``d_l``.
    """

    def __init__(
        self, problem: KeyGroupAllocation, objective: Objective = "distance", max_distance: float | None = None
    ) -> None:
        self.problem = problem
        self.workload = problem.workload
        self.load = problem.workload.last_load.tolist()
        self.current = problem.workload.current.tolist()
        self.open = [np.flatnonzero(row).tolist() for row in problem.allowed]
        self.model = pyo.ConcreteModel(name=problem.name)
        self.variables(max_distance)
        self.set_objective(objective)
        self.one_node_each()
        self.migration_limits()
        self.upper_loads()
        self.lower_loads()
        self.distance_floor()
        self.resource_capacities()

    def variables(self, max_distance: float | None) -> None:
        """x, d, d_u, d_l; (6) is imposed by leaving out the pairs that it forbids."""
        m = self.model
        m.pairs = pyo.Set(initialize=[(k, i) for k, nodes in enumerate(self.open) for i in nodes], dimen=2)
        m.x = pyo.Var(m.pairs, domain=pyo.Binary)
        # No useful d exceeds the largest load a node could ever carry: a finite box makes safe dual bounds possible.
        largest = sum(self.load) / float(self.workload.capacity.min()) + self.problem.mean_load
        m.d = pyo.Var(bounds=(0, largest if max_distance is None else max_distance))
        m.d_u = pyo.Var(bounds=(0, 2 * largest))
        m.d_l = pyo.Var(bounds=(0, 2 * largest))

    def set_objective(self, objective: Objective) -> None:
        """Minimise d, or the two one-sided deviations, or their weighted sum as printed."""
        m = self.model
        if objective == "distance":
            m.objective = pyo.Objective(expr=m.d)
        elif objective == "deviation_sum":
            m.objective = pyo.Objective(expr=(m.d - m.d_u) + (m.d - m.d_l))
        else:
            w1, w2 = objective
            m.objective = pyo.Objective(expr=w1 * m.d - w2 * (m.d_u + m.d_l))

    def one_node_each(self) -> None:
        """(1) Every key group runs on exactly one node."""
        m = self.model
        m.one_node = pyo.Constraint(
            range(self.workload.key_groups), rule=lambda m, k: sum(m.x[k, i] for i in self.open[k]) == 1
        )

    def migration_limits(self) -> None:
        """(2) The key groups that leave their node cost, and number, no more than allowed.

        Under (1) the variables of k off its node sum to 1 - x[k, current], which keeps the row short.
        """
        m, problem = self.model, self.problem
        leaves = [1 - m.x[k, i] for k, i in enumerate(self.current)]
        if problem.max_migration_cost is not None:
            cost = problem.migration_cost.tolist()
            m.migration_cost = pyo.Constraint(
                expr=pyo.quicksum(c * leave for c, leave in zip(cost, leaves, strict=True))
                <= problem.max_migration_cost
            )
        if problem.max_migrations is not None:
            m.migrations = pyo.Constraint(expr=pyo.quicksum(leaves) <= problem.max_migrations)

    def node_load(self, i: int) -> pyo.Expression:
        """Load per unit of capacity of node i."""
        m, c = self.model, float(self.workload.capacity[i])
        return pyo.quicksum(y / c * m.x[k, i] for k, y in enumerate(self.load) if y > 0 and (k, i) in m.x)

    def upper_loads(self) -> None:
        """(3) No node lies more than d - d_u above the mean."""
        mean = self.problem.mean_load
        self.model.upper_load = pyo.Constraint(
            range(self.workload.nodes), rule=lambda m, i: self.node_load(i) <= mean + (m.d - m.d_u)
        )

    def lower_loads(self) -> None:
        """(4) No kept node lies more than d - d_l below the mean."""
        mean, kept = self.problem.mean_load, np.flatnonzero(self.workload.kept).tolist()
        self.model.lower_load = pyo.Constraint(kept, rule=lambda m, i: self.node_load(i) >= mean - (m.d - m.d_l))

    def distance_floor(self) -> None:
        """(5) The load distance does not exceed the mean, as printed; off by default."""
        if self.problem.distance_floor:
            self.model.distance_floor = pyo.Constraint(expr=self.problem.mean_load - self.model.d >= 0)

    def resource_capacities(self) -> None:
        """(7) No node uses more of a resource than it has."""
        m, limits = self.model, dict(self.problem.resource_capacity or {})
        usage = {name: self.problem.usage(name).tolist() for name in limits}

        def within(m: pyo.ConcreteModel, name: str, i: int) -> object:
            use = pyo.quicksum(r * m.x[k, i] for k, r in enumerate(usage[name]) if r > 0 and (k, i) in m.x)
            # A row without variables would be a constant to Pyomo, not a constraint; it holds trivially.
            return pyo.Constraint.Skip if isinstance(use, int | float) else use <= float(np.asarray(limits[name])[i])

        m.capacity = pyo.Constraint(list(limits), range(self.workload.nodes), rule=within)

    def set_start(self, assignment: IntArray) -> None:
        """Give every variable the value it has in a known assignment."""
        m = self.model
        for (k, i), x in m.x.items():
            x.value = int(assignment[k] == i)
        figures = self.problem.metrics(assignment)
        m.d.value = figures["load_distance"]
        m.d_u.value = m.d.value - figures["upper_deviation"]
        m.d_l.value = m.d.value - figures["lower_deviation"]

    def assignment(self) -> IntArray:
        """Read the assignment from the variables' values: for each key group, its node of largest x."""
        chosen = np.empty(self.workload.key_groups, dtype=np.int64)
        for k, nodes in enumerate(self.open):
            chosen[k] = max(nodes, key=lambda i: self.model.x[k, i].value)
        return chosen
