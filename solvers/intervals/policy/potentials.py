"""Policies beyond enumeration, with a proven bound: interval potentials, and the best policy over what they lead to."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.answer import LimitReached
from keyshift.models.base.guards import Count, Share, Threads, Whole
from keyshift.models.intervals import MigrationPolicy
from keyshift.models.intervals.partition import cuts_of
from keyshift.models.workload import IntArray
from keyshift.solvers.intervals.band_kernels import weights
from keyshift.solvers.intervals.owners import close
from keyshift.solvers.intervals.partitions import some_of_class
from keyshift.solvers.intervals.policy.policy_iteration import (
    MOST_STATES,
    TOLERANCE,
    PolicyIteration,
    answer_of,
    proven,
)
from keyshift.solvers.intervals.potentials.dual import Certified, PotentialsDual
from keyshift.solvers.intervals.potentials.two_partitions_kernels import best_next
from keyshift.solvers.intervals.ssm import cuts_in_time, fewest_cuts, keepable, policy_bound
from keyshift.solvers.threads import until_limit

SingleStep = Callable[[IntArray, IntArray, int], IntArray]
"""The cuts after an optimal single step: for states with these prefix sums, from these cuts, to so many nodes."""


def _single_steps(problem: MigrationPolicy, budget: Budget) -> SingleStep:
    """Single steps, for which what a count allows is found once; without time they lead to the fewest intervals."""
    starts, tasks = cache(problem.starts), problem.workload.key_groups
    return lambda prefix, cuts, after: cuts_in_time(starts(after), cuts, prefix, min(after, tasks), budget)


def myopic_policy(problem: MigrationPolicy, *, budget: Budget, seed: int = 0, most_states: Whole = 100_000) -> Answer:
    """Optimal single-step migration whatever the matrix says. No guarantee; the bound is `policy_bound`.

    Where a limit ends it before it has decided for every partition, every count gets one partition: that of the step from now.

    Parameters
    ----------
    most_states : int
        Give up when more partitions than these can be met.
    """
    return _step_by_step(problem, budget, most_states, None)


def _step_by_step(problem: MigrationPolicy, budget: Budget, most_states: int, bound: float | None) -> Answer:
    """`myopic_policy`, with a bound that is known, or that is found once there is a first step to every count."""
    prefix, single_step = weights(problem.workload.state).prefix, _single_steps(problem, budget)
    firsts = {n: _first(problem, single_step, n) for n in problem.first_row}

    def decide(nodes: int, cuts: IntArray, after: int) -> IntArray:
        return cuts if nodes == after else single_step(prefix, cuts, after)

    bound = policy_bound(problem, budget) if bound is None else bound
    assignment = close(problem, firsts.__getitem__, decide, budget, most_states)
    if assignment is None and budget.expired:
        one = cache(lambda nodes: firsts[nodes] if nodes in firsts else fewest_cuts(problem.starts(nodes)))
        assignment = close(problem, one, lambda _, __, after: one(after), Budget(None), most_states)
        said = "the time limit was reached before all single steps were decided: each count has one partition"
        return Answer(assignment, bound, budget.why, said)
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
    bound = policy_bound(problem, budget.part(0.3))
    return _over_candidates(problem, budget, np.random.default_rng(seed), partitions, noise, bound)


def _over_candidates(
    problem: MigrationPolicy, budget: Budget, rng: np.random.Generator, partitions: int, noise: float, bound: float
) -> Answer:
    """`restricted_policy` with a bound that is known."""
    chosen = candidates(problem, rng, partitions, noise, budget.part(0.8))  # it also ends where there are no more
    classes = {n: some_of_class(problem.starts(n), n, some.values()) for n, some in chosen.items()}
    iteration = PolicyIteration(problem, classes=classes)
    iteration.round(Budget(None))  # there is a policy, however late it is
    iteration.run(budget, 1e-9)
    most_states = sum(c.size for c in classes.values()) + 1
    answer = answer_of(problem, iteration.policy(), 0.0, most_states, bound)
    answer.termination = budget.why if budget.expired else "completed"
    return answer


def candidates(
    problem: MigrationPolicy, rng: np.random.Generator, most: int, noise: float, budget: Budget
) -> dict[int, dict[bytes, IntArray]]:
    """Partitions met by single steps: breadth first from now, then with jittered states from random members."""
    state = problem.workload.state
    prefix, single_step = weights(state).prefix, _single_steps(problem, budget)
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


Chosen = dict[int, dict[bytes, IntArray]]
"""Some partitions of every class: their cuts, by the bytes of these."""


def potentials_policy(
    problem: MigrationPolicy,
    *,
    budget: Budget,
    seed: int = 0,
    threads: Threads = 1,
    partitions: Count = 20_000,
    most_states: Whole = MOST_STATES,
) -> Answer:
    """Values that are sums over intervals: a proven bound at any number of partitions, and a policy that looks ahead.

    The bound is that of `keyshift.solvers.intervals.potentials.dual`, O(m w w') a pair of counts and step for intervals of
    up to w tasks, where nothing is enumerated. Decisions that are best for these values lead from now to some
    partitions; the best policy that stays within them is found exactly, by policy iteration. It is never worse than
    `mtm-restricted` with its default options, given the time, or than `ssm` where that meets no more than `partitions`
    of them. No guarantee on the gap; it is shown.

    Parameters
    ----------
    threads : int
        Pairs of counts worked on at the same time; the answer does not depend on it.
    partitions : int
        At most this many partitions, of all classes, that decisions lead to; the most probable ones first.
    most_states : int
        As in `mtm`.

    Notes
    -----
    Source: [DeFarias2003] for the approximate linear program; interval potentials, their separation over two partitions and
    the smoothed dual are keyshift's. Without a time limit it ends by itself; at a limit the best of `ssm`'s policy and its
    own is returned with the best bound so far. With over 2,000 tasks the answer is that of `mtm-restricted` or `ssm`.
    """
    most_met, fits = min(partitions, most_states), 60_000_000 // (len(problem.counts) * problem.workload.key_groups)
    if problem.workload.key_groups > 2_000:  # cells are kept for pairs of positions
        bound = policy_bound(problem, budget.part(0.3))
        most = min(300, max(2, 2 * fits // 3))
        found = _over_candidates(problem, budget, np.random.default_rng(seed), most, 0.3, bound)
        if budget.remaining < 0.5 * budget.time_limit:  # the first of these steps are among the candidates
            return found
        return better(problem, found, _step_by_step(problem, budget, most_met, bound))
    plain = myopic_policy(problem, budget=budget.part(0.2), most_states=most_met)
    if budget.expired:
        return Answer(plain.assignment, plain.bound, budget.why, plain.message)
    dual, half = PotentialsDual(problem, threads), budget.part(0.5)
    with suppress(LimitReached):  # what it has found by then is kept
        until_limit(half, dual.ascend, half)
    certified = dual.best
    if certified is None:
        return better(problem, plain, restricted_policy(problem, budget=budget, seed=seed))
    bound = max(certified.bound, policy_bound(problem))
    plain.bound = bound
    most = min(most_met, fits)
    chosen = led_to(problem, certified, most, budget.part(0.4))
    rng = np.random.default_rng(seed)
    offered = candidates(problem, rng, 300, 0.3, budget.part(0.3))
    answer = best_within(problem, certified, [chosen, offered], bound, threads, budget, most_states)
    return plain if answer is None else better(problem, answer, plain)


def better(problem: MigrationPolicy, one: Answer, other: Answer) -> Answer:
    """The answer of less value, with the higher bound of the two."""
    found = [a.assignment for a in (one, other)]
    values = [np.inf if a is None else problem.objective(problem.canonical(a)) for a in found]
    best = one if values[0] <= values[1] else other
    best.bound = max((b for b in (one.bound, other.bound) if b is not None), default=None)
    if best.termination not in ("time_limit", "interrupted"):
        best.termination = proven(problem, best)
    return best


def led_to(problem: MigrationPolicy, certified: Certified, most: int, budget: Budget) -> Chosen:
    """States reached by decisions that are best for the values of `certified`: the most probable, and soonest, first."""
    gamma, tasks = problem.discount, problem.workload.key_groups
    ahead = {n: gamma * np.where(np.isinf(table), 0.0, table) for n, table in certified.tables.items()}
    starts = {n: problem.starts(n) for n in problem.reachable}
    w = problem.workload

    def after(cuts: IntArray, n: int, state: np.ndarray) -> IntArray:
        kept = np.concatenate(([0.0], np.cumsum(state)))
        return best_next(starts[n], cuts, kept, ahead[n], min(n, tasks))[1]

    chosen: Chosen = {n: {} for n in problem.reachable}
    ties = itertools.count()
    waiting: list[tuple[float, int, int, IntArray]] = []

    def meet(chance: float, n: int, cuts: IntArray) -> None:
        if cuts.tobytes() not in chosen[n]:
            chosen[n][cuts.tobytes()] = cuts
            heapq.heappush(waiting, (-chance, next(ties), n, cuts))

    now, stays = cuts_of(w.current), np.where(w.draining[w.current], 0.0, w.state)
    for n in problem.reachable:
        meet(problem.first_row.get(n, 0.0), n, after(now, n, stays))
    # `ties` numbers what is met and what is looked at alike, so both together stay within `most`.
    while waiting and next(ties) < most and not budget.expired:
        chance, _, n, cuts = heapq.heappop(waiting)
        for k, p in problem.transitions[n].items():
            if k != n:
                meet(-chance * gamma * p, k, after(cuts, k, w.state))
    return chosen


def best_within(
    problem: MigrationPolicy,
    certified: Certified,
    chosen: Iterable[Chosen],
    bound: float,
    threads: int,
    budget: Budget,
    most_states: int,
) -> Answer | None:
    """The best policy that stays within some partitions, by policy iteration; None if the budget ends before."""
    parts = list(chosen)
    classes = {
        n: some_of_class(problem.starts(n), n, [cuts for part in parts for cuts in part[n].values()])
        for n in problem.reachable
    }
    if budget.expired:
        return None
    iteration = PolicyIteration(problem, threads, classes)
    tasks = problem.workload.key_groups
    below = {n: certified.below(n, c.rows, tasks) for n, c in classes.items()}
    iteration.value = {n: v.copy() for n, v in below.items()}
    iteration.run(budget.part(0.8), TOLERANCE)
    if not np.isfinite(iteration.high):
        return None
    iteration.low = min(float((below[n] - v).min()) for n, v in iteration.value.items()) - 1e-12 * problem.scale
    answer = answer_of(problem, iteration.policy(), 0.0, most_states, bound)
    answer.details["below"] = certified
    answer.termination = budget.why if budget.expired else proven(problem, answer)
    return answer
