"""Single-step migration as [Ding2015] prints it: Simple_SSM and SSM, with the repairs that make them right."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from keyshift.models import Answer, Budget, InputError
from keyshift.models.answer import LimitReached
from keyshift.models.base.compiling import njit
from keyshift.models.base.integers import Scaled
from keyshift.models.intervals import IntervalMigration
from keyshift.models.workload import IntArray
from keyshift.solvers.intervals.band_kernels import NEVER
from keyshift.solvers.intervals.ssm import answer_by_cuts, answer_from_cuts, keepable
from keyshift.solvers.threads import until_limit

# Figure 7 of [Ding2015], with switches for what is wrong in print.
#
# g[k][a][c] is the largest state kept by the tasks [a, m) in at most k intervals, when the old nodes from the one
# that contains task a (c = 0), or from the next one (c = 1), are available. For every end x of the first served
# interval, the longest interval [lb, x) within the limit serves one node y, the least number of intervals covers [a, x),
# and the rest is g at x.


@njit(cache=True, nogil=True)
def figure_7(  # noqa: C901  # a compiled loop is one function
    starts: np.ndarray, cuts: np.ndarray, prefix: np.ndarray, load: np.ndarray, limit: int, intervals: int,
    empty_rest: bool, zero_base: bool, lemma_43: bool, literal_lines: bool, halt: np.ndarray,
) -> tuple[int, np.ndarray]:  # fmt: skip
    """Largest state kept, and the decisions.

    Parameters
    ----------
    starts, cuts, prefix, intervals
        As in `keyshift.solvers.intervals.band_kernels.band_cuts`.
    load, limit : int64 array, shape (m,), and int
        Whole loads, for the literal lines only.
    empty_rest : bool
        Let P2 be empty (x = m), which the range of Lemma 4.1 excludes.
    zero_base : bool
        Every range that can be covered has gain 0 at least; as printed only n_P = 1 is a base.
    lemma_43 : bool
        Take the two nodes of Lemma 4.3 for the served node, instead of those of Lemma 4.5.
    literal_lines : bool
        Lines 10-12 as printed: lb is incremented first, then the load of the NEW lb is subtracted.
    halt : uint8 array, shape (1,)
        Set by another thread to end the call; its result is then worthless.

    Returns
    -------
    gain : int
        Negative when the algorithm finds no feasible solution.
    choice : int64 array, shape (intervals + 1, m + 1, 2, 4)
        x, lb, intervals for [a, x), and the next c; x = -1 for a base.
    """
    tasks, nodes = starts.size - 1, cuts.size - 1
    node_of = np.empty(tasks + 1, np.int64)
    for y in range(nodes):
        node_of[cuts[y] : cuts[y + 1]] = y
    node_of[tasks] = nodes
    g = np.full((intervals + 1, tasks + 1, 2), NEVER, np.int64)
    choice = np.full((intervals + 1, tasks + 1, 2, 4), -1, np.int64)
    g[:, tasks, :] = 0
    for k in range(1, intervals + 1):
        for a in range(tasks - 1, -1, -1):
            if halt[0]:
                return NEVER, choice
            for c in range(2):
                gamma = node_of[a] + c
                best = NEVER
                if zero_base:
                    position, used = tasks, 0
                    while position > a and used < k and starts[position] < position:
                        position, used = max(starts[position], a), used + 1
                    if position == a:
                        best = 0
                if k == 1 and starts[tasks] <= a:
                    best = max(best, 0)
                    for y in range(gamma, nodes):
                        best = max(best, prefix[cuts[y + 1]] - prefix[max(a, cuts[y])])
                if zero_base or k > 1:
                    used, begun, lb, carried = 1, a, a, 0
                    free, free_gain = -1, NEVER  # the best node that ends by x, kept up to date as x grows
                    for x in range(a + 1, tasks + (1 if empty_rest else 0)):
                        if literal_lines:
                            carried += load[x - 1]
                            while carried > limit and lb < tasks - 1:
                                lb += 1
                                carried -= load[lb]
                            lb = min(lb, x)
                        else:
                            lb = max(a, starts[x])
                        if starts[x] == x and not literal_lines:
                            break
                        if starts[x] > begun:
                            begun, used = x - 1, used + 1
                        if used > k or (not empty_rest and used >= k):
                            break
                        free, free_gain = -1, NEVER
                        for y in range(max(gamma, node_of[lb]) if lb < tasks else nodes, nodes):
                            if cuts[y + 1] > x:
                                break
                            kept = prefix[cuts[y + 1]] - prefix[max(lb, cuts[y])]
                            if kept > free_gain:
                                free, free_gain = y, kept
                        inside = node_of[x - 1]
                        if lemma_43:
                            inside, free = node_of[x], node_of[x] - 1
                        for which in range(2):
                            y = inside if which == 0 else free
                            if y < gamma or y < 0 or y >= nodes:
                                continue
                            kept = max(0, prefix[min(x, cuts[y + 1])] - prefix[min(x, max(lb, cuts[y]))])
                            after = 1 if x < tasks and cuts[y + 1] > x else 0
                            rest = g[k - used, x, after]
                            if rest >= 0 and kept + rest > best:
                                best = kept + rest
                                choice[k, a, c] = np.array([x, lb, used, after])
                g[k, a, c] = best
    return g[intervals, 0, 0], choice


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
        if x < 0:  # a base case: no node is left, or one interval takes all of [a, m)
            found.update(_greedy_back(starts, a, tasks))
            break
        found.update((x, lb))
        found.update(_greedy_back(starts, a, lb))
        k, a, c = k - used, x, after
    return np.array(sorted(found), dtype=np.int64)


def _figure_7(problem: IntervalMigration, kept: Scaled, flaws: tuple[str, ...], budget: Budget) -> tuple[int, IntArray]:
    if "lines-10-12" in flaws and isinstance(problem.prefix.sums, list):
        raise InputError("the loads do not fit 64 bits exactly, as lines 10-12 need them to")
    sums = problem.prefix.sums
    sums = np.zeros(problem.starts.size, dtype=np.int64) if isinstance(sums, list) else sums
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
    if steps <= 20_000_000_000:
        return None
    return Answer(None, message=f"Figure 7 would take m^2 n' = {steps} steps; the default method does not")


def ssm_repaired(problem: IntervalMigration, *, budget: Budget, seed: int = 0) -> Answer:
    """Figure 7 with its two repairs: exact, O(m^2 n') time and O(m n') memory.

    Notes
    -----
    Source: [Ding2015], Figures 6 and 7. Departures, each with a smallest counterexample in the tests:

    * P2 may be empty (x = m + 1): Lemma 4.1's proof picks "any node whose gain is non-zero" and its range excludes x =
      beta, so that it misses a gain at the very end, or none at all.
    * A range that can be covered has gain 0 at least, for every n_P: line 5 only covers n_P = 1.
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
        such an answer does not pass the check, or intervals be more than nodes).

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
        if cuts.size - 1 > problem.nodes_after:
            said = f"Figure 7 as printed cuts {cuts.size - 1} intervals for {problem.nodes_after} nodes"
            return Answer(None, message=said)
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
    if (steps := m**3 * n**3 * intervals**2) > 200_000_000:
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
