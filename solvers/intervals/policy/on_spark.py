"""The sweeps of policy iteration on a Spark cluster, for classes that would take one machine too long.

A class has independent sweeps, one for each next node count: each becomes one Spark task. The driver
broadcasts the values once a class and round, an executor rebuilds the two classes it needs from a few numbers (enumeration takes
seconds where a sweep takes minutes), and what comes back is the pair's best partners and costs: the same whole numbers
as on one machine, whatever the order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.intervals import MigrationPolicy
from keyshift.solvers.intervals.partitions import Best, PartitionClass, Ruler, enumerate_class
from keyshift.solvers.intervals.policy.mtm import answer_of_iteration
from keyshift.solvers.intervals.policy.policy_iteration import MOST_STATES, TOLERANCE, PolicyIteration, Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class _Job:
    """One sweep, small enough to ship."""

    pair: tuple[int, int]
    starts: tuple[bytes, bytes]
    partners: int
    state: bytes

    def run(self, values: dict[int, Target]) -> tuple[int, Best]:
        source, target = (_class(s, n) for s, n in zip(self.starts, self.pair, strict=True))
        ruler = Ruler(np.frombuffer(self.state), self.partners)
        rows, value = values[self.pair[1]]
        return self.pair[1], ruler.sweep(source, target.rows[rows], value)


@lru_cache(maxsize=4)
def _class(starts: bytes, nodes: int) -> PartitionClass:
    """A class, rebuilt once in an executor's Python worker, which Spark keeps for later tasks."""
    return enumerate_class(np.frombuffer(starts, dtype=np.int64), nodes)


class SparkPolicyIteration(PolicyIteration):
    """Policy iteration whose sweeps run as Spark tasks; values and decisions are those of the local run.

    Parameters
    ----------
    problem : MigrationPolicy
    spark : SparkSession
        Its executors need keyshift and Numba installed.
    """

    def __init__(self, problem: MigrationPolicy, spark: SparkSession) -> None:
        super().__init__(problem)
        self.context: Any = spark.sparkContext
        partners = max(c.size for c in self.classes.values())
        state = problem.workload.state.tobytes()
        starts = {n: problem.starts(n).tobytes() for n in problem.reachable}
        self.jobs = {
            (n, after): _Job((n, after), (starts[n], starts[after]), partners, state) for n, after in self.pairs
        }

    def sweeps(self, n: int, target: dict[int, Target], budget: Budget) -> Iterator[tuple[int, Best]]:
        """The sweeps of a class, one Spark task each; a limit is checked only before them."""
        largest_first = sorted(target, key=lambda after: -self.classes[after].size)
        jobs = [self.jobs[n, after] for after in largest_first if target[after][1].size]
        if not jobs or budget.expired:
            return
        values = self.context.broadcast(target)
        try:
            yield from self.context.parallelize(jobs, len(jobs)).map(lambda job: job.run(values.value)).collect()
        finally:
            values.destroy()


def solve_mtm_on_spark(
    problem: MigrationPolicy,
    spark: SparkSession,
    *,
    budget: Budget | None = None,
    tolerance: float = TOLERANCE,
    most_states: int = MOST_STATES,
) -> Answer:
    """As `keyshift.solvers.intervals.policy.mtm.solve_mtm`, with the sweeps on a cluster.

    Returns
    -------
    Answer
        Hand it to ``Solution.of(problem, "mtm", answer, seconds)`` to have it checked.
    """
    return answer_of_iteration(SparkPolicyIteration(problem, spark), budget or Budget(), tolerance, most_states)
