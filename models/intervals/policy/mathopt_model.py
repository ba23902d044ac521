"""The occupation measures of `MigrationPolicy` in OR-Tools MathOpt, for GLOP and PDLP; numbers as in `OccupationPyomo`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from ortools.math_opt.python import mathopt

from keyshift.models.intervals.policy.dense import NOW, PolicyChain, State, name_of
from keyshift.models.intervals.policy.problem import MigrationPolicy


class OccupationMathOpt:
    """How often each partition is chosen where a node count is revealed, and each state visited.

    GLOP ends in a corner, where one partition of each branch has all of it; PDLP ends near an optimum, inside the
    polytope where several policies are optimal, and `assignment` takes the largest share.

    Parameters
    ----------
    problem : MigrationPolicy
        Small: its partitions and their distances are written out.

    Attributes
    ----------
    model : ortools.math_opt.python.mathopt.Model
        Variables ``u[state, n', P']`` and ``y[state]``; costs in units of all the state.
    """

    def __init__(self, problem: MigrationPolicy) -> None:
        self.problem, self.chain = problem, PolicyChain(problem)
        self.model = mathopt.Model(name=problem.name)
        self.variables()
        self.visits()
        self.every_branch_is_decided()

    def variables(self) -> None:
        """The measures, none above the discounted number of all steps, and the objective, the sum of their costs."""
        m, most, cost = self.model, self.chain.most, dict(self.chain.decisions())
        self.y = {r: m.add_variable(lb=0.0, ub=most, name=f"y[{name_of(r)}]") for r in self.chain.states}
        self.u = {(r, n, j): m.add_variable(lb=0.0, ub=most, name=f"u[{name_of(r)},n{n},p{j}]") for r, n, j in cost}
        m.minimize(mathopt.fast_sum(c * self.u[at] for at, c in cost.items()))

    def visits(self) -> None:
        """(5) A state is visited at the beginning, or by a decision for it one step before."""
        into: dict[State, list[mathopt.Variable]] = {r: [] for r in self.y}
        for (_, *chosen), u in self.u.items():
            into[*chosen].append(u)
        for r, y in self.y.items():
            came = self.problem.discount * mathopt.fast_sum(into[r])
            self.model.add_linear_constraint(y - came == float(r == NOW), name=f"visited[{name_of(r)}]")

    def every_branch_is_decided(self) -> None:
        """(6) Each node count that is revealed is answered, as often as it is."""
        for (r, n), chance, cost in self.chain.branches():
            decided = mathopt.fast_sum(self.u[r, n, j] for j in range(len(cost)))
            self.model.add_linear_constraint(decided == chance * self.y[r], name=f"decided[{name_of(r)},n{n}]")

    def hint(self, assignment: np.ndarray) -> mathopt.SolutionHint:
        """The measures of a known policy as a warm start."""
        visits, taken = self.chain.measures(assignment)
        values = {y: visits.get(name_of(r), 0.0) for r, y in self.y.items()}
        values |= {u: taken.get((name_of(r), n, j), 0.0) for (r, n, j), u in self.u.items()}
        return mathopt.SolutionHint(variable_values=values)

    def assignment(self, values: Mapping[mathopt.Variable, float]) -> np.ndarray:
        """Read the policy from a solution's values."""
        return self.chain.assignment({
            (r, n): np.array([values[self.u[r, n, j]] for j in range(len(cost))]) for (r, n), _, cost in self.chain.branches()
        })  # fmt: skip

    def bound(self, proven: float) -> float:
        """Turn a lower bound on the model's objective into one on the expected discounted state moved."""
        return max(0.0, proven * self.problem.scale)
