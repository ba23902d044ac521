"""The linear program of `MigrationPolicy` in Pyomo, for small instances. The numbers are those of its docstring."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Self

import numpy as np
import pyomo.environ as pyo

from keyshift.models.intervals.policy.dense import DensePolicyModel
from keyshift.models.intervals.policy.problem import MigrationPolicy
from keyshift.models.workload import FloatArray


class PolicyPyomo:
    """Values of all partitions as the largest ones that no decision undercuts, in units of all the state.

    Parameters
    ----------
    data : DensePolicyModel
    tick : callable, optional
        Called for every decision; what it raises leaves the model unfinished.

    Attributes
    ----------
    model : pyomo.environ.ConcreteModel
        Variables ``V[n, i]`` and ``Q[n, i, n']``, i numbering the partitions of class n.
    """

    letters: ClassVar[dict[str, str]] = {"V": "n-", "Q": "n-n", "expectation": "n-"}

    @classmethod
    def of(cls, problem: MigrationPolicy) -> Self:
        """The program of a small problem, all partitions and costs written out."""
        return cls(DensePolicyModel(problem))

    def __init__(self, data: DensePolicyModel, tick: Callable[[], None] = lambda: None) -> None:
        self.tick = tick
        self.data = data
        self.problem = data.problem
        self.model = pyo.ConcreteModel(name=self.problem.name)
        self.variables()
        self.set_objective()
        self.expectations()
        self.decisions()

    def variables(self) -> None:
        """V and Q; no value exceeds what moving all the state at every step costs."""
        m = self.model
        most = 1 / (1 - self.problem.discount)
        m.states = pyo.Set(initialize=[(n, i) for n, p in self.data.partitions.items() for i in range(len(p))], dimen=2)
        m.branches = pyo.Set(
            initialize=[(n, i, after) for n, i in m.states for after in self.problem.transitions[n]], dimen=3
        )
        m.V = pyo.Var(m.states, bounds=(0, most))
        m.Q = pyo.Var(m.branches, bounds=(0, most))

    def set_objective(self) -> None:
        """Maximise the sum of all values, written as a minimum."""
        self.model.objective = pyo.Objective(expr=-pyo.quicksum(self.model.V.values()))

    def expectations(self) -> None:
        """(2) A state's value is the expectation over the next count."""
        m = self.model
        m.expectation = pyo.Constraint(
            m.states,
            rule=lambda m, n, i: (
                m.V[n, i] == sum(chance * m.Q[n, i, after] for after, chance in self.problem.transitions[n].items())
            ),
        )

    def decisions(self) -> None:
        """(3) No decision costs less than Q."""
        m, gamma = self.model, self.problem.discount
        m.decision = pyo.ConstraintList()
        for n, i, after in m.branches:
            self.tick()
            for j, cost in enumerate((self.data.cost[n, after][i] / self.problem.scale).tolist()):
                m.decision.add(m.Q[n, i, after] - gamma * m.V[after, j] <= cost)

    def bound(self, proven: float) -> None:
        """None: a bound on the sum of all values says nothing about the value of the current state alone."""

    def values(self) -> dict[int, FloatArray]:
        """Read V, one array for each class."""
        unit = self.problem.scale
        return {
            n: unit * np.array([self.model.V[n, i].value for i in range(len(p))])
            for n, p in self.data.partitions.items()
        }
