"""One pass over the log: one scan, one shuffle, and the facts from which every statistic follows.

Load, state and traffic are all counts of the same tuples by different keys. Spark reads the log, evaluates the
topology's expressions and hashes the keys; each task then tallies its tuples for all operators and edges at once in
NumPy (`keyshift.spark_stats.tallies`), and Spark adds up what the tasks have counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from keyshift.models.errors import InputError
from keyshift.spark_stats import tallies
from keyshift.spark_stats.acceptance import Measures, Tuples
from keyshift.spark_stats.session import workers_python
from keyshift.spark_stats.tallies import TallyPlan
from keyshift.spark_stats.topology import Topology

if TYPE_CHECKING:
    import pandas as pd

# Executors need NumPy and PyArrow, not keyshift: the functions travel with the job.
cloudpickle.register_pickle_by_value(tallies)


@dataclass(frozen=True)
class Facts:
    """Tallies of the whole log, added up: see `keyshift.spark_stats.tallies`."""

    frame: DataFrame
    measures: Measures
    plan: TallyPlan

    def arrivals_and_refusals(self) -> dict[str, NDArray[np.int64]]:
        """Arrivals and refusals, window by window, in the driver: the columns of a tally up to the tuples."""
        table = self.frame.where(F.col("kind") < 0).select(*self.plan.keys, "tuples").toArrow()
        return {name: table[name].to_numpy() for name in table.column_names}

    def limbs(self, operator: int, name: str) -> range:
        """Which of the sums hold a measure; none where every tuple counts 1."""
        first = len(self.measures[operator, "cost"]) if name == "state" else 0
        return range(first, first + len(self.measures[operator, name]))

    def sums(self, operator: int, name: str) -> list[str]:
        """The columns of these sums, or that of the tuples."""
        return [f"sum_{i}" for i in self.limbs(operator, name)] or ["tuples"]


def plan_of(topology: Topology, tuples: Tuples) -> TallyPlan:
    """Say which columns are added up for which operator and edge."""
    measures = tuples.measures
    operators = range(len(topology.operators))
    of_operators = [(*measures[o, "cost"], *measures[o, "state"]) for o in operators]
    of_edges = [measures.get((source, "bytes"), ()) for source, _ in topology.numbered_edges]
    return TallyPlan(len(topology.operators), topology.ends, (*of_operators, *of_edges), len(topology.senders))


def gather(tuples: Tuples, topology: Topology) -> Facts:
    """Aggregate the tuples into facts."""
    plan = plan_of(topology, tuples)
    tallied = in_arrow(tuples.frame, partial(tallies.count, plan=plan), schema_of(plan))
    return Facts(merged(tallied, plan), tuples.measures, plan)


def schema_of(plan: TallyPlan) -> str:
    """The columns of a tally, for Spark."""
    return ", ".join(f"{name} bigint" for name in plan.columns)


TOO_LARGE = "the sum of a cost, state or bytes does not fit in 64 bits"


def merged(tallied: DataFrame, plan: TallyPlan) -> DataFrame:
    """Add up the rows of all tasks.

    Each task has added up its own, so that the rows go to their places first, and are added up once.
    """
    added = plan.columns[len(plan.keys) :]
    return tallied.repartition(*plan.keys).groupBy(*plan.keys).agg(*map(added_up, added))


def added_up(name: str) -> Column:
    """The sum of a column of whole numbers; one that leaves 64 bits stops the job, whatever the session does on overflow."""
    return F.coalesce(F.try_sum(name), F.raise_error(TOO_LARGE).cast("bigint")).alias(name)


def in_arrow(frame: DataFrame, function: Any, schema: str | StructType) -> DataFrame:
    """Run a function over the Arrow batches of each task, in a Python on the workers that can."""
    with workers_python(frame.sparkSession):
        return frame.mapInArrow(partial(tallies.settled, function=function), schema)


TOO_MANY = "more than max_rows = {most} rows would come to the driver"


def rows_of(
    table: DataFrame, most: int, refusal: str = f"{TOO_MANY}: raise it, or ask for less", *, at_most: float = np.inf
) -> pd.DataFrame:
    """Bring a table to the driver, unless it has more than so many rows; it is known to have `at_most` so many.

    What tables are made of is kept by Spark, so that counting them does not read the log.
    """
    if at_most > most and table.count() > most:
        raise InputError(refusal.format(most=most))
    rows: pd.DataFrame = table.toPandas()
    return rows


def choose(number: Column, values: Mapping[int, Column]) -> Column:
    """Return a value that depends on a number; null where it has none."""
    chosen = F.lit(None)
    for i, value in values.items():
        chosen = F.when(number == i, value).otherwise(chosen)
    return chosen
