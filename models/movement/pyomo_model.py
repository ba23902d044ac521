"""Least movement within load limits as a Pyomo model. The numbers are those of `MovementWithinLimits`'s docstring."""

from __future__ import annotations

import numpy as np
import pyomo.environ as pyo

from keyshift.models.movement.problem import MovementWithinLimits
from keyshift.models.workload import IntArray


class MovementPyomo:
    """One method for each family of constraints.

    Parameters
    ----------
    problem : MovementWithinLimits

    Attributes
    ----------
    model : pyomo.environ.ConcreteModel
        Variables ``x[k, i]`` and ``z[i]`` for the nodes that (5) leaves open.
    """

    def __init__(self, problem: MovementWithinLimits) -> None:
        self.problem = problem
        self.nodes = np.flatnonzero(problem.open_nodes).tolist()
        self.key_groups = range(problem.workload.key_groups)
        self.model = m = pyo.ConcreteModel(name=problem.name)
        m.x = pyo.Var(self.key_groups, self.nodes, domain=pyo.Binary)
        m.z = pyo.Var(self.nodes, domain=pyo.Binary)
        self.one_node_each()
        self.load_limits()
        self.node_count()
        self.only_in_use()
        self.least_movement()

    def one_node_each(self) -> None:
        """(1) Every key group runs on exactly one node."""
        self.model.one_node = pyo.Constraint(self.key_groups, rule=lambda m, k: sum(m.x[k, i] for i in self.nodes) == 1)

    def load_limits(self) -> None:
        """(2) A node in use carries between v and u, in units of u."""
        p = self.problem
        m = self.model
        m.limits = pyo.ConstraintList()
        for row in p.load / p.upper:
            for i in self.nodes:
                load = pyo.quicksum(float(y) * m.x[k, i] for k, y in enumerate(row) if y > 0)
                m.limits.add(load - m.z[i] <= 0)
                if p.lower > 0:
                    m.limits.add(load - p.lower / p.upper * m.z[i] >= 0)

    def node_count(self) -> None:
        """(3) As many nodes as wanted are in use."""
        self.model.count = pyo.Constraint(expr=sum(self.model.z.values()) == self.problem.nodes_after)

    def only_in_use(self) -> None:
        """(4) A node that is not in use runs nothing."""
        self.model.in_use = pyo.Constraint(self.key_groups, self.nodes, rule=lambda m, k, i: m.x[k, i] <= m.z[i])

    def least_movement(self) -> None:
        """Take the state that leaves its node as the objective, as a share of all state."""
        m, w = self.model, self.problem.workload
        share = (w.state / self.problem.scale).tolist()
        stay = {k: m.x[k, i] for k, i in enumerate(w.current.tolist()) if i in self.nodes}
        m.moved = pyo.Objective(expr=pyo.quicksum(s * (1 - stay.get(k, 0)) for k, s in enumerate(share)))

    def set_start(self, assignment: IntArray) -> None:
        """Give every variable its value in a known assignment."""
        used = sorted(set(assignment.tolist()))
        spare = [i for i in self.nodes if i not in used][: self.problem.nodes_after - len(used)]
        for (k, i), x in self.model.x.items():
            x.value = int(assignment[k] == i)
        for i, z in self.model.z.items():
            z.value = int(i in used or i in spare)

    def assignment(self) -> IntArray:
        """Read the assignment from the variables' values."""
        best = [max(self.nodes, key=lambda i: self.model.x[k, i].value) for k in self.key_groups]
        return np.array(best, dtype=np.int64)
