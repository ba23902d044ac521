"""Single-step migration as [Ding2015] prints it: Simple_SSM and SSM, with the repairs that make them right."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from keyshift.models import Answer, Budget, InputError
from keyshift.models.answer import LimitReached
from keyshift.models.integers import Scaled
from keyshift.models.intervals import IntervalMigration
from keyshift.models.workload import IntArray
from keyshift.solvers.intervals.step.printed_kernels import figure_7
from keyshift.solvers.intervals.step.ssm import answer_by_cuts, answer_from_cuts, keepable
from keyshift.solvers.threads import until_limit

MOST_STEPS = 20_000_000_000
"""Figure 7: m^2 n' steps. The band dynamic program has no such limit."""
MOST_SIMPLE = 200_000_000
"""Simple_SSM: m^3 n^3 n'^2 steps."""
NEVER = -(1 << 60)
FLAWS = ("range", "base", "lemma-4.3", "lines-10-12")


def _greedy_back(starts: IntArray, begin: int, end: int) -> list[int]:
    """Cuts of the fewest intervals that cover [begin, end), from the right; without the ends."""
    cuts: list[int] = []
    position = max(begin, int(starts[end])) if end > begin else begin
    while position > begin:
        cuts.append(position)
        position = max(begin, int(starts[position]))
    return cuts


def _cuts(starts: IntArray, choice: np.ndarray, intervals: int) -> IntArray:
    """The partition behind the decisions; ranges that serve no node are cut greedily (the post-processing step)."""
    tasks = starts.size - 1
    found = {0, tasks}
    k, a, c = intervals, 0, 0
    while a < tasks:
        x, lb, used, after = choice[k, a, c].tolist()
        if x < 0:  # a base: [a, m) serves nobody, or one interval takes it all
            found.update(_greedy_back(starts, a, tasks))
            break
        found.update((x, lb))
        found.update(_greedy_back(starts, a, lb))
        k, a, c = k - used, x, after
    return np.array(sorted(found), dtype=np.int64)


def _figure_7(problem: IntervalMigration, kept: Scaled, flaws: tuple[str, ...], budget: Budget) -> tuple[int, IntArray]:
    if "lines-10-12" in flaws and isinstance(problem.prefix.sums, list):
        raise InputError("the loads do not fit 64 bits exactly, as lines 10-12 need them to")
    sums = (
        np.zeros(problem.starts.size, dtype=np.int64) if isinstance(problem.prefix.sums, list) else problem.prefix.sums
    )
    intervals = problem.nodes_after if flaws else min(problem.nodes_after, problem.workload.key_groups)
    halt = np.zeros(1, dtype=np.uint8)
    gain, choice = until_limit(
        budget, figure_7, problem.starts, problem.old_cuts, kept.prefix, np.diff(sums), min(problem.limit, 2**62),
        intervals, "range" not in flaws, "base" not in flaws, "lemma-4.3" in flaws, "lines-10-12" in flaws, halt,
        stop=lambda: halt.fill(1), steps=problem.starts.size**2 * intervals,
    )  # fmt: skip
    if halt[0]:
        raise LimitReached
    return int(gain), _cuts(problem.starts, choice, intervals) if gain >= 0 else np.empty(0, dtype=np.int64)


def _too_long(problem: IntervalMigration) -> Answer | None:
    steps = problem.workload.key_groups**2 * problem.nodes_after
    if steps <= MOST_STEPS:
        return None
    return Answer(None, message=f"Figure 7 would take m^2 n' = {steps} steps; the default method does not")


def ssm_repaired(problem: IntervalMigration, *, budget: Budget, seed: int = 0) -> Answer:
    """Figure 7 with its two repairs: exact, O(m^2 n') time and O(m n') memory.

    Notes
    -----
    Source: [Ding2015], Figures 6 and 7. Departures, each with a smallest counterexample in the tests:

    * P2 may be empty (x = m + 1): Lemma 4.1's proof picks "any node whose gain is non-zero" and its range excludes x =
      beta, so that it misses a gain at the very end, or none at all.
    * A range that can be covered has gain 0 at least, for every n_P: line 5 knows only n_P = 1.
    * The served node comes from Lemma 4.5, not from Lemma 4.3, which gives the first available node.
    * Lines 10-12 subtract the load of lb before lb is incremented, x starts at alpha + 1 and lb at alpha.
    """
    if refused := _too_long(problem):
        return refused
    return _in_time(budget, lambda: answer_by_cuts(problem, lambda kept: _figure_7(problem, kept, (), budget)))


