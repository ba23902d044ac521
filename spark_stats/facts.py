"""One pass over the log: one scan, one shuffle, and the facts from which every statistic follows.

Load, state and traffic are all counts of the same tuples by different keys. Spark reads the log, evaluates the topology's
expressions and hashes the keys; of each tuple it then makes a row for its arrival, its refusal, each operator that takes it and
each edge that it passes (``UNPIVOT``), and adds these up. Sums are of whole numbers and exact.

========================  ==================================================================================
kind                      meaning of a row (window, kind, a, b, refused_1, ..., tuples, sum_0, sum_1, ...)
========================  ==================================================================================
``ARRIVED``               rows that have a window; a = b = 0
``REFUSED``               rows refused; a = the number that says why; b = 1 where the row has no window; refused_1,
                          ...: the further numbers, where there are more than `acceptance.PER_NUMBER` operators
0 .. operators - 1        tuples that pass the operator; a = key group; sums: its cost and its state
operators + e             tuples that pass both ends of edge e; a, b = key groups; sums: the bytes
========================  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keyshift.models.errors import InputError
from keyshift.spark_stats.acceptance import LATE, NOWHERE, Measures, Tuples, code_columns, quoted
from keyshift.spark_stats.topology import Topology

if TYPE_CHECKING:
    import pandas as pd

ARRIVED, REFUSED = -2, -1


@dataclass(frozen=True)
class TallyPlan:
    """Which columns are added up for which operator and edge."""

    topology: Topology
    measures: Measures

    @property
    def sums(self) -> list[tuple[str, ...]]:
        """The columns that are added up for each operator, then for each edge."""
        of, operators = self.measures, range(len(self.topology.operators))
        of_operators = [tuple(dict.fromkeys((*of[o, "cost"], *of[o, "state"]))) for o in operators]
        return [*of_operators, *(of.get((source, "bytes"), ()) for source, _ in self.topology.numbered_edges)]

    @property
    def codes(self) -> list[str]:
        """The columns that say why a tuple is refused."""
        return code_columns(len(self.topology.operators))

    @property
    def keys(self) -> list[str]:
        """The columns by which rows are added up."""
        return ["window", "kind", "a", "b", *self.codes[1:]]

    @property
    def added(self) -> list[str]:
        """The columns that are added up."""
        return ["tuples", *(f"sum_{i}" for i in range(max(map(len, self.sums))))]

    @property
    def schema(self) -> str:
        """All columns, for Spark."""
        return ", ".join(f"{name} bigint" for name in (*self.keys, *self.added))

    def limbs(self, operator: int, name: str) -> list[str]:
        """The sums that hold a measure, or the tuples where each counts 1."""
        known = self.sums[operator] if name != "bytes" else self.measures[operator, name]
        return [f"sum_{known.index(column)}" for column in self.measures[operator, name]] or ["tuples"]


@dataclass(frozen=True)
class Facts:
    """The counts of the whole log, added up."""

    frame: DataFrame
    plan: TallyPlan

    def arrivals_and_refusals(self) -> dict[str, NDArray[np.int64]]:
        """Arrivals and refusals, window by window, in the driver: the columns up to the tuples."""
        table = self.frame.where(F.col("kind") < 0).select(*self.plan.keys, "tuples").toArrow()
        return {name: table[name].to_numpy() for name in table.column_names}


def gather(tuples: Tuples, topology: Topology) -> Facts:
    """Aggregate the tuples into facts."""
    plan = TallyPlan(topology, tuples.measures)
    return Facts(merged(_rows(tuples.frame, plan), plan), plan)


def _rows(frame: DataFrame, plan: TallyPlan) -> DataFrame:
    """A row for each count that a tuple adds to."""
    first, *further = plan.codes
    nowhere = F.col(first).isin(*NOWHERE)
    groups = [name for name in frame.columns if name.startswith("group_")]
    columns = {
        "none": F.lit(0), "one": F.lit(1), "nowhere": nowhere.cast("int"),
        "arrived": F.when(~nowhere & (F.col(first) != LATE), 0),
        first: F.when(reduce(or_, (F.col(code) != 0 for code in plan.codes)), F.col(first)),
        **{name: F.when(F.col(name) >= 0, F.col(name)) for name in groups},
    }  # fmt: skip
    frame = frame.withColumns({name: column.cast("bigint") for name, column in columns.items()})
    nothing = ["none"] * len(further)
    sides = [*([f"group_{o}", "none"] for o in range(len(plan.topology.operators)))]
    sides += [[f"group_{o}" for o in ends] for ends in plan.topology.ends]
    rows = {ARRIVED: ["arrived", "none", *nothing, "one"], REFUSED: [first, "nowhere", *further, "one"]}
    rows |= {kind: [*ends, *nothing, "one", *plan.sums[kind]] for kind, ends in enumerate(sides)}
    columns_of = [*plan.keys[2:], *plan.added]
    listed = (
        f"({', '.join(map(quoted, [*row, *['none'] * (len(columns_of) - len(row))]))}) as `{kind}`"
        for kind, row in rows.items()
    )
    values = ", ".join(columns_of)
    query = (
        f"select window, cast(kind as bigint) as kind, {values} from {{frame}} "
        f"unpivot (({values}) for kind in ({', '.join(listed)})) where a is not null and b is not null"
    )
    return frame.sparkSession.sql(query, frame=frame)


TOO_LARGE = "the sum of a cost, state or bytes does not fit in 64 bits"


def merged(rows: DataFrame, plan: TallyPlan) -> DataFrame:
    """Add up rows of the same keys."""
    tuples, *sums = plan.added
    return rows.groupBy(*plan.keys).agg(F.sum(tuples).alias(tuples), *map(added_up, sums))


def added_up(name: str) -> Column:
    """The sum of a column of whole numbers; one that leaves 64 bits stops the job, whatever the session does on overflow."""
    return F.coalesce(F.try_sum(name), F.raise_error(TOO_LARGE).cast("bigint")).alias(name)


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
