"""Short sequences of migrations where enumeration is out of reach: polynomial in the number of tasks."""

from __future__ import annotations

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.answer import LimitReached
from keyshift.models.intervals import MigrationSequence
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.intervals.metric_bounds import sequence_bound
from keyshift.solvers.intervals.partitions.enumeration import fewest_after
from keyshift.solvers.intervals.sequence.step_by_step import realise
from keyshift.solvers.intervals.sequence.two_changes_kernels import two_steps
from keyshift.solvers.intervals.units import in_fine_units, weights
from keyshift.solvers.threads import until_limit

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
