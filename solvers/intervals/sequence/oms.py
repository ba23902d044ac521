"""The optimal sequence of migrations through known node counts, by one sweep a step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.answer import LimitReached
from keyshift.models.intervals import MigrationSequence
from keyshift.models.intervals.partition import cuts_of
from keyshift.models.ranges import Whole
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.intervals.fine_units import in_fine_units
from keyshift.solvers.intervals.metric_bounds import sequence_bound
from keyshift.solvers.intervals.owners import Owners
from keyshift.solvers.intervals.partitions.best_partners import Ruler
from keyshift.solvers.intervals.partitions.enumeration import PartitionClass, count_partitions, enumerate_class
from keyshift.solvers.intervals.state_sizes import weights
from keyshift.solvers.intervals.step.band_kernels import band_cuts
from keyshift.solvers.intervals.step.ssm import keepable
from keyshift.solvers.threads import until_limit


@dataclass(frozen=True)
class SequenceSettings:
    """What "oms" takes on.

    Attributes
    ----------
    most_partitions : int
        Partitions of one class at most.
    most_choices : int
        Remembered decisions, 4 bytes each: partitions after a step, summed over the steps that change the count.
    """

    most_partitions: int = 12_000_000
    most_choices: int = 500_000_000


DEFAULTS = SequenceSettings()
"""The settings of every run that is not handed others."""


def starts_of(problem: MigrationSequence, nodes: int) -> IntArray:
    """Leftmost start of an interval within the limit for this many nodes, for every end."""
    return problem.prefix.starts(problem.limit(nodes))


def realise(problem: MigrationSequence, partitions: list[IntArray], state: FloatArray | None = None) -> np.ndarray:
    """The assignment after each step when the steps lead through these partitions, each labelled for least movement.

    `state` replaces the workload's sizes where these are capped.
    """
    w = problem.workload
    state = w.state if state is None else state
    owners = Owners(w.current, np.flatnonzero(w.kept).tolist(), w.nodes)
    prefix = keepable(problem.first_step(), state).prefix
    rows = []
    for cuts, nodes in zip(partitions, problem.counts, strict=True):
        rows.append(owners.migrate(cuts, nodes, prefix))
        prefix = weights(state).prefix
    return np.stack(rows)


def repeated_ssm(problem: MigrationSequence, *, budget: Budget, seed: int = 0) -> Answer:
    """Optimal single-step migration at every step, blind to what follows. No guarantee; the bound is `sequence_bound`."""
    cuts, w = cuts_of(problem.workload.current), problem.workload
    prefix = keepable(problem.first_step()).prefix
    found = []
    for nodes in problem.counts:
        intervals = min(nodes, w.key_groups)
        _, cuts = band_cuts(starts_of(problem, nodes), cuts, prefix, intervals, True)
        prefix = weights(w.state).prefix
        found.append(cuts)
    return Answer(realise(problem, found), sequence_bound(problem))


@dataclass
class _Step:
    """What the way back needs: the class reached, and for each of its partitions the one before (None: the same)."""

    reached: PartitionClass
    before: np.ndarray | None


def solve_oms(
    problem: MigrationSequence,
    *,
    budget: Budget,
    seed: int = 0,
    start: np.ndarray | None = None,
    most_partitions: Whole = DEFAULTS.most_partitions,
) -> Answer:
    """Forward dynamic program over all partitions: exact for any number of steps.

    With C_t(P) the least state moved until P is reached in step t, C_t(P') = min over P of C_(t-1)(P) + c(P, P'): one
    sweep for a step that changes the count; a step that does not stays put, which is optimal because c is a metric.

    Parameters
    ----------
    most_partitions : int
        Above this many partitions of one class, return the start with the bound of `sequence_bound`.

    Notes
    -----
    Source: [Ding2015], Figure 8, which recurses over all partitions for every step; the sweep is keyshift's.
    A time limit is heard while classes are enumerated, and in every sweep.
    """
    starts = {n: starts_of(problem, n) for n in set(problem.counts)}
    counted = {n: count_partitions(starts[n], n) for n in starts}
    sizes = {n: partitions for n, (partitions, _) in counted.items()}
    changing = sum(sizes[n] for n in problem.counts)
    if max(sizes.values()) > most_partitions or changing > DEFAULTS.most_choices:
        said = f"up to {max(sizes.values())} partitions, {changing} over all steps, are too many to enumerate"
        return Answer(start, sequence_bound(problem), "completed", said)
    try:
        classes = {
            n: until_limit(budget, enumerate_class, starts[n], n, counted[n][1], steps=n * size)
            for n, size in sizes.items()
        }
    except LimitReached:
        return Answer(
            start, sequence_bound(problem), budget.why, "the time limit was reached while partitions were enumerated"
        )

    def answer_to(state: FloatArray, best: np.ndarray | None) -> Answer:
        return _forward(problem, classes, state, best, budget)

    answer = in_fine_units(problem, start, answer_to)
    answer.details["partitions"] = sum(sizes.values())
    return answer


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
