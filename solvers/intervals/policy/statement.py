"""The linear program of a small migration policy, run by HiGHS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from keyshift.models import Answer, Budget
from keyshift.models.answer import LimitReached
from keyshift.models.intervals import MigrationPolicy
from keyshift.models.intervals.policy.dense import DensePolicyModel, evaluated
from keyshift.solvers import highs
from keyshift.solvers.intervals.metric_bounds import policy_bound
from keyshift.solvers.intervals.policy.policy_iteration import proven
from keyshift.solvers.intervals.policy.written_out import answer_from_values, too_large

if TYPE_CHECKING:
    from keyshift.models.intervals.policy.mathopt_model import PolicyMathOpt
    from keyshift.models.intervals.policy.pyomo_model import PolicyPyomo


def solve_lp(problem: MigrationPolicy, *, budget: Budget, seed: int = 0) -> Answer:
    """The linear program (2), (3) by HiGHS: an oracle for small instances.

    Notes
    -----
    Source: Puterman, *Markov Decision Processes*, section 6.9. Neither values nor bound trust HiGHS: of its values only
    the greedy policy is taken, whose own values come from a linear system; one more application of the Bellman
    operator gives an interval that holds for any values.
    """
    from keyshift.models.intervals.policy.pyomo_model import PolicyPyomo

    if refused := too_large(problem):
        return refused
    try:
        with highs.written_in_time():
            data = DensePolicyModel(problem, budget.tick)
            statement = PolicyPyomo(data, budget.tick)
    except LimitReached:
        return Answer(
            None, policy_bound(problem), budget.why, "the time limit was reached while the model was written down"
        )
    result = highs.minimise_model(statement.model, budget, seed=seed, relax=True)
    if result.values is None:
        return Answer(None, None, budget.why)
    return read_values(statement, budget, result.termination == "optimal")


def read_values(statement: PolicyPyomo | PolicyMathOpt, budget: Budget, solved: bool = True) -> Answer:
    """The policy that is greedy for a statement's values, made its own, with a bound that trusts no solver."""
    data = statement.data
    answer = answer_from_values(data, evaluated(data, statement.values()), budget)
    answer.termination = proven(data.problem, answer) if solved else budget.why
    return answer
