"""A study as a Spark job: every task of the job is one solve, on whatever master the session has."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from keyshift.studies.guarded import Guard, GuardedPool
from keyshift.studies.tasks import Row, SolveTask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS = 8
"""Solves for each of the cluster's cores in one job. Rows are written between jobs: a killed study loses at most these."""
_POOLS: dict[Guard, GuardedPool] = {}
"""On a worker: the process that solves, kept from task to task, so that libraries load once."""


def run_on_spark(tasks: Iterable[SolveTask], spark: SparkSession, guard: Guard) -> Iterator[tuple[SolveTask, Row]]:
    """Run tasks on a cluster, and hand their rows over job by job.

    Parameters
    ----------
    tasks : iterable of SolveTask
    spark : SparkSession
        Its workers' Python must have keyshift.
    guard : Guard
        Held on the workers, where a solve runs on a process of its own, too.
    """
    context = spark.sparkContext
    waiting = iter(tasks)
    while batch := list(itertools.islice(waiting, ROUNDS * context.defaultParallelism)):
        rows = context.parallelize(batch, len(batch)).map(_Solve(guard)).collect()
        yield from zip(batch, rows, strict=True)


class _Solve:
    """The run of a task on a worker."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard

    def __call__(self, task: SolveTask) -> Row:
        if self.guard not in _POOLS:
            _POOLS[self.guard] = GuardedPool(1, self.guard)
        ((_, row),) = _POOLS[self.guard].run([task])
        return row
