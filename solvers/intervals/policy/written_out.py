"""Small migration policies, all costs written out: the linear program, run by HiGHS, and value iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.base.compiling import off_clock
from keyshift.models.base.guards import Positive, Whole
from keyshift.models.intervals import MigrationPolicy
from keyshift.models.intervals.policy.dense import DensePolicyModel, evaluated, greedy
from keyshift.models.intervals.policy.transitions import macqueen_interval
from keyshift.models.workload import FloatArray
from keyshift.solvers import highs
from keyshift.solvers.checked import within
from keyshift.solvers.intervals.policy.policy_iteration import census, proven
from keyshift.solvers.intervals.ssm import policy_bound

if TYPE_CHECKING:
    from keyshift.models.intervals.policy.pyomo_model import PolicyPyomo


def too_large(problem: MigrationPolicy) -> Answer | None:
    """Say so when there are too many pairs of partitions to write out."""
    most = 60_000  # pairs, each with its cost
    sizes = census(problem, most)
    if sum(sizes[n] * sizes[after] for n, row in problem.reachable.items() for after in row) <= most:
        return None
    return Answer(None, message=f"there are more than the {most} pairs of partitions that it writes out; use 'mtm'")


def answer_from_values(data: DensePolicyModel, value: dict[int, FloatArray]) -> Answer:
    """The policy that is greedy for any values, and a bound that holds however poor the values are (MacQueen)."""
    problem, gamma = data.problem, data.problem.discount
    better = data.bellman(value)
    lift, _ = macqueen_interval((better[n] - value[n] for n in value), gamma)
    rounding = 1e-12 * problem.scale / (1 - gamma)
    bound = sum(
        chance * float((cost + gamma * (better[after] + lift)).min())
        for (after, cost), chance in zip(data.first.items(), problem.first_row.values(), strict=True)
    )
    assignment = greedy(data, better)
    return Answer(assignment, max(0.0, bound - rounding), "completed", details={"partitions": data.states})


def solve_lp(problem: MigrationPolicy, *, budget: Budget, seed: int = 0) -> Answer:
    """The linear program (2), (3) by HiGHS: an oracle for small instances.

    Notes
    -----
    Source: Puterman, *Markov Decision Processes*, section 6.9. Neither values nor bound trust HiGHS: of its values only
    the greedy policy is taken, whose own values come from a linear system; one more application of the Bellman
    operator gives an interval that holds for any values.
    """
    with off_clock():
        from keyshift.models.intervals.policy.pyomo_model import PolicyPyomo

    if refused := too_large(problem):
        return refused
    statement = within(budget, lambda: PolicyPyomo(DensePolicyModel(problem)))
    if statement is None:
        said = "the time limit was reached while the model was written down"
        return Answer(None, policy_bound(problem, budget), budget.why, said)
    program, columns = highs.compile_model(statement.model)
    result = highs.minimise(program, budget, seed=seed, relax=True)
    if result.values is None:
        return Answer(None, None, budget.why)
    highs.write_back(columns, result.values)
    return read_values(statement, budget, result.termination == "optimal")


def read_values(statement: PolicyPyomo, budget: Budget, solved: bool = True) -> Answer:
    """The policy that is greedy for a statement's values, made its own, with a bound that trusts no solver."""
    data = statement.data
    answer = answer_from_values(data, evaluated(data, statement.values()))
    answer.termination = proven(data.problem, answer) if solved else budget.why
    return answer


def value_iteration(
    problem: MigrationPolicy, *, budget: Budget, seed: int = 0, tolerance: Positive = 1e-9, rounds: Whole = 100_000
) -> Answer:
    """Apply (1) to all pairs of partitions until the values are certain within `tolerance` of all the state.

    Notes
    -----
    Source: [Ding2015], Figure 9 (PMC), with its line 7 corrected from a sum over P' to the least.
    """
    if refused := too_large(problem):
        return refused
    data = within(budget, lambda: DensePolicyModel(problem))
    if data is None:
        said = "the time limit was reached while costs were written out"
        return Answer(None, policy_bound(problem, budget), budget.why, said)
    value = {n: np.zeros(len(p)) for n, p in data.partitions.items()}
    done = 0
    while done < rounds:
        done += 1
        better = data.bellman(value)
        low, high = macqueen_interval((better[n] - value[n] for n in value), problem.discount)
        value = better
        if high - low <= tolerance * problem.scale:
            break
        if budget.expired:
            break
    answer = answer_from_values(data, value)
    answer.termination = budget.why if budget.expired else proven(problem, answer)
    answer.details["rounds"] = done
    return answer
