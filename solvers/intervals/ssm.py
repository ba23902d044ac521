"""Optimal single-step migration by the band dynamic program."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.answer import LimitReached
from keyshift.models.base.integers import Scaled
from keyshift.models.intervals import IntervalMigration, MigrationPolicy, MigrationSequence
from keyshift.models.intervals.policy.transitions import macqueen_interval
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.checked import is_met
from keyshift.solvers.intervals.band_kernels import (
    BandLayer,
    TaskLine,
    WindowScratch,
    band_cuts,
    bands,
    cells,
    in_fine_units,
    penalised,
    weights,
)
from keyshift.solvers.intervals.owners import Owners
from keyshift.solvers.threads import SHORT, until_limit


def keepable(problem: IntervalMigration, state: FloatArray | None = None) -> Scaled:
    """State that need not move, as whole weights; of other sizes than the workload's where these are capped."""
    if state is None or state is problem.workload.state:
        return weights(problem.keepable_state)
    return weights(np.where(problem.workload.draining[problem.workload.current], 0.0, state))


def answer_from_cuts(problem: IntervalMigration, cuts: IntArray, kept: Scaled) -> IntArray:
    """The assignment that realises a partition with as little movement as it allows."""
    return Owners.now(problem.workload).migrate(cuts, problem.nodes_after, kept.prefix)


def moved_at_least(problem: IntervalMigration, kept: Scaled, gain: int) -> float:
    """A lower bound on the state moved when no partition keeps more than `gain` whole units."""
    w = problem.workload
    forced = float(w.state[w.draining[w.current]].sum())
    return kept.lower(kept.total - gain) + forced * (1 - 1e-15)


def answer_by_cuts(problem: IntervalMigration, most_kept: Callable[[Scaled], tuple[int, IntArray]]) -> Answer:
    """The answer of a dynamic program in whole units that are fine enough.

    Parameters
    ----------
    most_kept : callable
        From the weights of the state that can be kept to the most that a partition keeps, < 0 where there is none,
        and to its cuts.
    """

    def answer_to(state: FloatArray, best: np.ndarray | None) -> Answer:
        kept = keepable(problem, state)
        gain, cuts = most_kept(kept)
        if gain < 0:
            return Answer(None, termination="infeasible", message="no partition keeps every node within its load limit")
        details = {"intervals": cuts.size - 1, "state_kept": gain * kept.unit}
        found = answer_from_cuts(problem, cuts, kept)
        return Answer(found, moved_at_least(problem, kept, gain), "optimal", details=details)

    return in_fine_units(problem, None, answer_to)


LONG = 50_000_000
"""States of the band dynamic program from which it takes seconds: then `lagrangian` answers first."""


def states_of(starts: IntArray, intervals: int) -> float:
    """How many states the band dynamic program has; 0 where no partition is feasible."""
    low, high = bands(starts, intervals)
    return float((high - low + 1).sum()) if low[0] == 0 else 0.0


def cuts_in_time(starts: IntArray, cuts: IntArray, prefix: IntArray, intervals: int, budget: Budget) -> IntArray:
    """`band_cuts`; where it takes long, a price on intervals, and the program if that leaves a gap and there is time for it."""
    if (states := states_of(starts, intervals)) < SHORT:
        return np.asarray(band_cuts(starts, cuts, prefix, intervals, True)[1])
    if budget.expired:
        return fewest_cuts(starts)
    # Prices times intervals must fit 64 bits beside the state itself.
    coarse = prefix >> max(0, int(prefix[-1]).bit_length() + starts.size.bit_length() - 60)
    near = int(coarse[-1]) >> 20  # a millionth of the state: there the program gains nothing
    priced = by_price(_Pass(starts, cuts, coarse), intervals, budget, near)
    found = fewest_cuts(starts) if priced.cuts.size - 1 > intervals else priced.cuts
    if priced.gap <= near or (states > LONG and math.isfinite(budget.time_limit)):
        return found
    try:
        return np.asarray(until_limit(budget, band_cuts, starts, cuts, prefix, intervals, True, steps=states)[1])
    except LimitReached:
        return found


def fewest_cuts(starts: IntArray) -> IntArray:
    """Intervals that are as long as they can be, from the last task on: the fewest, in one pass."""
    found = [starts.size - 1]
    while found[-1] > 0:
        found.append(int(starts[found[-1]]))
    return np.array(found[::-1], dtype=np.int64)


