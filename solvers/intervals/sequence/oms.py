"""The optimal sequence of migrations through known node counts, by one sweep a step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.answer import LimitReached
from keyshift.models.base.guards import Whole
from keyshift.models.intervals import MigrationSequence
from keyshift.models.intervals.partition import cuts_of
from keyshift.models.workload import FloatArray
from keyshift.solvers.intervals import partitions
from keyshift.solvers.intervals.band_kernels import in_fine_units
from keyshift.solvers.intervals.partitions import PartitionClass, Ruler, bytes_of, count_partitions, enumerate_class
from keyshift.solvers.intervals.sequence.restricted import realise, restricted_sequence
from keyshift.solvers.intervals.ssm import sequence_bound
from keyshift.solvers.threads import until_limit

SEEN = 40
"""About so many partitions of the other class does a sweep look at for each partition: most pairs are skipped."""


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
    Where the sweeps take long, `oms-restricted` looks for a start, and where partitions are too many, for the answer.
    """
    counted = {n: count_partitions(problem.starts(n), n, most_partitions) for n in set(problem.counts)}
    sizes = {n: size for n, (size, _) in counted.items()}
    largest = max(sizes.values())
    needed = bytes_of(counted) + 4 * sum(
        sizes[n] for n in problem.counts
    )  # a decision for each partition after each step
    too_many = largest > most_partitions or needed > partitions.MOST_BYTES
    steps = sum(n * sizes[n] * sizes[before] for before, n in pairwise(problem.counts) if n != before)
    if not too_many and steps <= 1_000_000_000:  # of the sweeps, most of which are skipped: about a second
        return _by_sweeps(problem, counted, start, budget)
    # Where partitions are too many, the search goes on until the time is over, if it ever is.
    endless = {"partitions": 2_000, "patience": 1 << 40} if too_many and math.isfinite(budget.remaining) else {}
    ahead = restricted_sequence(problem, budget=budget if too_many else budget.part(0.2), seed=seed, **endless)
    start = better(problem, start, ahead.assignment)
    if start is None or problem.objective(start) <= (ahead.bound or 0.0):
        return Answer(start, ahead.bound, ahead.termination if start is None else "optimal", ahead.message)
    if not too_many:
        return _by_sweeps(problem, counted, start, budget)
    said = f"more than {most_partitions} partitions of one class are too many to enumerate"
    if largest <= most_partitions:
        said = (
            f"sweeps over all partitions would take {needed / 1e9:.1f} GB, more than {partitions.MOST_BYTES / 1e9:.1f}"
        )
    return Answer(start, ahead.bound, budget.why, said)


def better(problem: MigrationSequence, one: np.ndarray | None, other: np.ndarray | None) -> np.ndarray | None:
    """The assignment that moves less state, of two."""
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
        return Answer(start, sequence_bound(problem, budget), budget.why, said)

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
            looked_at = nodes * here.size * min(SEEN, before.size)
            best = until_limit(budget, ruler.sweep, here, before.rows, cost, steps=looked_at)
        except LimitReached:
            said = f"the time limit was reached in step {t} of {len(problem.counts)}"
            return Answer(start, sequence_bound(problem, budget), budget.why, said)
        cost = best.total
        steps.append(_Step(classes[nodes], best.partner))
        budget.report(note=f"step {t + 1} of {len(problem.counts)}")
    at = int(np.argmin(cost))
    bound = ruler.weights.lower(int(cost[at]))
    way = []
    for step in reversed(steps):
        way.append(step.reached.cuts(at))
        at = at if step.before is None else int(step.before[at])
    return Answer(realise(problem, way[::-1], state), bound, "optimal")
