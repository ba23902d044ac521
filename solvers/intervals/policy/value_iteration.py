"""Value iteration over all pairs of partitions, as the paper means it: small policies only."""

from __future__ import annotations

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.answer import LimitReached
from keyshift.models.intervals import MigrationPolicy
from keyshift.models.intervals.policy import macqueen
from keyshift.models.intervals.policy.dense import DensePolicyModel
from keyshift.models.ranges import Positive, Whole
from keyshift.solvers.intervals.metric_bounds import policy_bound
from keyshift.solvers.intervals.policy.policy_iteration import proven
from keyshift.solvers.intervals.policy.written_out import answer_from_values, too_large


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
    try:
        data = DensePolicyModel(problem, budget.tick)
    except LimitReached:
        return Answer(
            None, policy_bound(problem), budget.why, "the time limit was reached while costs were written out"
        )
    value = {n: np.zeros(len(p)) for n, p in data.partitions.items()}
    done = 0
    while done < rounds:
        done += 1
        better = data.bellman(value)
        low, high = macqueen.interval((better[n] - value[n] for n in value), problem.discount)
        value = better
        if high - low <= tolerance * problem.scale:
            break
        if budget.expired:
            answer = answer_from_values(data, value, budget)
            answer.termination = budget.why
            return answer
    answer = answer_from_values(data, value, budget)
    answer.termination = proven(problem, answer)
    answer.details["rounds"] = done
    return answer