def solve_ssm(problem: IntervalMigration, *, budget: Budget, seed: int = 0) -> Answer:
    """Cut the tasks anew so that least state moves: exact.

    O(m (slack + 1)) time, where slack is n' less the least number of intervals that the load limit needs, and
    O(m sqrt(n')) memory above 4 million states. Draws no random numbers; of the optima it takes one with few
    intervals.

    Notes
    -----
    Source: the problem is that of [Ding2015], section 4; the dynamic program is keyshift's
    (`keyshift.solvers.intervals.band_kernels`), which replaces their Figure 7: see "ssm-repaired".
    """
    intervals = min(problem.nodes_after, problem.workload.key_groups)
    most, ahead = intervals * problem.starts.size, None
    states = states_of(problem.starts, intervals) if most > LONG else most
    if states > LONG and math.isfinite(budget.remaining):
        ahead = lagrangian(problem, budget=budget.part(0.5))
        if is_met(problem, ahead):
            ahead.termination = "optimal"
            return ahead

    def most_kept(kept: Scaled) -> tuple[int, IntArray]:
        given = problem.starts, problem.old_cuts, kept.prefix, intervals, True
        gain, cuts = band_cuts(*given) if ahead is None else until_limit(budget, band_cuts, *given, steps=states)
        return int(gain), cuts

    try:
        return answer_by_cuts(problem, most_kept)
    except LimitReached:
        assert ahead is not None  # nothing else looks at the clock
        ahead.termination = budget.why
        ahead.message = (
            ahead.message
            or "the time limit was reached before the dynamic program had ended: answer and bound by a price"
        )
        return ahead


# For millions of tasks: a price on intervals in place of their number ------------------------------------------------


class _Pass:
    """One pass of the dynamic program for any price, with its scratch."""

    def __init__(self, starts: IntArray, cuts: IntArray, prefix: IntArray) -> None:
        m = starts.size - 1
        left, right = cells(cuts, m)
        self.line = TaskLine(starts, left, right, prefix)
        self.row = BandLayer(np.zeros(m + 1, np.int64), np.zeros(m + 1, np.int64), 0, m)
        self.scratch = WindowScratch(np.empty((4, m + 1), np.int64), np.empty(m + 1, np.int64))

    def __call__(self, price: int) -> tuple[int, IntArray]:
        best, cuts = penalised(self.line, price, self.row, self.scratch)
        return int(best), cuts


class PricedCuts(NamedTuple):
    """What a price on intervals in place of their number leads to.

    Attributes
    ----------
    upper : int
        No partition with so few intervals keeps more than this.
    gap : int
        How much less the cuts keep.
    cuts : ndarray
        Of so few intervals, but where the time was over or the dearest price still led to more.
    price : int
        The one that proves `upper`.
    passes : int
    ended : bool
        Whether nothing was left to ask.
    """

    upper: int
    gap: int
    cuts: IntArray
    price: int
    passes: int
    ended: bool


