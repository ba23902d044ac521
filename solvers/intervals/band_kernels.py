"""The band dynamic program for single-step interval migration: values, layer by layer, and the cuts behind them.

Positions 0..m; the old cuts divide them into cells, the cell of x being (left[x], right[x]]. After k intervals cover
[0, x), F0[x] is the largest state kept with the old node of x's cell still available, F1[x] >= F0[x] with that node
taken or not: at x = right[x] it no longer matters, and both are F1. With x' the start of the last interval [x', x):

* x' >= left[x] (same cell): leave the cell's node, or serve it now. F0 does not grow inside a cell, so for
  both the leftmost x' is best; leaving a taken node takes the largest F1 in a sliding window.
* x' < left[x]: serve the node of the cell in which x' lies (F0), or of a whole cell in between (F1), or the node
  of x's own cell (F1). All three are sliding-window aggregates; two stacks keep them in O(1) amortised.

A layer k matters only where x can be reached from 0 by k intervals and m from x by the rest: a band. In all O(m (slack
+ 1)) steps, slack being the number of intervals beyond the least possible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from keyshift.models import Answer
from keyshift.models.base.compiling import LEAF, njit
from keyshift.models.base.integers import Scaled, capped, scaled
from keyshift.models.intervals import IntervalMigration, MigrationSequence
from keyshift.models.workload import FloatArray, IntArray

NEVER = -(1 << 60)
"""What dynamic programs in whole units put for what cannot be: below every sum of states."""


def weights(values: FloatArray, bits: int = 52) -> Scaled:
    """Turn state sizes into whole numbers, together below ``2**bits``: exact as a float; a unit is a power of two.

    Nothing is rounded where `bits` bits suffice. Otherwise everything is rounded down, so that the least whole state
    moved is a lower bound as it stands.
    """
    return scaled(values, bits, rounding="down", decimals=False)


def in_fine_units(
    problem: IntervalMigration | MigrationSequence,
    start: np.ndarray | None,
    answer_to: Callable[[FloatArray, np.ndarray | None], Answer],
) -> Answer:
    """The answer of a method that counts in units of about all the state, exact for answers far smaller than that.

    An answer that moves v proves that nothing heavier than v moves in any better one, so states above v may be capped
    at it: the same assignments are best, the bound holds, and the units become fine beside v.

    Parameters
    ----------
    start : ndarray or None
        A feasible assignment, kept unless a better one is found.
    answer_to : callable
        From state sizes, shape (m,), and the best assignment so far to an answer whose bound holds for these sizes.
        It ends with termination "optimal" when it has proved what its units allow.
    """
    state, best, bound = problem.workload.state, start, 0.0
    value = np.inf if best is None else problem.objective(best)
    while True:
        answer = answer_to(state, best)
        if answer.termination == "infeasible":
            return answer
        found = answer.assignment
        if found is not None and (reached := problem.objective(found)) < value:
            best, value = found, reached
        if bound > value + problem.tolerance_of(value):
            bound = 0.0  # an earlier round proved too much: a solver's word, refuted
        bound = max(bound, answer.bound or 0.0)
        answer.assignment, answer.bound = best, bound
        if best is None or answer.termination != "optimal":
            return answer
        if value - bound <= problem.tolerance_of(value):
            return answer
        less = capped(state, value)
        if float(less.sum()) > 0.75 * float(state.sum()):  # units would hardly shrink
            answer.termination = "gap"
            return answer
        state = less


class TaskLine(NamedTuple):
    """The positions 0..m."""

    starts: IntArray
    """Leftmost start of an interval within the load limit, for every end."""
    left: IntArray
    """Both ends of every position's cell, as `cells` returns them."""
    right: IntArray
    prefix: IntArray
    """Prefix sums of the state."""


class BandLayer(NamedTuple):
    """F0 and F1 on [low, high], indexed from low."""

    f0: IntArray
    f1: IntArray
    low: int
    high: int


class WindowScratch(NamedTuple):
    """Room for the window of earlier cells, shape (4, m + 1), and for the queue within a cell, shape (m + 1,)."""

    front: IntArray
    queue: IntArray


@njit(cache=True, nogil=True)
def cells(cuts: np.ndarray, tasks: int) -> tuple[np.ndarray, np.ndarray]:
    """Left and right end of every position's cell; position m + 1 is a sentinel."""
    left = np.zeros(tasks + 2, np.int64)
    right = np.full(tasks + 2, tasks, np.int64)
    for z in range(cuts.size - 1):
        for x in range(cuts[z] + 1, cuts[z + 1] + 1):
            left[x], right[x] = cuts[z], cuts[z + 1]
    return left, right


