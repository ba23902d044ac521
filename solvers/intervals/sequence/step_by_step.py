"""A known sequence step by step, blind to what follows; and the assignments of any sequence of partitions."""

from __future__ import annotations

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.intervals import MigrationSequence
from keyshift.models.intervals.partition import cuts_of
from keyshift.models.workload import FloatArray, IntArray
from keyshift.solvers.intervals.metric_bounds import sequence_bound
from keyshift.solvers.intervals.owners import Owners
from keyshift.solvers.intervals.step.band_kernels import band_cuts
from keyshift.solvers.intervals.step.ssm import keepable
from keyshift.solvers.intervals.units import weights


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
        _, cuts = band_cuts(problem.starts(nodes), cuts, prefix, intervals, True)
        prefix = weights(w.state).prefix
        found.append(cuts)
    return Answer(realise(problem, found), sequence_bound(problem))
