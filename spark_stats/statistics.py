"""Load, state and traffic of every window, as Spark DataFrames, from the facts of one pass."""

from __future__ import annotations

from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

from keyshift.models.errors import InputError
from keyshift.spark_stats import exact_sums, to_workload
from keyshift.spark_stats.acceptance import BASE, OPERATOR_REASONS, ROW_REASONS
from keyshift.spark_stats.facts import Carrier, Facts, side_columns
from keyshift.spark_stats.key_groups import KeyGroups
from keyshift.spark_stats.topology import Topology
from keyshift.spark_stats.windows import Windows

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame

    from keyshift.models.workload import Workload


class Stats:
    """Statistics of one log. Each table is a Spark DataFrame; the log is read once, when the first is asked for.

    Use it as a context manager, or call `close`, to free what Spark keeps in memory.

    Attributes
    ----------
    load : DataFrame
        operator, key_group, window_start, tuples, load. No row where no tuple came.
    state : DataFrame
        operator, key_group, window_start, state: held at the end of that window. No row where nothing is held.
    traffic : DataFrame
        window_start, src_operator, src_key_group, dst_operator, dst_key_group, tuples, bytes (null unless the source operator
        has `bytes`). One tuple that passes both ends of an edge counts once.
    arrivals : DataFrame
        window_start, tuples: every row of the log that has a time, whether or not an operator takes it.
    rejected : DataFrame
        kind, rows: rows of the log that at least one operator had to refuse for that reason.
    rejected_by_operator : DataFrame
        operator, kind, rows; operator is null where the whole row is unusable.
    """

    def __init__(self, facts: Facts, topology: Topology, windows: Windows, key_groups: KeyGroups) -> None:
        self.topology, self.windows, self.key_groups = topology, windows, key_groups
        self._carriers, self._measures = facts.carriers, facts.measures
        self._facts = facts.frame.persist()

    @cached_property
    def _operators(self) -> DataFrame:
        """Sums per window, operator number and key group: tuples, load, and the state's whole numbers."""
        parts = [self._side(carrier, carrier.sides.index(o)) for carrier in self._carriers for o in carrier.owned]
        return reduce(lambda a, b: a.unionByName(b), parts).persist()

    def _side(self, carrier: Carrier, side: int) -> DataFrame:
        from pyspark.sql import functions as F

        o, group = carrier.sides[side], ("source", "destination")[side]
        sums: dict[str, list[Column]] = {}
        for name in ("cost", "state"):
            columns = side_columns(self._measures[o, name], side)
            sums[name] = [F.sum(column) for column in columns] or [F.sum("tuples")]
        whole, high, low = exact_sums.three(sums["state"])
        return (
            self._facts.where((F.col("carrier") == carrier.number) & F.col(group).isNotNull())
            .groupBy("window", F.lit(o).alias("operator"), F.col(group).alias("key_group"))
            .agg(
                F.sum("tuples").alias("tuples"),
                exact_sums.joined(sums["cost"]).alias("load"),
                whole.alias("whole"),
                high.alias("high"),
                low.alias("low"),
            )
        )

    @cached_property
    def _span(self) -> tuple[int | None, int | None]:
        from pyspark.sql import functions as F

        first, last = self._facts.agg(F.min("window"), F.max("window")).collect()[0]
        return first, last

    @property
    def span(self) -> tuple[int, int]:
        """Numbers of the first and the last window in which a tuple arrived."""
        first, last = self._span
        if first is None or last is None:
            raise InputError("the log has no row with a usable time: there is no window")
        return first, last

    @cached_property
    def load(self) -> DataFrame:
        return self._named(self._operators).select("operator", "key_group", "window_start", "tuples", "load")

    @cached_property
    def state(self) -> DataFrame:
        from pyspark.sql import functions as F

        held = self._named(self._held())
        value = exact_sums.joined_three(F.col("whole"), F.col("high"), F.col("low"))
        return held.select("operator", "key_group", "window_start", value.alias("state")).where("state > 0")

    def _held(self) -> DataFrame:
        """State over the last `windows` windows of each operator, as whole numbers.

        What window t adds is held from t to t + windows - 1: +x at t, -x at t + windows, and a running sum between these
        breakpoints. Two rows for each one read, however long the state is kept.
        """
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        limbs = ["whole", "high", "low"]
        parts: list[DataFrame] = []
        for o, operator in enumerate(self.topology.operators):
            own = self._operators.where(F.col("operator") == o).select("window", "operator", "key_group", *limbs)
            if operator.windows == 1:
                parts.append(own)
                continue
            gone = own.select(
                (F.col("window") + operator.windows).alias("window"),
                "operator",
                "key_group",
                *((-F.col(limb)).alias(limb) for limb in limbs),
            )
            changes = (
                own.unionByName(gone)
                .groupBy("operator", "key_group", "window")
                .agg(*(F.sum(limb).alias(limb) for limb in limbs))
            )
            order = Window.partitionBy("operator", "key_group").orderBy("window")
            until = F.least(F.lead("window").over(order) - 1, F.lit(self._span[1]))
            running = changes.select(
                "operator",
                "key_group",
                F.col("window").alias("since"),
                until.alias("until"),
                *(F.sum(limb).over(order).alias(limb) for limb in limbs),
            )
            kept = running.where("since <= until and (whole != 0 or high != 0 or low != 0)")
            parts.append(
                kept.select(F.explode(F.sequence("since", "until")).alias("window"), "operator", "key_group", *limbs)
            )
        return reduce(lambda a, b: a.unionByName(b), parts)

    @cached_property
    def traffic(self) -> DataFrame:
        from pyspark.sql import functions as F

        edges = [carrier for carrier in self._carriers if carrier.is_edge]
        pairs = self._facts.where(F.col("destination").isNotNull() & F.col("source").isNotNull())
        ends = [_choose(F.col("carrier"), {c.number: self.topology.names[c.sides[i]] for c in edges}) for i in (0, 1)]
        groups = [
            self.windows.start(F.col("window")).alias("window_start"),
            ends[0].alias("src_operator"),
            F.col("source").alias("src_key_group"),
            ends[1].alias("dst_operator"),
            F.col("destination").alias("dst_key_group"),
        ]
        # A pair has more than one fact only where some of its tuples were refused elsewhere in the topology.
        sums = F.sum("tuples").alias("tuples"), self._bytes(edges).alias("bytes")
        return pairs.groupBy("window", "carrier", "source", "destination").agg(*sums).select(*groups, "tuples", "bytes")

    def _bytes(self, edges: list[Carrier]) -> Column:
        from pyspark.sql import functions as F

        value = F.lit(None).cast("double")
        for carrier in edges:
            measure = self._measures.get((carrier.sides[0], "bytes"))
            if measure is not None:
                columns = [F.sum(name) for name in side_columns(measure, 0)] or [F.sum("tuples")]
                value = F.when(F.col("carrier") == carrier.number, exact_sums.joined(columns)).otherwise(value)
        return value

    @cached_property
    def arrivals(self) -> DataFrame:
        from pyspark.sql import functions as F

        rows = self._facts.where((F.col("carrier") == 0) & F.col("window").isNotNull())
        start = self.windows.start(F.col("window")).alias("window_start")
        return rows.groupBy("window").agg(F.sum("tuples").alias("tuples")).select(start, "tuples")

    @cached_property
    def _refusals(self) -> pd.DataFrame:
        """Rows of the log per number in `refused`: a handful, since the same reasons recur."""
        from pyspark.sql import functions as F

        rows = self._facts.where(F.col("refused") != 0).groupBy("refused").agg(F.sum("tuples").alias("rows"))
        return rows.toPandas()

    @cached_property
    def rejected(self) -> DataFrame:
        counts: dict[str, int] = {}
        for code, rows in self._refusals.itertuples(index=False):
            for kind in {kind for _, kind in reasons_of(int(code), self.topology)}:
                counts[kind] = counts.get(kind, 0) + int(rows)
        return self._table(sorted(counts.items()), "kind string, rows long")

    @cached_property
    def rejected_by_operator(self) -> DataFrame:
        counts: dict[tuple[str | None, str], int] = {}
        for code, rows in self._refusals.itertuples(index=False):
            for reason in reasons_of(int(code), self.topology):
                counts[reason] = counts.get(reason, 0) + int(rows)
        ordered = sorted(((*reason, rows) for reason, rows in counts.items()), key=lambda row: (row[0] or "", row[1]))
        return self._table(ordered, "operator string, kind string, rows long")

    def _table(self, rows: list[Any], schema: str) -> DataFrame:
        return self._facts.sparkSession.createDataFrame(rows, schema)

    def _named(self, rows: DataFrame) -> DataFrame:
        """Put the operator's name for its number and the window's start for its number."""
        from pyspark.sql import functions as F

        names = _choose(F.col("operator"), dict(enumerate(self.topology.names)))
        return rows.withColumns({"operator": names, "window_start": self.windows.start(F.col("window"))})

    def workload(self, nodes: Any, **options: Any) -> Workload:
        """Return the `Workload` of these statistics; see `keyshift.spark_stats.to_workload.workload`."""
        return to_workload.workload(self, nodes, **options)

    def close(self) -> None:
        """Free what Spark keeps in memory; the tables can still be read, at the price of a new pass."""
        self._facts.unpersist()
        if "_operators" in self.__dict__:
            self._operators.unpersist()

    def __enter__(self) -> Stats:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def reasons_of(code: int, topology: Topology) -> list[tuple[str | None, str]]:
    """Return (operator, kind) for each reason packed in a `refused` number; see `keyshift.spark_stats.acceptance`."""
    if code < 0:
        return [(None, ROW_REASONS[-code - 1])]
    found: list[tuple[str | None, str]] = []
    for name in topology.names:
        code, reason = divmod(code, BASE)
        if reason:
            found.append((name, OPERATOR_REASONS[reason - 1]))
    return found


def _choose(number: Column, names: dict[int, str]) -> Column:
    """Return a text that depends on a number."""
    from pyspark.sql import functions as F

    value = F.lit(None).cast("string")
    for i, name in names.items():
        value = F.when(number == i, F.lit(name)).otherwise(value)
    return value
