"""Least movement within load limits as a Pyomo model. The numbers are those of `MovementWithinLimits`'s docstring."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from keyshift.models.base.pyomo import LinearExpression, pyo
from keyshift.models.movement.problem import LoadLimits, MovementWithinLimits
from keyshift.models.rules.rows import add_to_pyomo
from keyshift.models.stages import PlacedPyomo
from keyshift.models.workload import IntArray


class MovementPyomo(PlacedPyomo):
    """One method for each family of constraints.

    Parameters
    ----------
    problem : MovementWithinLimits
    most : float, optional
        State that a known assignment moves: states above it count as little more.

    Attributes
    ----------
    model : pyomo.environ.ConcreteModel
        Variables ``x[k, i]`` and ``z[i]`` for the nodes that (5) leaves open.
    """

    letters: ClassVar[dict[str, str]] = {
        "x": "kn", "z": "n", "one_node": "k", "upper_load": "tn", "lower_load": "tn", "in_use": "kn", "not_empty": "n",
    }  # fmt: skip

    def __init__(self, problem: MovementWithinLimits, most: float = math.inf) -> None:
        self.problem, self.limits = problem, LoadLimits(problem, most)
        self.nodes, self.key_groups = self.limits.nodes, self.limits.key_groups
        self.model = m = pyo.ConcreteModel(name=problem.name)
        m.x = pyo.Var(self.key_groups, self.nodes, domain=pyo.Binary)
        m.z = pyo.Var(self.nodes, domain=pyo.Binary)
        self.one_node_each()
        self.load_limits()
        self.node_count()
        self.only_in_use()
        self.least_movement()
        add_to_pyomo(m, problem.lowered, dict(m.x.items()), problem.places)
        m.cuts = pyo.ConstraintList()

    def load_limits(self) -> None:
        """(2) A node in use carries between v and u: rows in units of u, and of v, which leave no placement out."""
        m, limits = self.model, self.limits
        on_node = {i: [m.x[k, i] for k in self.key_groups] for i in self.nodes}
        most = {t: above.shares().tolist() for t, above in enumerate(limits.above) if above.binds}
        least = {t: (low / limits.least).tolist() for t, low in enumerate(limits.low) if limits.least > 0}

        def load(shares: list[float], i: int) -> LinearExpression:
            return LinearExpression(linear_coefs=shares, linear_vars=on_node[i])

        # Load rows are wider by this share: within 1e-8 HiGHS takes a placement at a limit to be beyond it, or not.
        m.upper_load = pyo.Constraint(
            list(most), self.nodes, rule=lambda m, t, i: load(most[t], i) <= (1 + 1e-7) * m.z[i]
        )
        m.lower_load = pyo.Constraint(
            list(least), self.nodes, rule=lambda m, t, i: load(least[t], i) >= (1 - 1e-7) * m.z[i]
        )

    def node_count(self) -> None:
        """(3) As many nodes as wanted are in use."""
        self.model.count = pyo.Constraint(expr=sum(self.model.z.values()) == self.problem.nodes_after)

    def only_in_use(self) -> None:
        """(4) A node that is not in use runs nothing; (6) where v is above 0, one that is runs something."""
        m, x, z = self.model, self.model.x, self.model.z
        m.in_use = pyo.Constraint(self.key_groups, self.nodes, rule=lambda m, k, i: x[k, i] <= z[i])
        if self.problem.lower > 0:
            m.not_empty = pyo.Constraint(
                self.nodes, rule=lambda m, i: pyo.quicksum(x[k, i] for k in self.key_groups) >= z[i]
            )

    def least_movement(self) -> None:
        """Take the state that leaves its node as the objective."""
        m, current = self.model, self.problem.workload.current.tolist()
        stay = {k: m.x[k, i] for k, i in enumerate(current) if i in self.nodes}
        moved = (s * (1 - stay.get(k, 0)) for k, s in enumerate(self.limits.state.tolist()))
        m.moved = pyo.Objective(expr=pyo.quicksum(moved))

    def forbid(self, assignment: IntArray) -> bool:
        """Cut off an assignment that tolerances let into the model and the check refused, and others by the same cause."""
        m, before = self.model, len(self.model.cuts)
        for items in self.limits.too_much(assignment):
            for i in self.nodes:
                m.cuts.add(pyo.quicksum(m.x[int(k), i] for k in items) <= items.size - 1)
        for items in self.limits.too_little(assignment):
            rest = np.setdiff1d(np.arange(len(self.key_groups)), items).tolist()
            for i in self.nodes:
                m.cuts.add(pyo.quicksum(m.x[k, i] for k in rest) - m.z[i] >= 0)
        if len(m.cuts) == before:
            m.cuts.add(pyo.quicksum(m.x[k, int(i)] for k, i in enumerate(assignment)) <= assignment.size - 1)
        return True

    def set_start(self, assignment: IntArray) -> None:
        """Give every variable its value in a known assignment."""
        used = sorted(set(assignment.tolist()))
        spare = [i for i in self.nodes if i not in used][: self.problem.nodes_after - len(used)]
        super().set_start(assignment)
        for i, z in self.model.z.items():
            z.value = int(i in used or i in spare)

    def bound(self, proven: float) -> float:
        """Turn a bound that HiGHS proves into one on the state moved: the model's objective is the problem's own."""
        return max(0.0, proven)
