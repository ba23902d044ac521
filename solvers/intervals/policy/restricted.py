"""Policies beyond enumeration: step by step, or looking ahead over some partitions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.base.guards import Count, Share, Whole
from keyshift.models.intervals import MigrationPolicy
from keyshift.models.workload import IntArray
from keyshift.solvers.intervals.band_kernels import band_cuts
from keyshift.solvers.intervals.metric_bounds import policy_bound
from keyshift.solvers.intervals.owners import close
from keyshift.solvers.intervals.partitions import some_of_class
from keyshift.solvers.intervals.policy.policy_iteration import PolicyIteration, answer_of
from keyshift.solvers.intervals.ssm import keepable
from keyshift.solvers.intervals.units import weights

SingleStep = Callable[[IntArray, IntArray, int], IntArray]
"""The cuts after an optimal single step: for states with these prefix sums, from these cuts, to so many nodes."""


def _single_steps(problem: MigrationPolicy) -> SingleStep:
    """Single steps, for which what a count allows is found once."""
    starts, tasks = cache(problem.starts), problem.workload.key_groups
    return lambda prefix, cuts, after: band_cuts(starts(after), cuts, prefix, min(after, tasks), True)[1]


def myopic_policy(problem: MigrationPolicy, *, budget: Budget, seed: int = 0, most_states: Whole = 100_000) -> Answer:
    """Optimal single-step migration whatever the matrix says. No guarantee; the bound is `policy_bound`.

    Parameters
    ----------
    most_states : int
        Give up when more partitions than these can be met.
    """
    prefix, single_step = weights(problem.workload.state).prefix, _single_steps(problem)
    firsts = {n: _first(problem, single_step, n) for n in problem.first_row}

    def decide(nodes: int, cuts: IntArray, after: int) -> IntArray:
        return cuts if nodes == after else single_step(prefix, cuts, after)

    bound = policy_bound(problem)
    assignment = close(problem, firsts.__getitem__, decide, budget, most_states)
    if assignment is None and budget.expired:
        return Answer(None, bound, budget.why, "the time limit was reached before the policy was closed")
    message = (
        "" if assignment is not None else f"step by step more than {most_states} partitions are met, or 2 GB of them"
    )
    return Answer(assignment, bound, "completed", message)


def _first(problem: MigrationPolicy, single_step: SingleStep, nodes_after: int) -> IntArray:
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
    classes = {n: some_of_class(problem.starts(n), n, some.values()) for n, some in chosen.items()}
    iteration = PolicyIteration(problem, classes=classes)
    iteration.run(Budget(None), 1e-9)
    most_states = sum(c.size for c in classes.values()) + 1
    answer = answer_of(problem, iteration.policy(), 0.0, most_states, policy_bound(problem))
    answer.termination = budget.why if budget.expired else "completed"
    return answer


def candidates(
    problem: MigrationPolicy, rng: np.random.Generator, most: int, noise: float, budget: Budget
) -> dict[int, dict[bytes, IntArray]]:
    """Partitions met by single steps: breadth first from now, then with jittered states from random members."""
    state = problem.workload.state
    prefix, single_step = weights(state).prefix, _single_steps(problem)
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
