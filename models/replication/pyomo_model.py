"""Replicas of key groups as a Pyomo model. The numbers are those of `ReplicatedAllocation`'s docstring."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from keyshift.models.base.pyomo import LinearExpression, pyo
from keyshift.models.replication.problem import ReplicatedAllocation
from keyshift.models.workload import IntArray


class ReplicationPyomo:
    """One method for each family of constraints.

    Parameters
    ----------
    problem : ReplicatedAllocation
    most : float, optional
        A largest load that is known: a copy that alone has more on a node is not placed there. Loads are in units of it; by
        default of the mean.

    Attributes
    ----------
    model : pyomo.environ.ConcreteModel
        Variables ``z[k, c]``, ``x[k, c, i]`` for nodes with room, and ``largest``.
    """

    letters: ClassVar[dict[str, str]] = {
        "z": "kc", "x": "kcn", "one_number": "k", "as_many": "kc", "only_then": "kcn", "node_load": "n", "at_most": "n",
    }  # fmt: skip

    def __init__(self, problem: ReplicatedAllocation, most: float = math.inf) -> None:
        self.problem, self.unit = problem, most if 0 < most < math.inf else problem.scale
        self.numbers = range(1, problem.most_copies + 1)
        self.nodes, self.key_groups = np.flatnonzero(problem.slots).tolist(), range(problem.workload.key_groups)
        self.model = m = pyo.ConcreteModel(name=problem.name)
        m.z = pyo.Var(self.key_groups, self.numbers, domain=pyo.Binary)
        self.share = problem.shares_of(problem.most_copies)
        cells = np.argwhere(self.share[..., self.nodes] <= most * (1 + 1e-12))
        self.cells = [(k, c + 1, self.nodes[at]) for k, c, at in cells.tolist()]
        m.x = pyo.Var(self.cells, domain=pyo.Binary)  # (8): only nodes with room
        m.largest = pyo.Var(domain=pyo.NonNegativeReals)
        self.copies_of_each()
        self.node_loads()
        self.copies_in_all()
        self.copies_of_a_node()
        self.migrations()
        m.objective = pyo.Objective(expr=m.largest)

    def copies_of_each(self) -> None:
        """(1) to (3) A key group has one number of copies, and as many copies on different nodes."""
        m = self.model
        places: dict[tuple[int, int], list[Any]] = {pair: [] for pair in m.z}
        for k, c, i in self.cells:
            places[k, c].append(m.x[k, c, i])
        m.one_number = pyo.Constraint(self.key_groups, rule=lambda m, k: sum(m.z[k, c] for c in self.numbers) == 1)
        m.as_many = pyo.Constraint(
            self.key_groups, self.numbers, rule=lambda m, k, c: sum(places[k, c]) - c * m.z[k, c] == 0
        )
        m.only_then = pyo.Constraint(self.cells, rule=lambda m, k, c, i: m.x[k, c, i] <= m.z[k, c])

    def node_loads(self) -> None:
        """(4) No node's load per unit of capacity exceeds the largest."""
        m, here = self.model, self._by_node()

        def row(m: pyo.ConcreteModel, i: int) -> object:
            shares = [float(self.share[k, c - 1, i]) / self.unit for k, c, _ in here[i]]
            return LinearExpression(linear_coefs=shares, linear_vars=[m.x[cell] for cell in here[i]]) - m.largest <= 0

        m.node_load = pyo.Constraint(self.nodes, rule=row)

    def _by_node(self) -> dict[int, list[tuple[int, int, int]]]:
        here: dict[int, list[tuple[int, int, int]]] = {i: [] for i in self.nodes}
        for cell in self.cells:
            here[cell[2]].append(cell)
        return here

    def copies_in_all(self) -> None:
        """(5) There are at most so many copies."""
        self.model.copies = pyo.Constraint(expr=sum(c * z for (_, c), z in self.model.z.items()) <= self.problem.copies)

    def copies_of_a_node(self) -> None:
        """(6) A node holds at most so many copies."""
        here, slots = self._by_node(), self.problem.slots

        def row(m: pyo.ConcreteModel, i: int) -> object:
            return sum(m.x[cell] for cell in here[i]) <= int(slots[i]) if here[i] else pyo.Constraint.Skip

        self.model.at_most = pyo.Constraint(self.nodes, rule=row)

    def migrations(self) -> None:
        """(7) At most so many copies are where none is now."""
        most, held = self.problem.max_migrations, self.problem.held
        new = [x for (k, _, i), x in self.model.x.items() if not held[k, i]]
        if most is not None and new:
            self.model.max_migrations = pyo.Constraint(expr=sum(new) <= most)

    def set_start(self, assignment: IntArray) -> None:
        """Give every variable the value it has in a known assignment."""
        m, count = self.model, assignment.sum(axis=1)
        for (k, c), z in m.z.items():
            z.set_value(int(count[k] == c), skip_validation=True)
        for (k, c, i), x in m.x.items():
            x.set_value(int(count[k] == c and assignment[k, i]), skip_validation=True)
        m.largest.set_value(self.problem.objective(assignment) / self.unit, skip_validation=True)

    def assignment(self) -> IntArray:
        """Read the nodes of each key group's copies from the variables' values."""
        made = np.zeros(self.problem.held.shape, dtype=np.int64)
        for (k, _, i), x in self.model.x.items():
            made[k, i] |= round(x.value)
        return made

    def bound(self, proven: float) -> float:
        """A proven bound on the model's objective as one on the largest load."""
        return max(0.0, proven * self.unit) if math.isfinite(proven) else 0.0
