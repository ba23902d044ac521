"""What Spark's own store says of the stages that a block ran: their tasks, how evenly these were filled, and reads of files."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Stages:
    """`scanned`: rows that scans of files gave; `fill`: for each stage that read a shuffle, the rows of each task."""

    scanned: int = 0
    fill: list[list[int]] = field(default_factory=list)

    @property
    def skew(self) -> float:
        """The largest task of a stage in means of its tasks, at worst; of stages with some rows a task."""
        return max(
            (max(rows) * len(rows) / sum(rows) for rows in self.fill if sum(rows) >= 50 * len(rows)), default=1.0
        )

    @property
    def alone(self) -> list[int]:
        """Rows of stages of one task, but for those that add up one row a task."""
        return [rows[0] for rows in self.fill if len(rows) == 1 and rows[0] > 64]


@contextmanager
def stages_of(spark: Any, column: str = "") -> Iterator[Stages]:
    """Collect what the block runs; of the scans those that read a column of this name."""
    context = spark.sparkContext
    store = context._jsc.sc().statusStore()
    plans = spark._jsparkSession.sharedState().statusStore()
    jobs, executions = _last(store), plans.executionsCount()
    found = Stages()
    yield found
    context._jsc.sc().listenerBus().waitUntilEmpty()
    time.sleep(0.1)
    for number in range(jobs + 1, _last(store) + 1):
        try:
            stage = store.lastStageAttempt(number)
        except Exception:
            continue  # skipped: its output was there already
        if str(stage.status()) != "COMPLETE" or stage.shuffleReadRecords() == 0:
            continue
        tasks = store.taskList(number, stage.attemptId(), 10_000)
        metrics = [tasks.apply(i).taskMetrics().get() for i in range(tasks.size())]
        found.fill.append([int(m.shuffleReadMetrics().recordsRead()) for m in metrics])
    listed = plans.executionsList(executions, 10_000)
    for i in range(listed.size()):
        number = listed.apply(i).executionId()
        values, nodes, seen = plans.executionMetrics(number), plans.planGraph(number).allNodes(), set()
        for k in range(nodes.size()):
            name, about = nodes.apply(k).name(), nodes.apply(k).desc()
            if not name.startswith("Scan ") or name.endswith("ExistingRDD") or f"{column}#" not in about:
                continue
            metrics = nodes.apply(k).metrics()
            for j in range(metrics.size()):
                metric = metrics.apply(j)
                if metric.name() == "number of output rows" and metric.accumulatorId() not in seen:
                    seen.add(metric.accumulatorId())
                    value = values.get(metric.accumulatorId())
                    found.scanned += int(re.sub(r"\D", "", value.get())) if value.isDefined() else 0


def _last(store: Any) -> int:
    listed = store.stageList(None, False, False, _doubles(store), None)
    return max((listed.apply(i).stageId() for i in range(listed.size())), default=-1)


def _doubles(store: Any) -> Any:
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    return gateway.new_array(gateway.jvm.double, 0)
