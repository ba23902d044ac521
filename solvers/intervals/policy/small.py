"""Small migration policies, all costs written out: the linear program, and value iteration as the paper means it."""

from __future__ import annotations

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.intervals import MigrationPolicy
from keyshift.models.intervals.policy.dense import DensePolicyModel
from keyshift.models.ranges import Positive, Whole
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers import highs
from keyshift.solvers.intervals.policy.closed_table import close
from keyshift.solvers.intervals.policy.mtm import census

MOST_PAIRS = 60_000
"""Pairs of partitions whose costs are written out."""


def _too_large(problem: MigrationPolicy) -> Answer | None:
    sizes = census(problem)
    pairs = sum(sizes[n] * sizes[after] for n, row in problem.transitions.items() for after in row)
    if pairs <= MOST_PAIRS:
        return None
    return Answer(None, message=f"{pairs} pairs of partitions are more than the {MOST_PAIRS} it writes out; use 'mtm'")


def answer_from_values(data: DensePolicyModel, value: dict[int, FloatArray], budget: Budget) -> Answer:
    """The policy that is greedy for any values, and a bound that holds whatever they are worth (MacQueen)."""
    problem, gamma = data.problem, data.problem.discount
    better = data.bellman(value)
    lift = gamma / (1 - gamma) * min(float((better[n] - value[n]).min()) for n in value)
    rounding = 1e-12 * problem.scale / (1 - gamma)
    bound = sum(
        chance * float((cost + gamma * (better[after] + lift)).min())
        for (after, cost), chance in zip(data.first.items(), problem.first_row.values(), strict=True)
    )
    number = {n: {cuts: i for i, cuts in enumerate(p)} for n, p in data.partitions.items()}

    def cuts(after: int, cost: FloatArray) -> IntArray:
        return np.array(data.partitions[after][int(np.argmin(cost + gamma * better[after]))], dtype=np.int64)

    def decide(nodes: int, now: IntArray, after: int) -> IntArray:
        return cuts(after, data.cost[nodes, after][number[nodes][tuple(now.tolist())]])

    assignment = close(problem, lambda after: cuts(after, data.first[after]), decide, Budget(None), data.states + 1)
    return Answer(assignment, max(0.0, bound - rounding), "completed", details={"partitions": data.states})


def solve_lp(problem: MigrationPolicy, *, budget: Budget, seed: int = 0) -> Answer:
    """The linear program (2), (3) by HiGHS: an oracle for small instances.

    Notes
    -----
    Source: Puterman, *Markov Decision Processes*, section 6.9. The bound does not trust HiGHS: one more application of
    the Bellman operator to its values gives an interval that holds for any values.
    """
    from keyshift.models.intervals.policy.pyomo_model import PolicyPyomo

    if refused := _too_large(problem):
        return refused
    data = DensePolicyModel(problem)
    statement = PolicyPyomo(data)
    result = highs.minimise_model(statement.model, budget, seed=seed, relax=True)
    if result.values is None:
        return Answer(None, None, budget.why)
    answer = answer_from_values(data, statement.values(), budget)
    answer.termination = "optimal" if result.termination == "optimal" else budget.why
    return answer


def value_iteration(
    problem: MigrationPolicy, *, budget: Budget, seed: int = 0, tolerance: Positive = 1e-9, rounds: Whole = 100_000
) -> Answer:
    """Apply (1) to all pairs of partitions until the values are certain within `tolerance` of all the state.

    Notes
    -----
    Source: Ding et al. 2015, Figure 9 (PMC), with its line 7 corrected from a sum over P' to the least.
    """
    if refused := _too_large(problem):
        return refused
    data = DensePolicyModel(problem)
    value = {n: np.zeros(len(p)) for n, p in data.partitions.items()}
    lever = problem.discount / (1 - problem.discount)
    done = 0
    while done < rounds:
        done += 1
        better = data.bellman(value)
        changes = [better[n] - value[n] for n in value]
        value = better
        if lever * (max(c.max() for c in changes) - min(c.min() for c in changes)) <= tolerance * problem.scale:
            break
        if budget.expired:
            answer = answer_from_values(data, value, budget)
            answer.termination = budget.why
            return answer
    answer = answer_from_values(data, value, budget)
    answer.termination = "optimal"
    answer.details["rounds"] = done
    return answer
