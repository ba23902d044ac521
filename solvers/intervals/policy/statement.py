"""The linear program of a small migration policy, run by HiGHS."""

from __future__ import annotations

from keyshift.models import Answer, Budget
from keyshift.models.intervals import MigrationPolicy
from keyshift.models.intervals.policy.dense import DensePolicyModel
from keyshift.solvers import highs
from keyshift.solvers.intervals.policy.written_out import answer_from_values, too_large


def solve_lp(problem: MigrationPolicy, *, budget: Budget, seed: int = 0) -> Answer:
    """The linear program (2), (3) by HiGHS: an oracle for small instances.

    Notes
    -----
    Source: Puterman, *Markov Decision Processes*, section 6.9. The bound does not trust HiGHS: one more application of
    the Bellman operator to its values gives an interval that holds for any values.
    """
    from keyshift.models.intervals.policy.pyomo_model import PolicyPyomo

    if refused := too_large(problem):
        return refused
    data = DensePolicyModel(problem)
    statement = PolicyPyomo(data)
    result = highs.minimise_model(statement.model, budget, seed=seed, relax=True)
    if result.values is None:
        return Answer(None, None, budget.why)
    answer = answer_from_values(data, statement.values(), budget)
    answer.termination = "optimal" if result.termination == "optimal" else budget.why
    return answer
