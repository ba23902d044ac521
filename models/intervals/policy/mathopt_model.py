"""The linear programs of `MigrationPolicy` in OR-Tools MathOpt, primal and dual, for GLOP and PDLP."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from ortools.math_opt.python import mathopt

from keyshift.models.intervals.policy.chain import NOW, PolicyChain, Shares, name_of, one_decision_each
from keyshift.models.intervals.policy.closing import greedy
from keyshift.models.intervals.policy.dense import DensePolicyModel, evaluated
from keyshift.models.intervals.policy.problem import MigrationPolicy
from keyshift.models.workload import FloatArray


class PolicyMathOpt:
    """The values: the largest ones that no decision undercuts, in units of all the state.

    The constraints are (2), (3) of `MigrationPolicy`, now being a state as well; the objective is that state's value
    alone, so that the optimum is the problem's own: (4) maximise V(now). Values elsewhere are the optimal ones as far
    as optimal decisions lead there, and no larger than these beyond. No policy is a start of this program: the values
    of one that is not optimal are undercut.

    Parameters
    ----------
    problem : MigrationPolicy
        Small: its partitions and their distances are written out.

    Attributes
    ----------
    model : ortools.math_opt.python.mathopt.Model
        Variables ``V[state]`` and ``Q[state,n']``; written as a minimum, of -V(now).
    found : mapping, optional
        Values that a solver left, for `values`.
    """

    def __init__(self, problem: MigrationPolicy) -> None:
        self.problem, self.chain = problem, PolicyChain(problem)
        self.found: Mapping[mathopt.Variable, float] | None = None
        self.model = mathopt.Model(name=problem.name)
        self.variables()
        self.expectations()
        self.decisions()
        self.model.minimize(-1.0 * self.V[NOW])

    def variables(self) -> None:
        """V and Q; no value exceeds what moving all the state at every step costs."""
        add, most = self.model.add_variable, self.chain.most
        self.V = {state: add(lb=0, ub=most, name=f"V[{name_of(state)}]") for state in self.chain.states}
        self.Q = {
            (state, after): add(lb=0, ub=most, name=f"Q[{name_of(state)},n{after}]")
            for state in self.chain.states
            for after in self.chain.chances(state)
        }

    def expectations(self) -> None:
        """(2) A state's value is the expectation over the next count."""
        for state in self.chain.states:
            expected = mathopt.fast_sum(p * self.Q[state, after] for after, p in self.chain.chances(state).items())
            self.model.add_linear_constraint(
                expr=self.V[state] - expected, lb=0, ub=0, name=f"expectation[{name_of(state)}]"
            )

    def decisions(self) -> None:
        """(3) No decision costs less than Q."""
        gamma = self.problem.discount
        for (state, after), _, costs in self.chain.branches():
            for j, cost in enumerate(costs):
                undercut = self.Q[state, after] - gamma * self.V[after, j]
                name = f"decision[{name_of(state)},{name_of((after, j))}]"
                self.model.add_linear_constraint(expr=undercut, lb=-np.inf, ub=cost, name=name)

    @property
    def data(self) -> DensePolicyModel:
        """The partitions and their costs."""
        return self.chain.data

    def values(self, found: Mapping[mathopt.Variable, float] | None = None) -> dict[int, FloatArray]:
        """Read V in units of state, one array for each class; of `found`, where nothing is given."""
        found, unit = self.found if found is None else found, self.problem.scale
        assert found is not None
        return {
            n: unit * np.array([found[self.V[n, i]] for i in range(len(p))])
            for n, p in self.chain.data.partitions.items()
        }

    def assignment(self, found: Mapping[mathopt.Variable, float]) -> np.ndarray:
        """The policy that is greedy for the values, once they have been made its own."""
        return greedy(self.chain.data, evaluated(self.chain.data, self.values(found)))

    def value(self, native: float) -> float:
        """Expected discounted state moved, from the model's objective."""
        return -native * self.problem.scale

    def bound(self, proven: float) -> None:
        """None: a lower bound on this program bounds the values from above. The occupation measures give the other side."""


class OccupationMathOpt:
    """The occupation measures of `OccupationPyomo`: the same numbers, one method for each family of constraints.

    Parameters
    ----------
    problem : MigrationPolicy
        Small: its partitions and their distances are written out.

    Attributes
    ----------
    model : ortools.math_opt.python.mathopt.Model
        Variables ``u[state,n',P']`` and ``y[state]``; costs in units of all the state.
    """

    def __init__(self, problem: MigrationPolicy) -> None:
        self.problem, self.chain = problem, PolicyChain(problem)
        self.model = mathopt.Model(name=problem.name)
        self.variables()
        self.visits()
        self.every_branch_is_decided()

    def variables(self) -> None:
        """The measures, none above the discounted number of all steps, and the objective, the sum of their costs."""
        add, most = self.model.add_variable, self.chain.most
        self.y = {name_of(state): add(lb=0, ub=most, name=f"y[{name_of(state)}]") for state in self.chain.states}
        self.u, terms = {}, []
        for (state, after), _, costs in self.chain.branches():
            for j, cost in enumerate(costs):
                r = name_of(state)
                self.u[r, after, j] = add(lb=0, ub=most, name=f"u[{r},n{after},p{j}]")
                terms.append(cost * self.u[r, after, j])
        self.model.minimize(mathopt.fast_sum(terms))

    def visits(self) -> None:
        """(5) A state is visited at the beginning, or by a decision for it one step before."""
        into: dict[str, list[object]] = {r: [] for r in self.y}
        for (_, after, j), u in self.u.items():
            into[name_of((after, j))].append(u)
        for r, y in self.y.items():
            left = y - self.problem.discount * mathopt.fast_sum(into[r])
            self.model.add_linear_constraint(expr=left, lb=float(r == NOW), ub=float(r == NOW), name=f"visited[{r}]")

    def every_branch_is_decided(self) -> None:
        """(6) Each node count that is revealed is answered, as often as it is."""
        for (state, after), chance, costs in self.chain.branches():
            r = name_of(state)
            left = mathopt.fast_sum(self.u[r, after, j] for j in range(len(costs))) - chance * self.y[r]
            self.model.add_linear_constraint(expr=left, lb=0, ub=0, name=f"decided[{r},n{after}]")

    def hint(self, assignment: np.ndarray) -> mathopt.SolutionHint:
        """A known policy's measures as a warm start."""
        visits, taken = self.chain.measures(assignment)
        start = {y: visits.get(r, 0.0) for r, y in self.y.items()}
        start |= {u: taken.get(decision, 0.0) for decision, u in self.u.items()}
        return mathopt.SolutionHint(variable_values=start)

    def shares(self, found: Mapping[mathopt.Variable, float]) -> Shares:
        """How often each decision is taken, by branch."""
        return {
            (state, after): np.array([found[self.u[name_of(state), after, j]] for j in range(len(costs))])
            for (state, after), _, costs in self.chain.branches()
        }

    def settled(self, found: Mapping[mathopt.Variable, float]) -> bool:
        """Whether one decision has all of each branch, as in every corner until rows are added."""
        return one_decision_each(self.shares(found))

    def assignment(self, found: Mapping[mathopt.Variable, float]) -> np.ndarray:
        """Read the policy from a solution's values."""
        return self.chain.assignment(self.shares(found))

    def value(self, native: float) -> float:
        """Expected discounted state moved, from the model's objective."""
        return native * self.problem.scale

    def bound(self, proven: float) -> float:
        """Turn a lower bound on the model's objective into one on the expected discounted state moved."""
        return max(0.0, self.value(proven))