def ssm_printed(
    problem: IntervalMigration, *, budget: Budget, seed: int = 0, flaws: tuple[str, ...] = ("range", "base")
) -> Answer:
    """Figure 7 as printed, for teaching: it misses optima, and calls feasible instances infeasible.

    No guarantee, no bound. On random small instances about a quarter of the answers to feasible ones are wrong.

    Parameters
    ----------
    flaws : tuple of str
        Which of the printed flaws to keep: "range" (Lemma 4.1 excludes x = m + 1), "base" (gain 0 for n_P = 1 only),
        "lemma-4.3" (take the served node from Lemma 4.3), "lines-10-12" (as printed; nodes may be overloaded, and
        such an answer does not pass the check).

    Notes
    -----
    Source: [Ding2015], Figures 6 and 7. Lines 8-12 are corrected unless "lines-10-12" is asked for.
    """
    for flaw in flaws:
        if flaw not in FLAWS:
            raise InputError(f"flaws names {flaw!r}; choose from {', '.join(FLAWS)}")
    if refused := _too_long(problem):
        return refused

    def printed() -> Answer:
        kept = keepable(problem)
        gain, cuts = _figure_7(problem, kept, tuple(flaws), budget)
        if gain < 0:
            return Answer(None, message="Figure 7 as printed finds no solution, though there is one")
        claimed = kept.lower(kept.total - gain)
        return Answer(answer_from_cuts(problem, cuts, kept), details={"state_moved_claimed": claimed})

    return _in_time(budget, printed)


def simple_ssm(problem: IntervalMigration, *, budget: Budget, seed: int = 0) -> Answer:
    """Figure 5, repaired: all sub-problems [alpha, beta) x [gamma, delta) x n_P. Exact; for the smallest instances.

    O(m^3 n^3 n'^2) time.

    Notes
    -----
    Source: [Ding2015], Figure 5. Departures: a range that can be covered has gain 0 at least, and node ranges
    and the second sub-problem may be empty; see `ssm_repaired`.
    """
    m, n = problem.workload.key_groups, problem.old_cuts.size - 1
    intervals = min(problem.nodes_after, m)
    if (steps := m**3 * n**3 * intervals**2) > MOST_SIMPLE:
        return Answer(None, message=f"Simple_SSM would take m^3 n^3 n'^2 = {steps} steps; the default method does not")
    return _in_time(budget, lambda: answer_by_cuts(problem, lambda kept: _figure_5(problem, kept, budget)))


def _in_time(budget: Budget, work: Callable[[], Answer]) -> Answer:
    """An answer, or the word that there is none yet: these tables say nothing before they are full."""
    try:
        return work()
    except LimitReached:
        return Answer(None, 0.0, budget.why, "the time limit was reached before the table was full")


def _figure_5(problem: IntervalMigration, kept: Scaled, budget: Budget) -> tuple[int, IntArray]:
    """The most state kept, and the cuts that keep it."""
    m, n = problem.workload.key_groups, problem.old_cuts.size - 1
    intervals = min(problem.nodes_after, m)
    starts, old, sums = problem.starts.tolist(), problem.old_cuts.tolist(), kept.prefix.tolist()
    nothing: tuple[int, tuple[int, ...]] = (NEVER, (0,))

    @cache
    def solve(alpha: int, beta: int, gamma: int, delta: int, most: int) -> tuple[int, tuple[int, ...]]:
        """Gain and cuts after alpha, of the tasks [alpha, beta) in `most` intervals for the nodes [gamma, delta)."""
        budget.tick()
        if alpha == beta:
            return 0, ()
        if most == 0:
            return nothing
        best: tuple[int, tuple[int, ...]] = nothing
        inner = _greedy_back(problem.starts, alpha, beta)
        if len(inner) < most and all(starts[x] < x for x in range(alpha + 1, beta + 1)):
            best = 0, (*reversed(inner), beta)
        if starts[beta] <= alpha:  # lines 4-6
            for y in range(gamma, delta):
                gain = sums[max(alpha, min(beta, old[y + 1]))] - sums[min(beta, max(alpha, old[y]))]
                best = max(best, (gain, (beta,)), key=lambda g: g[0])
        for x in range(alpha + 1, beta):  # lines 9-12
            for y in range(gamma, delta + 1):
                for left in range(1, most):
                    one = solve(alpha, x, gamma, y, left)
                    two = solve(x, beta, y, delta, most - left)
                    if one[0] + two[0] > best[0]:
                        best = one[0] + two[0], one[1] + two[1]
        return best

    gain, ends = solve(0, m, 0, n, intervals)
    return gain, np.array((0, *ends), dtype=np.int64)
