"""Small migration policies, all costs written out: what the linear program and value iteration share."""

from __future__ import annotations

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.intervals import MigrationPolicy
from keyshift.models.intervals.policy import macqueen
from keyshift.models.intervals.policy.dense import DensePolicyModel
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.intervals.policy.closed_table import close
from keyshift.solvers.intervals.policy.policy_iteration import census

MOST_PAIRS = 60_000
"""Pairs of partitions whose costs are written out."""


def too_large(problem: MigrationPolicy) -> Answer | None:
    """Say so when there are too many pairs of partitions to write out."""
    sizes = census(problem)
    pairs = sum(sizes[n] * sizes[after] for n, row in problem.reachable.items() for after in row)
    if pairs <= MOST_PAIRS:
        return None
    return Answer(None, message=f"{pairs} pairs of partitions are more than the {MOST_PAIRS} it writes out; use 'mtm'")


def answer_from_values(data: DensePolicyModel, value: dict[int, FloatArray], budget: Budget) -> Answer:
    """The policy that is greedy for any values, and a bound that holds however poor the values are (MacQueen)."""
    problem, gamma = data.problem, data.problem.discount
    better = data.bellman(value)
    lift, _ = macqueen.interval((better[n] - value[n] for n in value), gamma)
    rounding = 1e-12 * problem.scale / (1 - gamma)
    bound = sum(
        chance * float((cost + gamma * (better[after] + lift)).min())
        for (after, cost), chance in zip(data.first.items(), problem.first_row.values(), strict=True)
    )

    def cuts(after: int, cost: FloatArray) -> IntArray:
        return np.array(data.partitions[after][int(np.argmin(cost + gamma * better[after]))], dtype=np.int64)

    def decide(nodes: int, now: IntArray, after: int) -> IntArray:
        return cuts(after, data.cost[nodes, after][data.number[nodes][tuple(now.tolist())]])

    assignment = close(problem, lambda after: cuts(after, data.first[after]), decide, Budget(None), data.states + 1)
    return Answer(assignment, max(0.0, bound - rounding), "completed", details={"partitions": data.states})
