"""The linear program of `MigrationPolicy` in Pyomo, for small instances. The numbers are those of its docstring."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np

from keyshift.models.base.pyomo import pyo
from keyshift.models.intervals.policy.dense import (
    NOW,
    DensePolicyModel,
    PolicyChain,
    Shares,
    name_of,
    one_decision_each,
)
from keyshift.models.intervals.policy.problem import MigrationPolicy
from keyshift.models.workload import FloatArray


class PolicyPyomo:
    """Values of all partitions as the largest ones that no decision undercuts, in units of all the state.

    Parameters
    ----------
    data : DensePolicyModel

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

    def __init__(self, data: DensePolicyModel) -> None:
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

        def expected(m: pyo.ConcreteModel, n: int, i: int) -> object:
            return m.V[n, i] == sum(chance * m.Q[n, i, after] for after, chance in self.problem.transitions[n].items())

        self.model.expectation = pyo.Constraint(self.model.states, rule=expected)

    def decisions(self) -> None:
        """(3) No decision costs less than Q."""
        m, gamma = self.model, self.problem.discount
        m.decision = pyo.ConstraintList()
        for n, i, after in m.branches:
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


# The dual: how often each pair of partitions is met ------------------------------------------------------------------


class OccupationPyomo:
    r"""Occupation measures: the policies as a polytope, its corners the deterministic ones.

    Sets and data as in `MigrationPolicy`; states r are now and all (n, P) that can come, n(r) their node counts.
    Variables: :math:`u(r, n', P') \ge 0`, how often in expectation, a step later weighing :math:`\gamma` as much, P'
    is chosen in state r when n' is revealed; :math:`y(r) \ge 0`, how often r is visited.

    .. math::

        \min \; \sum_{r, n', P'} c(r, P') \, u(r, n', P') \quad \text{subject to}

        (5) \quad & y(r) = [r = \text{now}] + \gamma \sum_{r'} u(r', n, P)          && \text{for every state } r = (n, P) \\
        (6) \quad & \sum_{P'} u(r, n', P') = M_{n(r) n'} \, y(r)                    && \text{for every } r \text{ and } n'

    It is the dual of (2), (3) under: maximise V(now). Every policy gives a u, and every u a policy, which takes P' with
    probability u(r, n', P') / (M y(r)). In a corner one P' of each branch visited has all of it; where two have some
    (an interior solution), both are optimal, and `assignment` takes the larger. A branch never visited decides nothing.

    Parameters
    ----------
    problem : MigrationPolicy
        Small: its partitions and their distances are written out.

    Attributes
    ----------
    model : pyomo.environ.ConcreteModel
        Variables ``u[state, n', P']`` and ``y[state]``; costs in units of all the state.

    Notes
    -----
    Source: Puterman, *Markov Decision Processes*, 1994, section 6.9, with a random input before each decision.
    """

    letters: ClassVar[dict[str, str]] = {"u": "-np", "decided": "-n"}

    def __init__(self, problem: MigrationPolicy) -> None:
        self.problem, self.chain = problem, PolicyChain(problem)
        self.model = pyo.ConcreteModel(name=problem.name)
        self.variables()
        self.visits()
        self.every_branch_is_decided()

    def variables(self) -> None:
        """The measures, none above the discounted number of all steps, and the objective, the sum of their costs."""
        m, most = self.model, self.chain.most
        m.states = pyo.Set(initialize=[name_of(state) for state in self.chain.states])
        cost = {(name_of(r), after, j): c for (r, after, j), c in self.chain.decisions()}
        m.decisions = pyo.Set(initialize=list(cost), dimen=3)
        m.y = pyo.Var(m.states, bounds=(0, most))
        m.u = pyo.Var(m.decisions, bounds=(0, most))
        m.moved = pyo.Objective(expr=pyo.quicksum(c * m.u[at] for at, c in cost.items()))

    def visits(self) -> None:
        """(5) A state is visited at the beginning, or by a decision for it one step before."""
        m, gamma = self.model, self.problem.discount
        into: dict[str, list[object]] = {name: [] for name in m.states}
        for r, after, j in m.decisions:
            into[name_of((after, j))].append(m.u[r, after, j])
        m.visited = pyo.Constraint(
            m.states, rule=lambda m, r: m.y[r] - gamma * pyo.quicksum(into[r]) == float(r == NOW)
        )

    def every_branch_is_decided(self) -> None:
        """(6) Each node count that is revealed is answered, as often as it is."""
        m = self.model
        branches = {(name_of(r), after): (chance, len(cost)) for (r, after), chance, cost in self.chain.branches()}

        def answered(m: pyo.ConcreteModel, r: str, after: int) -> object:
            chance, choices = branches[r, after]
            return pyo.quicksum(m.u[r, after, j] for j in range(choices)) == chance * m.y[r]

        m.decided = pyo.Constraint(pyo.Set(initialize=list(branches), dimen=2), rule=answered)

    def set_start(self, assignment: np.ndarray) -> None:
        """Give every variable the value it has under a known policy."""
        visits, taken = self.chain.measures(assignment)
        for r, y in self.model.y.items():
            y.value = visits.get(r, 0.0)
        for decision, u in self.model.u.items():
            u.value = taken.get(decision, 0.0)

    def shares(self) -> Shares:
        """How often each decision is taken, by branch."""
        u = self.model.u
        return {
            (state, after): np.array([u[name_of(state), after, j].value for j in range(len(cost))])
            for (state, after), _, cost in self.chain.branches()
        }

    def settled(self) -> bool:
        """Whether one decision has all of each branch, as in every corner until rows are added."""
        return one_decision_each(self.shares())

    def assignment(self) -> np.ndarray:
        """Read the policy from the variables' values."""
        return self.chain.assignment(self.shares())

    def value(self, native: float) -> float:
        """Expected discounted state moved, from the model's objective."""
        return native * self.problem.scale

    def bound(self, proven: float) -> float:
        """Turn a lower bound on the model's objective into one on the expected discounted state moved."""
        return max(0.0, self.value(proven))