@njit(cache=True, nogil=True)
def bands(starts: np.ndarray, intervals: int) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest useful position of every layer 0..intervals; infeasible when low[0] > 0."""
    tasks = starts.size - 1
    low = np.empty(intervals + 1, np.int64)
    high = np.empty(intervals + 1, np.int64)
    low[intervals] = tasks
    for k in range(intervals, 0, -1):
        low[k - 1] = starts[low[k]]
    high[0] = 0
    end = 0
    for k in range(1, intervals + 1):
        while end < tasks and starts[end + 1] <= high[k - 1]:
            end += 1
        high[k] = end
    return low, high


@njit(nogil=True, **LEAF)
def layer(line, before, now, scratch, penalty, in_place):
    """One more interval: `now` from `before`.

    Every interval costs `penalty`. With `in_place` the rows before and now are the same, so that intervals are not
    counted at all: one pass for any number of them.
    """
    starts, left, right, prefix = line
    before0, before1, o, high_before = before
    now0, now1, low, high = now
    front, queue = scratch
    cell = -1
    head = tail = pushed = 0  # monotone queue: largest F1 within the cell
    middle = end = o  # the window of earlier cells: front stack [.., middle), back stack [middle, end)
    back_f = back_g = back_fg = back_p = NEVER
    for x in range(low, high + 1):
        if x == 0:
            now0[0] = now1[0] = 0
            continue
        first, edge = starts[x], left[x]
        v0 = v1 = NEVER
        a = max(first, edge)
        if edge != cell:
            cell, head, tail, pushed = edge, 0, 0, a
        if a < x and a <= high_before:
            v0 = max(v0, before0[a - o])
            v1 = max(v1, before0[a - o] - prefix[a] + prefix[x])
            while pushed < x and pushed <= high_before:
                while tail > head and before1[queue[tail - 1] - o] <= before1[pushed - o]:
                    tail -= 1
                queue[tail] = pushed
                tail += 1
                pushed += 1
            while queue[head] < a:
                head += 1
            v1 = max(v1, before1[queue[head] - o])
        if first > end:
            middle = end = first
            back_f = back_g = back_fg = back_p = NEVER
        while end < edge:  # beyond the band no interval can start, but whole cells lie there
            f = before1[end - o] if end <= high_before else NEVER
            g = prefix[right[end + 1]] - prefix[end] if left[end + 1] == end else 0
            p = before0[end - o] - prefix[end] + prefix[right[end + 1]] if end <= high_before else NEVER
            back_fg = max(max(back_fg, back_f + g), f + g)
            back_f, back_g, back_p = max(back_f, f), max(back_g, g), max(back_p, p)
            end += 1
        if first >= middle and first < end:  # turn the back stack over: suffix aggregates over [first, end)
            f_all = g_all = fg_all = p_all = NEVER
            for i in range(end - 1, first - 1, -1):
                f = before1[i - o] if i <= high_before else NEVER
                g = prefix[right[i + 1]] - prefix[i] if left[i + 1] == i else 0
                fg_all = max(max(fg_all, f + g_all), f + g)
                f_all, g_all = max(f_all, f), max(g_all, g)
                if i <= high_before:
                    p_all = max(p_all, before0[i - o] - prefix[i] + prefix[right[i + 1]])
                front[0, i], front[1, i], front[2, i], front[3, i] = f_all, g_all, fg_all, p_all
            middle = end
            back_f = back_g = back_fg = back_p = NEVER
        if first < end:
            f_all = max(front[0, first], back_f)
            fg_all = max(max(front[2, first], back_fg), front[0, first] + back_g)
            v0 = max(v0, max(fg_all, max(front[3, first], back_p)))
            v1 = max(v1, prefix[x] - prefix[edge] + f_all)
        v0, v1 = v0 - penalty, v1 - penalty
        if x <= high_before and not in_place:  # no interval more
            v0, v1 = max(v0, before0[x - o]), max(v1, before1[x - o])
        v1 = max(v1, v0)
        if x == right[x]:
            v0 = v1
        now0[x - low], now1[x - low] = v0, v1


@njit(nogil=True, **LEAF)
def step_back(line, before, x, taken, value):
    """A start x' of the last interval, and whether its cell's node may be taken, to explain a value; else (-1, -1)."""
    starts, left, right, prefix = line
    before0, before1, o, high = before
    first, edge = starts[x], left[x]
    a = max(first, edge)
    if a < x and a <= high:
        if taken == 0 and before0[a - o] == value:
            return a, 0
        if taken == 1 and before0[a - o] - prefix[a] + prefix[x] == value:
            return a, 0
        if taken == 1:
            for y in range(min(x - 1, high), a - 1, -1):
                if before1[y - o] == value:
                    return y, 1
    largest = 0
    for y in range(edge - 1, first - 1, -1):
        if left[y + 1] == y:
            largest = max(largest, prefix[right[y + 1]] - prefix[y])
        if y > high:
            continue
        if taken == 1 and before1[y - o] + prefix[x] - prefix[edge] == value:
            return y, 1
        if taken == 0 and before1[y - o] + largest == value:
            return y, 1
        if taken == 0 and before0[y - o] - prefix[y] + prefix[right[y + 1]] == value:
            return y, 0
    return -1, -1


@njit(cache=True, nogil=True)
def band_cuts(
    starts: np.ndarray, cuts: np.ndarray, prefix: np.ndarray, intervals: int, trace: bool, stored: int = 4_000_000
) -> tuple[int, np.ndarray]:
    """The largest state kept by at most this many intervals, and cuts that keep it.

    Parameters
    ----------
    starts : int64 array, shape (m + 1,)
        Leftmost start of an interval within the load limit, for every end.
    cuts : int64 array
        The old partition, from 0 to m.
    prefix : int64 array, shape (m + 1,)
        Prefix sums of the state.
    intervals : int
        At most this many, >= 1.
    trace : bool
        False: the value only, with two layers of memory.
    stored : int
        Above this many states the layers are recomputed from checkpoints while the cuts are traced back.

    Returns
    -------
    kept : int
        -1 when no partition is feasible.
    new cuts : int64 array
        Empty unless traced.
    """
    tasks = starts.size - 1
    nothing = np.empty(0, np.int64)
    low, high = bands(starts, intervals)
    if low[0] > 0:
        return -1, nothing
    left, right = cells(cuts, tasks)
    line = TaskLine(starts, left, right, prefix)
    width, states = 1, 0
    for k in range(intervals + 1):
        width = max(width, high[k] - low[k] + 1)
        states += high[k] - low[k] + 1
    block = intervals if trace and states <= stored else int(np.sqrt(intervals)) + 1
    blocks = (intervals + block - 1) // block
    kept0, kept1 = np.empty((blocks, width), np.int64), np.empty((blocks, width), np.int64)
    rows0, rows1 = np.empty((block + 1, width), np.int64), np.empty((block + 1, width), np.int64)
    scratch = WindowScratch(np.empty((4, tasks + 1), np.int64), np.empty(tasks + 1, np.int64))
    rows0[0, 0] = rows1[0, 0] = 0
    base = 0
    for b in range(blocks):
        base = b * block
        kept0[b], kept1[b] = rows0[0], rows1[0]
        last = min(block, intervals - base)
        for r in range(1, last + 1):
            k = base + r
            before = BandLayer(rows0[r - 1], rows1[r - 1], low[k - 1], high[k - 1])
            layer(line, before, BandLayer(rows0[r], rows1[r], low[k], high[k]), scratch, 0, False)
        if b < blocks - 1:
            rows0[0], rows1[0] = rows0[last].copy(), rows1[last].copy()
    value = rows1[intervals - base, tasks - low[intervals]]
    best = value
    if not trace:
        return best, nothing
    found = np.empty(intervals + 1, np.int64)
    count, x, taken, k = 1, tasks, 1, intervals
    found[0] = tasks
    while x > 0:
        if k == base:  # the block before, from its checkpoint
            b = base // block - 1
            base = b * block
            rows0[0], rows1[0] = kept0[b], kept1[b]
            for r in range(1, block + 1):
                at = base + r
                before = BandLayer(rows0[r - 1], rows1[r - 1], low[at - 1], high[at - 1])
                layer(line, before, BandLayer(rows0[r], rows1[r], low[at], high[at]), scratch, 0, False)
        before = BandLayer(rows0[k - base - 1], rows1[k - base - 1], low[k - 1], high[k - 1])
        if x == right[x]:
            taken = 1
        if x <= before.high and (before.f1 if taken else before.f0)[x - before.low] == value:
            k -= 1
            continue
        y, t = step_back(line, before, x, taken, value)
        if y < 0 and taken == 1:
            taken = 0
            y, t = step_back(line, before, x, 0, value)
        x, taken, k = y, t, k - 1
        value = (before.f1 if taken else before.f0)[x - before.low]
        found[count] = x
        count += 1
    return best, found[:count][::-1].copy()


@njit(cache=True, nogil=True)
def penalised(line, penalty, row, scratch):
    """Largest state kept less a penalty for every interval, however many there are, and cuts that attain it.

    O(m) time and memory. `row`, a `BandLayer` on all of [0, m], is scratch, too.
    """
    right, tasks = line.right, row.high
    layer(line, row, row, scratch, penalty, True)
    best = row.f1[tasks]
    found = np.empty(tasks + 1, np.int64)
    found[0] = tasks
    count, x, taken = 1, tasks, 1
    while x > 0:
        if x == right[x]:
            taken = 1
        value = (row.f1[x] if taken else row.f0[x]) + penalty
        y, t = step_back(line, row, x, taken, value)
        if y < 0 and taken == 1:
            y, t = step_back(line, row, x, 0, value)
        x, taken = y, t
        found[count] = x
        count += 1
    return best, found[:count][::-1].copy()
