"""The sweeps of policy iteration on a Spark cluster, for classes that would take one machine too long.

A round is a set of independent sweeps, one for each pair of node counts: each becomes one Spark task. The driver
broadcasts the values once a round, an executor rebuilds the two classes it needs from a few numbers (enumeration takes
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
from keyshift.models.workload import IntArray
from keyshift.solvers.intervals.partitions import Best, PartitionClass, Ruler, enumerate_class
from keyshift.solvers.intervals.policy.mtm import answer_of_iteration
from keyshift.solvers.intervals.policy.policy_iteration import MOST_STATES, TOLERANCE, PolicyIteration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class _Job:
    """One sweep, small enough to ship."""

    pair: tuple[int, int]
    starts: tuple[bytes, bytes]
    partners: int
    state: bytes

    def run(self, values: dict[int, IntArray]) -> tuple[tuple[int, int], Best]:
        source, target = (_class(s, n) for s, n in zip(self.starts, self.pair, strict=True))
        ruler = Ruler(np.frombuffer(self.state), self.partners)
        return self.pair, ruler.sweep(source, target.rows, values[self.pair[1]])


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
        largest_first = sorted(self.pairs, key=lambda p: -self.classes[p[0]].size * self.classes[p[1]].size)
        self.jobs = [_Job((n, after), (starts[n], starts[after]), partners, state) for n, after in largest_first]

    def sweeps(self, target: dict[int, IntArray], budget: Budget) -> Iterator[tuple[tuple[int, int], Best]]:
        """The sweeps of one round, one Spark task each; a limit is checked only before the round."""
        if not self.jobs or budget.expired:
            return
        values = self.context.broadcast(target)
        try:
            tasks = self.context.parallelize(self.jobs, len(self.jobs))
            found = dict(tasks.map(lambda job: job.run(values.value)).collect())
        finally:
            values.destroy()
        for pair in self.pairs:  # the local order of additions, so that rounding is the same
            yield pair, found[pair]


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
