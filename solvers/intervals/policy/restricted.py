"""Policies beyond enumeration: step by step, or looking ahead over some partitions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.guards import Count, Share, Whole
from keyshift.models.intervals import MigrationPolicy
from keyshift.models.intervals.partition import cuts_of
from keyshift.models.intervals.policy import macqueen
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.intervals.metric_bounds import policy_bound
from keyshift.solvers.intervals.owners import close
from keyshift.solvers.intervals.partitions.best_partners import matches
from keyshift.solvers.intervals.partitions.enumeration import table_of
from keyshift.solvers.intervals.step.band_kernels import band_cuts
from keyshift.solvers.intervals.step.ssm import keepable
from keyshift.solvers.intervals.units import weights


class _SingleStep:
    """Optimal single steps from any cuts to any count: what a count allows is found once."""

    def __init__(self, problem: MigrationPolicy) -> None:
        self.tasks = problem.workload.key_groups
        self.starts = cache(problem.starts)

    def __call__(self, prefix: IntArray, cuts: IntArray, after: int) -> IntArray:
        """The cuts after the step, for states with these prefix sums."""
        _, chosen = band_cuts(self.starts(after), cuts, prefix, min(after, self.tasks), True)
        return chosen


def myopic_policy(problem: MigrationPolicy, *, budget: Budget, seed: int = 0, most_states: Whole = 100_000) -> Answer:
    """Optimal single-step migration whatever the matrix says. No guarantee; the bound is `policy_bound`.

    Parameters
    ----------
    most_states : int
        Give up when more partitions than these can be met.
    """
    prefix, single_step = weights(problem.workload.state).prefix, _SingleStep(problem)
    firsts = {n: _first(problem, single_step, n) for n in problem.first_row}

    def decide(nodes: int, cuts: IntArray, after: int) -> IntArray:
        return cuts if nodes == after else single_step(prefix, cuts, after)

    bound = policy_bound(problem)
    assignment = close(problem, firsts.__getitem__, decide, budget, most_states)
    if assignment is None and budget.expired:
        return Answer(None, bound, budget.why, "the time limit was reached before the policy was closed")
    message = "" if assignment is not None else f"step by step more than {most_states} partitions are met"
    return Answer(assignment, bound, "completed", message)


def _first(problem: MigrationPolicy, single_step: _SingleStep, nodes_after: int) -> IntArray:
    step = problem.first_step(nodes_after)
    return single_step(keepable(step).prefix, step.old_cuts, nodes_after)


def restricted_policy(
    problem: MigrationPolicy, *, budget: Budget, seed: int = 0, partitions: Count = 300, noise: Share = 0.3
) -> Answer:
    """Look ahead, but only over some partitions of each class: those that single steps lead to, exact or jittered.

    The best policy that stays within these partitions is computed exactly; its value is an upper bound on the optimum.
    No guarantee on its distance; the lower bound is `policy_bound`, which is weak but holds at any size.

    Parameters
    ----------
    partitions : int
        At most this many partitions for each class.
    noise : float
        Every state is multiplied by up to 1 +- noise before a jittered single step.
    """
    rng = np.random.default_rng(seed)
    chosen = candidates(problem, rng, partitions, noise, budget)
    tables = {n: table_of(list(c.values())) for n, c in chosen.items()}
    cuts = {n: [_cuts_of_row(row, problem.workload.key_groups) for row in table] for n, table in tables.items()}
    exact = weights(problem.workload.state)
    cost = {
        (n, after): np.array([exact.total - _matches(c, tables[after], exact.prefix) for c in cuts[n]]) * exact.unit
        for n, row in problem.reachable.items()
        for after in row
    }
    value = _evaluate(problem, cost, {n: len(c) for n, c in cuts.items()})
    number = {n: {c.tobytes(): i for i, c in enumerate(cs)} for n, cs in cuts.items()}
    gamma = problem.discount

    def first(after: int) -> IntArray:
        kept = keepable(problem.first_step(after)).prefix
        moved = -_matches(cuts_of(problem.workload.current), tables[after], kept) * exact.unit
        return cuts[after][int(np.argmin(moved + gamma * value[after]))]

    def decide(nodes: int, now: IntArray, after: int) -> IntArray:
        ahead = cost[nodes, after][number[nodes][now.tobytes()]] + gamma * value[after]
        return cuts[after][int(np.argmin(ahead))]

    assignment = close(problem, first, decide, Budget(None), sum(map(len, cuts.values())) + 1)
    details = {"partitions": {n: len(c) for n, c in cuts.items()}}
    return Answer(assignment, policy_bound(problem), budget.why if budget.expired else "completed", details=details)


def candidates(
    problem: MigrationPolicy, rng: np.random.Generator, most: int, noise: float, budget: Budget
) -> dict[int, dict[bytes, IntArray]]:
    """Partitions met by single steps: breadth first from now, then with jittered states from random members."""
    state = problem.workload.state
    prefix, single_step = weights(state).prefix, _SingleStep(problem)
    chosen: dict[int, dict[bytes, IntArray]] = {n: {} for n in problem.reachable}

    def meet(n: int, cuts: IntArray) -> bool:
        new = len(chosen[n]) < most and cuts.tobytes() not in chosen[n]
        if new:
            chosen[n][cuts.tobytes()] = cuts
        return new

    queue = [(n, _first(problem, single_step, n)) for n in problem.reachable]
    for n, cuts in queue:
        meet(n, cuts)
    for n, cuts in queue:  # grows while it is read
        for after in (a for a in problem.transitions[n] if a != n and len(chosen[a]) < most // 2):
            new = single_step(prefix, cuts, after)
            if meet(after, new):
                queue.append((after, new))
        if budget.expired:
            return chosen
    for _ in range(4 * most):
        if budget.expired:
            break
        jittered = weights(state * (1 + noise * rng.uniform(-1, 1, state.size))).prefix
        for n in problem.reachable:
            after = int(rng.choice(list(problem.transitions[n])))
            pool: list[IntArray] = list(chosen[n].values())
            if len(chosen[after]) < most and not budget.expired:
                meet(after, single_step(jittered, pool[int(rng.integers(len(pool)))], after))
    return chosen


def _evaluate(
    problem: MigrationPolicy, cost: dict[tuple[int, int], FloatArray], sizes: dict[int, int]
) -> dict[int, FloatArray]:
    """Optimal values of the problem restricted to the chosen partitions, by value iteration with MacQueen's shift."""
    value = {n: np.zeros(size) for n, size in sizes.items()}
    for _ in range(10_000):
        better = {n: _ahead(problem, cost, value, n) for n in value}
        low, high = macqueen.interval((better[n] - value[n] for n in value), problem.discount)
        value = {n: v + (low + high) / 2 for n, v in better.items()}
        if high - low <= 1e-12 * problem.scale:
            break
    return value


def _ahead(
    problem: MigrationPolicy, cost: dict[tuple[int, int], FloatArray], value: dict[int, FloatArray], n: int
) -> FloatArray:
    gamma = problem.discount
    made: Iterable[FloatArray] = (
        chance * (cost[n, after] + gamma * value[after]).min(axis=1) for after, chance in problem.transitions[n].items()
    )
    return np.asarray(sum(made))


def _cuts_of_row(row: np.ndarray, tasks: int) -> IntArray:
    return np.concatenate(([0], row[row > 0][::-1], [tasks])).astype(np.int64)


def _matches(cuts: IntArray, table: np.ndarray, prefix: IntArray) -> IntArray:
    return np.asarray(matches(cuts, table, prefix.size - 1, prefix))
