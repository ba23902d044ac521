"""The dual of `MigrationPolicy`'s linear program in Pyomo: how often each decision is taken."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyomo.environ as pyo

from keyshift.models.intervals.policy.chain import NOW, PolicyChain, Shares, name_of, one_decision_each
from keyshift.models.intervals.policy.problem import MigrationPolicy


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
        branches = list(self.chain.branches())
        m.decisions = pyo.Set(
            initialize=[(name_of(r), after, j) for (r, after), _, cost in branches for j in range(len(cost))], dimen=3
        )
        m.y = pyo.Var(m.states, bounds=(0, most))
        m.u = pyo.Var(m.decisions, bounds=(0, most))
        m.moved = pyo.Objective(
            expr=pyo.quicksum(
                c * m.u[name_of(r), after, j] for (r, after), _, cost in branches for j, c in enumerate(cost)
            )
        )

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
