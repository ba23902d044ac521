"""The optimal sequence of migrations through known node counts, by one sweep a step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.answer import LimitReached
from keyshift.models.compiling import njit
from keyshift.models.guards import Whole
from keyshift.models.intervals import MigrationSequence
from keyshift.models.intervals.partition import cuts_of
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.intervals.metric_bounds import sequence_bound
from keyshift.solvers.intervals.partitions import PartitionClass, Ruler, count_partitions, enumerate_class, fewest_after
from keyshift.solvers.intervals.sequence.restricted import realise, restricted_sequence
from keyshift.solvers.intervals.statement import refusal, solve_milp
from keyshift.solvers.intervals.units import in_fine_units, weights
from keyshift.solvers.threads import until_limit

MOST_CHOICES = 500_000_000
"""Remembered decisions, 4 bytes each: partitions after a step, summed over the steps that change the count."""
LONG = 1_000_000_000
"""Above this many steps of the sweeps, most of which are skipped, a good start is looked for first."""
NEVER_ENOUGH = 1 << 40
"""Rounds: the search goes on until the time is over."""


def solve_oms(
    problem: MigrationSequence,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    most_partitions: Whole = 12_000_000,
) -> Answer:
    """Forward dynamic program over all partitions: exact for any number of steps.

    With C_t(P) the least state moved until P is reached in step t, C_t(P') = min over P of C_(t-1)(P) + c(P, P'): one
    sweep for a step that changes the count; a step that does not stays put, which is optimal because c is a metric.

    Parameters
    ----------
    most_partitions : int
        Above this many partitions of one class none is enumerated.

    Notes
    -----
    Source: [Ding2015], Figure 8, which recurses over all partitions for every step; the sweep is keyshift's.
    Where the sweeps take long, `oms-restricted` looks for a start. Within a time limit, where all partitions are too many
    for it, the mixed-integer program has what is left: `milp` is the better one where steps are many and tasks few.
    """
    counted = {n: count_partitions(problem.starts(n), n) for n in set(problem.counts)}
    sizes = {n: partitions for n, (partitions, _) in counted.items()}
    changing = sum(sizes[n] for n in problem.counts)
    too_many = max(sizes.values()) > most_partitions or changing > MOST_CHOICES
    steps = sum(n * sizes[n] * sizes[before] for before, n in pairwise(problem.counts) if n != before)
    if not too_many and steps <= LONG:
        return _by_sweeps(problem, counted, start, budget)
    ahead = restricted_sequence(problem, budget=budget.part(0.2), seed=seed)
    start = better(problem, start, ahead.assignment)
    if start is None or problem.objective(start) <= (ahead.bound or 0.0):
        return Answer(start, ahead.bound, ahead.termination if start is None else "optimal", ahead.message)
    stated = math.isfinite(budget.remaining) and refusal(problem, budget) is None
    if too_many and not stated and math.isfinite(budget.remaining):
        more = restricted_sequence(problem, budget=budget, seed=seed + 1, partitions=2_000, patience=NEVER_ENOUGH)
        start = better(problem, start, more.assignment)
    said = f"up to {max(sizes.values())} partitions, {changing} over all steps, are too many to enumerate"
    answer = Answer(start, ahead.bound, budget.why, said)
    if not too_many:
        answer = _by_sweeps(problem, counted, start, budget.part(0.5 if stated else 1))
    if answer.termination == "optimal" or not stated:
        return answer
    other = solve_milp(problem, budget=budget, seed=seed, start=answer.assignment)
    other.bound = max(other.bound or 0.0, answer.bound or 0.0)
    other.message = other.message if other.termination == "optimal" else answer.message
    return other


def better(problem: MigrationSequence, one: np.ndarray | None, other: np.ndarray | None) -> np.ndarray | None:
    """The one of two assignments that moves less state."""
    found = [a for a in (one, other) if a is not None]
    return min(found, key=problem.objective) if found else None


def _by_sweeps(
    problem: MigrationSequence, counted: dict[int, tuple[int, int]], start: np.ndarray | None, budget: Budget
) -> Answer:
    """The sweeps over all partitions, in finer and finer units; the start where the budget ends."""
    try:
        classes = {
            n: until_limit(budget, enumerate_class, problem.starts(n), n, nodes, steps=n * size)
            for n, (size, nodes) in counted.items()
        }
    except LimitReached:
        said = "the time limit was reached while partitions were enumerated"
        return Answer(start, sequence_bound(problem), budget.why, said)

    def answer_to(state: FloatArray, best: np.ndarray | None) -> Answer:
        return _forward(problem, classes, state, best, budget)

    answer = in_fine_units(problem, start, answer_to)
    answer.details["partitions"] = sum(c.size for c in classes.values())
    return answer


@dataclass
class _Step:
    """For tracing back: the class reached, and the predecessor of each of its partitions (None: the same)."""

    reached: PartitionClass
    before: np.ndarray | None


def _forward(
    problem: MigrationSequence,
    classes: dict[int, PartitionClass],
    state: FloatArray,
    start: np.ndarray | None,
    budget: Budget,
) -> Answer:
    """The dynamic program for some state sizes; the start where the budget ends."""
    ruler = Ruler(state, max(c.size for c in classes.values()))
    now = cuts_of(problem.workload.current)
    drained = np.diff(ruler.prefix)
    drained[problem.workload.draining[problem.workload.current]] = 0
    first = classes[problem.counts[0]]
    cost = ruler.from_one(now, first, np.concatenate(([0], np.cumsum(drained))))
    steps = [_Step(first, None)]
    for t, nodes in enumerate(problem.counts[1:], start=1):
        if nodes == problem.counts[t - 1]:
            steps.append(_Step(classes[nodes], None))
            continue
        try:
            here, before = classes[nodes], classes[problem.counts[t - 1]]
            best = until_limit(budget, ruler.sweep, here, before.rows, cost, steps=nodes * here.size * before.size)
        except LimitReached:
            said = f"the time limit was reached in step {t} of {len(problem.counts)}"
            return Answer(start, sequence_bound(problem), budget.why, said)
        cost = best.total
        steps.append(_Step(classes[nodes], best.partner))
        budget.report(note=f"step {t + 1} of {len(problem.counts)}")
    at = int(np.argmin(cost))
    bound = ruler.weights.lower(int(cost[at]))
    partitions = []
    for step in reversed(steps):
        partitions.append(step.reached.cuts(at))
        at = at if step.before is None else int(step.before[at])
    return Answer(realise(problem, partitions[::-1], state), bound, "optimal")


# Two changes at once where enumeration is out of reach: polynomial in the number of tasks ----------------------------


MOST_BYTES = 1_500_000_000


def _fewest_before(starts: IntArray) -> IntArray:
    """The least number of intervals that cover the tasks before every position."""
    before = np.zeros(starts.size, dtype=np.int64)
    for x in range(1, starts.size):
        before[x] = before[starts[x]] + 1
    return before


def two_known_steps(
    problem: MigrationSequence, *, budget: Budget, seed: int = 0, start: np.ndarray | None = None
) -> Answer:
    """One pass over the tasks for two real changes of the node count at once: exact, without enumerating partitions.

    Its states before each task are the lengths of the two current intervals, the intervals used beyond the least, and
    how the two pairs of overlapping intervals are matched: about m (25 * lengths^2 * slacks^2) steps. Steps that keep
    the count stay put, which is optimal, and do not count. More than two changes, or too many states, end in
    the start with the bound of `sequence_bound`.

    Notes
    -----
    keyshift's own; the problem is that of [Ding2015], section 5.1.
    """
    changes = [t for t, n in enumerate(problem.counts) if t == 0 or n != problem.counts[t - 1]]
    if len(changes) > 2:
        said = f"{len(changes)} changes of the node count are more than the two it looks through"
        return Answer(start, sequence_bound(problem), "completed", said)
    counts = [problem.counts[t] for t in changes] * 2
    starts = [problem.starts(n) for n in counts[:2]]
    before = [_fewest_before(s) for s in starts]
    after = [np.array(fewest_after(s), dtype=np.int64) for s in starts]
    lengths = [int((np.arange(s.size) - s).max()) for s in starts]
    slacks = [max(0, n - int(b[-1])) + 1 for n, b in zip(counts[:2], before, strict=True)]
    shape = np.array([lengths[0], slacks[0], lengths[1], slacks[1]], dtype=np.int64)
    m = problem.workload.key_groups
    if (size := int(shape.prod()) * 25 * m * 4) > MOST_BYTES:
        said = f"{size // 25 // 4} profiles take {size / 1e9:.1f} GB, more than {MOST_BYTES / 1e9:.1f}"
        return Answer(start, sequence_bound(problem), "completed", said)
    step = problem.first_step(counts[0])
    old = np.zeros(m + 1, dtype=bool)
    old[step.old_cuts] = True
    drained = problem.workload.draining[problem.workload.current]

    def answer_to(sizes: FloatArray, best: np.ndarray | None) -> Answer:
        state = weights(sizes)  # one unit for both steps
        try:
            gain, cuts = until_limit(
                budget, two_steps, np.where(drained, 0, state.values), state.values, old,
                starts[0], before[0], after[0], min(counts[0], m), starts[1], before[1], after[1], min(counts[1], m),
                shape,
            )  # fmt: skip
        except LimitReached:
            return Answer(best, sequence_bound(problem), budget.why, "the time limit was reached before the last task")
        if gain < 0:
            return Answer(None, termination="infeasible", message="no partition keeps every node within its load limit")
        found = [np.flatnonzero(row).astype(np.int64) for row in cuts]
        partitions = [found[sum(t > 0 and t <= i for t in changes)] for i in range(len(problem.counts))]
        return Answer(realise(problem, partitions, sizes), state.lower(2 * state.total - int(gain)), "optimal")

    answer = in_fine_units(problem, start, answer_to)
    answer.details["profiles"] = int(shape.prod()) * 25
    return answer


# Two migrations at once, task by task: what the future needs to know of two unfinished partitions.
#
# Before task x the state is: for each of the two new partitions, how long its current interval is and how many intervals
# beyond the least were used before it; and for each of the pairs (old, first) and (first, second) how their current
# intervals stand: 0 both free, 1 the left one taken, 2 the right one taken, 3 both taken elsewhere, 4 matched.

NEVER = -(1 << 60)
MATCHED = 4


@njit(cache=True, nogil=True, inline="always")
def _after_cuts(pair: int, left: bool, right: bool) -> int:
    """How a pair stands after its left or right interval ends and another begins."""
    if not left and not right:
        return pair
    bits = 3 if pair == MATCHED else pair
    if left:
        bits &= 2
    if right:
        bits &= 1
    return bits


@njit(cache=True, nogil=True)
def two_steps(  # noqa: C901  # a compiled loop is one function
    kept: np.ndarray, state: np.ndarray, old_cut: np.ndarray,
    starts1: np.ndarray, before1: np.ndarray, after1: np.ndarray, most1: int,
    starts2: np.ndarray, before2: np.ndarray, after2: np.ndarray, most2: int,
    shape: np.ndarray,
) -> tuple[int, np.ndarray]:  # fmt: skip
    """Largest state kept in two steps together, and which positions the two partitions cut.

    Parameters
    ----------
    kept, state : int64 arrays, shape (m,)
        Weights for the first and for the second step.
    old_cut : bool array, shape (m + 1,)
    starts, before, after : int64 arrays, shape (m + 1,)
        Of each partition: leftmost start for every end; fewest intervals before and after every position.
    most1, most2 : int
        Intervals allowed.
    shape : int64 array (4,)
        Lengths and slacks: longest intervals and largest numbers of intervals beyond the least, plus one.

    Returns
    -------
    gain : int
        Negative when infeasible.
    cuts : bool array, shape (2, m + 1)
    """
    tasks = kept.size
    d1_size, e1_size, d2_size, e2_size = shape
    size = d1_size * e1_size * d2_size * e2_size * 25
    value = np.full(size, NEVER, np.int64)
    parent = np.full((tasks, size), -1, np.int32)
    cuts = np.zeros((2, tasks + 1), np.bool_)
    for pair01 in (0, MATCHED):
        for pair12 in (0, MATCHED):
            i = pair01 * 5 + pair12  # lengths 1, slacks 0
            value[i] = kept[0] * (pair01 == MATCHED) + state[0] * (pair12 == MATCHED)
    for x in range(1, tasks):
        now = np.full(size, NEVER, np.int64)
        for i in range(size):
            if value[i] < 0:
                continue
            pair12, rest = i % 5, i // 5
            pair01, rest = rest % 5, rest // 5
            e2, rest = rest % e2_size, rest // e2_size
            d2, rest = rest % d2_size, rest // d2_size
            e1, d1 = rest % e1_size, rest // e1_size
            for cut1 in range(2):
                f1, g1 = d1 + 1, e1
                if cut1:
                    f1, g1 = 0, e1 + before1[x - d1 - 1] + 1 - before1[x]
                    if g1 > most1 - before1[x] - after1[x]:
                        continue
                if starts1[x + 1] > x - f1:
                    continue
                for cut2 in range(2):
                    f2, g2 = d2 + 1, e2
                    if cut2:
                        f2, g2 = 0, e2 + before2[x - d2 - 1] + 1 - before2[x]
                        if g2 > most2 - before2[x] - after2[x]:
                            continue
                    if starts2[x + 1] > x - f2:
                        continue
                    h01 = _after_cuts(pair01, old_cut[x], cut1 == 1)
                    h12 = _after_cuts(pair12, cut1 == 1, cut2 == 1)
                    for m01 in range(2 if h01 == 0 and (old_cut[x] or cut1) else 1):
                        p01 = MATCHED if m01 else h01
                        for m12 in range(2 if h12 == 0 and (cut1 or cut2) else 1):
                            p12 = MATCHED if m12 else h12
                            v = value[i] + kept[x] * (p01 == MATCHED) + state[x] * (p12 == MATCHED)
                            j = ((((f1 * e1_size + g1) * d2_size + f2) * e2_size + g2) * 5 + p01) * 5 + p12
                            if v > now[j]:
                                now[j] = v
                                parent[x, j] = i
        value = now
    i = int(np.argmax(value))
    gain = value[i]
    if gain < 0:
        return gain, cuts
    for x in range(tasks - 1, 0, -1):
        rest = i // (25 * e2_size)
        cuts[1, x] = rest % d2_size == 0
        cuts[0, x] = rest // (d2_size * e1_size) == 0
        i = parent[x, i]
    cuts[:, 0] = True
    cuts[:, tasks] = True
    return gain, cuts
