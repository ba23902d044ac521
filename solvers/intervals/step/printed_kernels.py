"""Figure 7 of [Ding2015], with switches for what is wrong in print.

g[k][a][c] is the largest state kept by the tasks [a, m) in at most k intervals, when the old nodes from the one
that contains task a (c = 0), or from the next one (c = 1), are available. For every end x of the first served
interval, the longest interval [lb, x) within the limit serves one node y, the least number of intervals covers [a, x),
and the rest is g at x.
"""

from __future__ import annotations

import numpy as np

from keyshift.models.compiling import njit

NEVER = -(1 << 60)


@njit(cache=True, nogil=True)
def figure_7(
    starts: np.ndarray, cuts: np.ndarray, prefix: np.ndarray, load: np.ndarray, limit: int, intervals: int,
    empty_rest: bool, zero_base: bool, lemma_43: bool, literal_lines: bool, halt: np.ndarray,
) -> tuple[int, np.ndarray]:  # fmt: skip
    """Largest state kept, and the decisions.

    Parameters
    ----------
    starts, cuts, prefix, intervals
        As in `keyshift.solvers.intervals.step.band_kernels.band_cuts`.
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
        Somebody else sets it to have this end, with what is worth nothing.

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