def by_price(
    run: _Pass, most: int, budget: Budget, near: int = 0, told: Callable[[int], None] | None = None
) -> PricedCuts:
    """Look for the price at which as few intervals are used as there may be, until the gap is `near` 0; one price at least."""
    total = int(run.line.prefix[-1])
    low, high = 0, total + 1
    upper, found = run(0)
    if found.size - 1 <= most:
        return PricedCuts(upper, 0, found, 0, 1, True)
    passes, cheapest, gap, within = 1, 0, upper, None
    while high - low > 1 and gap > near and (passes == 1 or not budget.expired):
        price = _between(low, high, total, total // (4 * most))
        value, cuts = run(price)
        passes += 1
        if value + price * most < upper:
            upper, cheapest = value + price * most, price
        if cuts.size - 1 > most:
            low = price
        else:
            high, within, kept = price, cuts, value + price * (cuts.size - 1)
        gap = upper if within is None else upper - kept
        if told is not None:
            told(upper)
    ended = high - low <= 1 or gap <= near
    if within is None:  # the highest price: the fewest intervals
        _, within = run(high)
    return PricedCuts(upper, gap, within, cheapest, passes, ended)


def _between(low: int, high: int, total: int, guess: int) -> int:
    """The next price: a guess at first, then in large steps until it lies between two, then bisected."""
    if high > total:
        price = 8 * low if low else guess
    elif low == 0:
        price = high // 8
    else:
        price = math.isqrt(low * high) if high > 4 * low else (low + high) // 2
    return min(max(price, low + 1), high - 1)


def lagrangian(problem: IntervalMigration, *, budget: Budget, seed: int = 0) -> Answer:
    r"""Bisect the price of an interval until as few are used as there are nodes: a bound, and an assignment near it.

    For every price :math:`\lambda \ge 0` the state kept by at most n' intervals is at most
    :math:`h(\lambda) + \lambda n'`, where h is the largest state kept less the intervals' price. A pass takes O(m);
    there are about log2(all the state) of them at most, and one suffices when the best partition without a price uses
    at most n' intervals, as it often does when nodes are added. The assignment is proven optimal where it attains
    the bound; where it does not, the default method closes the gap in more time.

    Notes
    -----
    That the bound is tight rests on the state kept being concave in the number of intervals, for which there is
    evidence (millions of instances) and no proof. Nothing returned here relies on it. The price that proves the bound,
    in units of state, is in ``details["price"]``.
    """
    m, most = problem.workload.key_groups, problem.nodes_after
    # Prices times intervals must fit 64 bits beside the state itself.
    kept = weights(problem.keepable_state, bits=min(52, 60 - m.bit_length()))
    run = _Pass(problem.starts, problem.old_cuts, kept.prefix)

    def told(upper: int) -> None:
        budget.report(bound=moved_at_least(problem, kept, upper))

    priced = by_price(run, most, budget, told=told)
    bound = moved_at_least(problem, kept, priced.upper)
    if priced.cuts.size - 1 > most:  # ties at the highest price
        return Answer(None, bound, budget.why, "the time limit was reached before a price led to few enough intervals")
    assignment = answer_from_cuts(problem, priced.cuts, kept)
    details = {"passes": priced.passes, "intervals": priced.cuts.size - 1, "price": priced.price / kept.scale}
    return Answer(assignment, bound, "completed" if priced.ended else budget.why, details=details)


# Lower bounds for instances of any size: state moved is a metric, so no detour costs less than the direct step --------


def least_moved(step: IntervalMigration, budget: Budget | None = None) -> float:
    """A lower bound on the state that one migration moves, by the band dynamic program; no partition is made.

    Where a budget is given and the program would take long, by a price on intervals (`lagrangian`).
    """
    intervals = min(step.nodes_after, step.workload.key_groups)
    if budget is not None and states_of(step.starts, intervals) >= SHORT:
        return lagrangian(step, budget=budget).bound or 0.0
    kept = keepable(step)
    gain, _ = band_cuts(step.starts, step.old_cuts, kept.prefix, intervals, False)
    return max(0.0, moved_at_least(step, kept, int(gain)))


def sequence_bound(problem: MigrationSequence, budget: Budget | None = None) -> float:
    """A lower bound on the state that a known sequence of migrations moves.

    Until step t at least as much moves as in one optimal step from now to any of the counts up to t.
    """
    return max(_each_at_least(problem, set(problem.counts), budget, alike=False).values())


def _each_at_least(
    problem: MigrationSequence | MigrationPolicy, counts: Collection[int], budget: Budget | None, alike: bool
) -> dict[int, float]:
    """The least that a step from now to each count moves, the farthest count first; 0 once the time is over.

    All are `alike` in the time that they get, or each takes what it needs of what is left.
    """
    now, found = int(problem.workload.kept.sum()), dict.fromkeys(counts, 0.0)
    for done, nodes in enumerate(sorted(counts, key=lambda nodes: (-abs(nodes - now), nodes))):
        if budget is None or not done or not budget.expired:
            part = None if budget is None else budget.part(1 / (len(found) - done) if alike else 1.0)
            found[nodes] = least_moved(problem.first_step(nodes), part)
    return found


def policy_bound(problem: MigrationPolicy, budget: Budget | None = None) -> float:
    r"""A lower bound on the expected discounted state moved, from single steps out of the present alone.

    With d(n) the least state that one step from now to n nodes moves, and D_t the state moved in steps 1..t, the
    triangle inequality gives D_t >= max(d(n_1), .., d(n_t)), and summation by parts
    :math:`\sum_t \gamma^{t-1} c_t = \sum_t (\gamma^{t-1} - \gamma^t) D_t`. The expectation of that maximum is a
    Markov chain on (count, largest d so far).
    """
    p, gamma = problem, problem.discount
    least = _each_at_least(p, p.reachable, budget, alike=True)
    levels = sorted({0.0, *least.values()})
    states = [(n, r) for n in p.reachable for r in levels]
    number = {state: i for i, state in enumerate(states)}

    def step(row: Mapping[int, float], r: float) -> tuple[float, FloatArray]:
        """The least that the next step adds, and the probabilities of the states it leads to."""
        added, towards = 0.0, np.zeros(len(states))
        for n, chance in row.items():
            added += chance * (1 - gamma) * max(r, least[n])
            towards[number[n, max(r, least[n])]] += chance
        return added, towards

    added, towards = (np.array(part) for part in zip(*(step(p.transitions[n], r) for n, r in states), strict=True))
    value = np.linalg.solve(np.eye(len(states)) - gamma * towards, added)
    better = added + gamma * (towards @ value)
    below, _ = macqueen_interval([better - value], gamma)  # the system is solved to rounding, the bound holds anyway
    now, ahead = step(p.first_row, 0.0)
    return max(0.0, now + gamma * float(ahead @ (better + below)) - 1e-12 * p.scale)
