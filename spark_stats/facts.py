"""One pass over the log: one scan, one shuffle, and the facts from which every statistic follows.

Load, state and traffic are all counts of the same tuples by different keys. Spark reads the log, evaluates the topology's
expressions and hashes the keys; of each tuple it then makes a row for its arrival, its refusal, each operator that takes it and
each edge that it passes (``UNPIVOT``), and adds these up. Sums are of whole numbers and exact.

========================  ==================================================================================
code                      meaning of a row (window, code, refused_1, ..., tuples, sum_0, sum_1, ...)
========================  ==================================================================================
``ARRIVED``               rows that have a window
below                     rows refused; ``REFUSED`` - code is the number that says why; refused_1, ...: the further
                          numbers, where there are more than `acceptance.PER_NUMBER` operators
kind, a, b, as one        kind 0 .. operators - 1: tuples that pass the operator; a = key group; sums: its cost and its
number                    state. Kind operators + e: tuples that pass both ends of edge e; a, b = key groups; sums: the
                          bytes
========================  ==================================================================================

One number for three halves what Spark has to compare and to sort where nearly every tuple has key groups of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keyshift.models.base.lazily import pd
from keyshift.models.errors import InputError
from keyshift.spark_stats.acceptance import LATE, NOWHERE, OUTSIDE, Measures, Tuples, code_columns, quoted
from keyshift.spark_stats.topology import Topology

ARRIVED, REFUSED, BITS = -1, OUTSIDE - 2, 20
"""Codes; and the bits of a key group in a code, as many as `KeyGroups` allows. Above two of these stands the kind."""


@dataclass(frozen=True)
class Facts:
    """The counts of a whole log, added up; and which columns are added up for which operator and edge."""

    frame: DataFrame
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
        return ["window", "code", *self.codes[1:]]

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

    @property
    def unpacked(self) -> DataFrame:
        """The same with the columns kind, a and b; the kind is below zero for arrivals and refusals."""
        code, group = F.col("code"), F.lit(2**BITS - 1)
        ends = {"a": F.shiftright(code, BITS).bitwiseAND(group), "b": code.bitwiseAND(group)}
        columns = {name: end.cast("int") for name, end in ends.items()}
        return self.frame.withColumns({"kind": F.shiftright(code, 2 * BITS), **columns})

    def arrivals_and_refusals(self) -> dict[str, NDArray[np.int64]]:
        """Arrivals and refusals, window by window, in the driver: the columns up to the tuples."""
        table = self.frame.where("code < 0").select(*self.keys, "tuples").toArrow()
        return {name: table[name].to_numpy() for name in table.column_names}

    def of(self, rows: DataFrame) -> Facts:
        """Facts of other rows, which are added up where their keys are the same."""
        sums = (added_up(name) for name in self.added[1:])
        return replace(self, frame=rows.groupBy(*self.keys).agg(F.sum("tuples").alias("tuples"), *sums))

    def unpivoted(self) -> DataFrame:
        """A row for each count that a tuple adds to."""
        first, *further = self.codes
        number = F.col(first)
        codes = {ARRIVED: F.when(~number.isin(*NOWHERE, LATE), F.lit(ARRIVED))}
        codes[REFUSED] = F.when(reduce(or_, (F.col(name) != 0 for name in self.codes)), F.lit(REFUSED) - number)
        operators = len(self.topology.operators)
        sides = [*((o,) for o in range(operators)), *self.topology.ends]
        for kind, ends in enumerate(sides):
            a, b = (F.col(f"group_{o}").cast("bigint") for o in (ends[0], ends[-1]))
            code = F.lit(kind << 2 * BITS) + F.shiftleft(a, BITS)
            codes[kind] = F.when((a >= 0) & (b >= 0), code if kind < operators else code + b)
        coded = {"none": F.lit(0).cast("bigint"), **{f"code {kind}": code for kind, code in codes.items()}}
        added: dict[int, Sequence[str]] = {ARRIVED: (), REFUSED: (), **dict(enumerate(self.sums))}
        width, none = len(self.added) - 1, ["none"] * len([*self.added, *further])
        rows = (
            [f"code {kind}", *(further if kind == REFUSED else none[: len(further)]), *own, *none[: width - len(own)]]
            for kind, own in added.items()
        )
        listed = ", ".join(f"({', '.join(map(quoted, row))})" for row in rows)
        values = ", ".join([*self.keys[1:], *self.added[1:]])
        query = (
            f"select {', '.join(self.keys)}, {', '.join(['1L as tuples', *self.added[1:]])} from {{frame}} "
            f"unpivot (({values}) for side in ({listed})) where code is not null"
        )
        return self.frame.sparkSession.sql(query, frame=self.frame.withColumns(coded))


def gather(tuples: Tuples, topology: Topology) -> Facts:
    """Aggregate the tuples into facts."""
    facts = Facts(tuples.frame, topology, tuples.measures)
    return facts.of(facts.unpivoted())


TOO_LARGE = "the sum of a cost, state or bytes does not fit in 64 bits"


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
    return table.toPandas()


def choose(number: Column, values: Mapping[int, Column]) -> Column:
    """Return a value that depends on a number; null where it has none."""
    chosen = F.lit(None)
    for i, value in values.items():
        chosen = F.when(number == i, value).otherwise(chosen)
    return chosen
