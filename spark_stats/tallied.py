"""Load, state and traffic of every window as Spark DataFrames, from one pass over the log; the basis of `Stats`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from keyshift.models.errors import InputError
from keyshift.spark_stats.acceptance import NOWHERE, counts_by_kind, joined, reasons_of, three, whole_code
from keyshift.spark_stats.facts import ARRIVED, BITS, REFUSED, Facts, added_up, choose
from keyshift.spark_stats.failures import in_one_sentence
from keyshift.spark_stats.key_groups import KeyGroups
from keyshift.spark_stats.key_tables import KeyLog, KeyTables
from keyshift.spark_stats.session import persisted
from keyshift.spark_stats.statistics_files import STATE
from keyshift.spark_stats.topology import Topology
from keyshift.spark_stats.windows import Windows


class Tallied:
    """The tables of one log, which is read once, when the first is asked for; `Stats` says what each holds."""

    def __init__(self, facts: Facts, topology: Topology, windows: Windows, key_groups: KeyGroups) -> None:
        self.topology, self.windows, self.key_groups = topology, windows, key_groups
        self._facts = facts
        self.log: Callable[[str | None], KeyLog] | None = None
        """The log of an operator again, for single keys; None where it has gone by."""
        self.of_keys: list[KeyTables] = []
        persisted(facts.frame)

    # What the tables are made of: numbers instead of names -------------------------------------------------------

    @cached_property
    def counted(self) -> DataFrame:
        """What tuples add, by numbers: window, kind, a, b, tuples, load and the state's sums of an operator, bytes of an edge."""
        limbs, operators, kind = self._facts.limbs, len(self.topology.operators), F.col("kind")
        values: dict[str, dict[int, Column]] = {name: {} for name in ("load", *STATE, "bytes")}
        for o in range(operators):
            own = joined(list(map(F.col, limbs(o, "cost")))), *three(list(map(F.col, limbs(o, "state"))))
            for of_operators, value in zip(values.values(), own, strict=False):
                of_operators[o] = value
        for number, (source, _) in enumerate(self.topology.numbered_edges, start=operators):
            if (source, "bytes") in self._facts.measures:
                values["bytes"][number] = joined(list(map(F.col, limbs(source, "bytes"))))
        kinds = {name: "double" if name in ("load", "bytes") else "bigint" for name in values}
        columns = (choose(kind, values[name]).cast(of).alias(name) for name, of in kinds.items())
        return self._facts.unpacked.select("window", "code", "kind", "a", "b", "tuples", *columns)

    @property
    def added(self) -> DataFrame:
        """The amounts each window adds: window, operator, key_group, as numbers; tuples, load, and the state's three sums."""
        rows = self.counted.where((F.col("kind") >= 0) & (F.col("kind") < len(self.topology.operators)))
        names = F.col("kind").alias("operator"), F.col("a").alias("key_group")
        return rows.select("window", *names, "tuples", "load", *STATE)

    @property
    def pairs(self) -> DataFrame:
        """Traffic by numbers: window, src_operator, src_key_group, dst_operator, dst_key_group, tuples, bytes."""
        operators = len(self.topology.operators)
        columns = [F.col("window")]
        for at, (side, group) in enumerate((("src", "a"), ("dst", "b"))):
            ends = {n: F.lit(edge[at]) for n, edge in enumerate(self.topology.numbered_edges, start=operators)}
            columns += [choose(F.col("kind"), ends).alias(f"{side}_operator"), F.col(group).alias(f"{side}_key_group")]
        return self.counted.where(F.col("kind") >= operators).select(*columns, "tuples", "bytes")

    def _over(self, facts: DataFrame) -> Self:
        """The statistics of some of the facts, or of all in another order, which share what Spark keeps in memory."""
        part = copy(self)
        part.__dict__ = {name: vars(self)[name] for name in ("topology", "windows", "key_groups", "log", "of_keys")}
        part._facts = replace(self._facts, frame=facts)
        return part

    def between(self, first: int, end: int) -> Self:
        """The statistics of some windows only."""
        return self._over(self._facts.frame.where(F.col("window").between(first, end)))

    def _ordered(self) -> Self:
        """The same by window, operator or edge, and key groups; the rows of a window come in few tasks that are neighbours."""
        return self._over(self._facts.frame.where("code >= 0").orderBy(*self._order(F.col("code"))))

    def _order(self, code: Column) -> list[Column]:
        """By window, then by a code of facts: as one number where it has room, since Spark sorts a number by its digits."""
        first, last = (self.seen[0], self.seen[-1]) if self.seen else (0, 0)
        kinds = len(self.topology.operators) + len(self.topology.edges)
        if (last - first + 1) * kinds >= 2 ** (63 - 2 * BITS):
            return [F.col("window"), code]
        return [(F.col("window") - first) * F.lit(kinds << 2 * BITS) + code]

    @cached_property
    @in_one_sentence()
    def arrivals_and_refusals(self) -> dict[str, NDArray[np.int64]]:
        """Arrivals and refusals, window by window, in the driver; see `Facts.arrivals_and_refusals`."""
        return self._facts.arrivals_and_refusals()

    @property
    def arrived(self) -> DataFrame:
        """Rows of the log that have a window: window, tuples."""
        return self._small(**dict(zip(("window", "tuples"), map(pa.array, self.tuples), strict=True)))

    @property
    def tuples(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The windows in which a row arrived, in order, and how many arrived."""
        here = self.arrivals_and_refusals["code"] == ARRIVED
        window, tuples = (self.arrivals_and_refusals[name][here] for name in ("window", "tuples"))
        order = np.argsort(window)
        return window[order], tuples[order]

    @property
    def rows_at_most(self) -> NDArray[np.int64]:
        """How many rows a table can have in each window in which something arrived."""
        tuples, groups = self.tuples[1], self.key_groups.count
        operators, edges = len(self.topology.operators), len(self.topology.edges)
        return np.maximum(operators * np.minimum(tuples, groups), edges * np.minimum(tuples, groups**2))

    @property
    def refusals(self) -> list[tuple[int | None, int, int]]:
        """Refused rows: (window, number of the reason, rows), sorted; the window is None for rows without one."""
        return refused(self.arrivals_and_refusals)

    @cached_property
    def seen(self) -> list[int]:
        """Numbers of the windows in which a row arrived, in order."""
        return self.tuples[0].tolist()

    @property
    def span(self) -> tuple[int, int]:
        """Numbers of the first and the last window in which a row arrived."""
        seen = self.seen
        if not seen:
            raise InputError("the log has no row with a usable time: there is no window")
        self.refuse_far_off()
        return seen[0], seen[-1]

    def refuse_far_off(self) -> None:
        """Refuse a few rows that lie far from all others, unless the ends of the times were named."""
        numbers, tuples = self.tuples
        for side, end in zip(far_off(numbers, tuples), (self.windows.since, self.windows.until), strict=True):
            if end is not None or not side.any():
                continue
            early = bool(side[0])
            near, (first, last) = numbers[~side], numbers[side][[0, -1]].tolist()
            what, keeps = ("since", first) if early else ("until", last + 1)
            leaves = near[0].item() if early else near[-1].item() + 1
            leaves, keeps, first, last = (self.windows.start_of(w).isoformat() for w in (leaves, keeps, first, last))
            raise InputError(
                f"{tuples[side].sum():,} of {tuples.sum():,} rows lie far from the others, at {first} to {last}, and would make "
                f"{numbers[-1] - numbers[0] + 1:,} windows: {what} = {leaves} leaves them out, {what} = {keeps} keeps them"
            )

    # The public tables -------------------------------------------------------------------------------------------

    @cached_property
    def load(self) -> DataFrame:
        return self._named(self.added).select("operator", "key_group", "window_start", "tuples", "load")

    @cached_property
    def state(self) -> DataFrame:
        whole, *parts = map(F.col, STATE)
        rows = self._named(held(self.added, self.topology, self.seen)).withColumn(
            "state", joined([whole]) + joined(parts)
        )
        return rows.select("operator", "key_group", "window_start", "state").where("state > 0")

    @cached_property
    def traffic(self) -> DataFrame:
        names = self._names
        ends = {side: choose(F.col(side), names) for side in ("src_operator", "dst_operator")}
        start = self.windows.start(F.col("window"))
        columns = ("window_start", "src_operator", "src_key_group", "dst_operator", "dst_key_group", "tuples", "bytes")
        return self.pairs.withColumns({"window_start": start, **ends}).select(*columns)

    @cached_property
    def arrivals(self) -> DataFrame:
        return self.arrived.select(self.windows.start(F.col("window")).alias("window_start"), "tuples")

    @cached_property
    def rejected(self) -> DataFrame:
        counts = self.rejected_counts()
        return self._small(kind=pa.array([*counts], pa.string()), rows=pa.array([*counts.values()], pa.int64()))

    def rejected_counts(self) -> dict[str, int]:
        """Return the rows refused, by kind: a dict instead of a table."""
        return dict(sorted(counts_by_kind(self._codes(), self.topology).items()))

    @cached_property
    def rejected_by_operator(self) -> DataFrame:
        counts: Counter[tuple[str | None, str]] = Counter()
        for code, rows in self._codes():
            counts.update(dict.fromkeys(reasons_of(code, self.topology), rows))
        reasons = sorted(counts, key=lambda reason: (reason[0] or "", reason[1]))
        operators, kinds = (pa.array([reason[i] for reason in reasons], pa.string()) for i in (0, 1))
        return self._small(operator=operators, kind=kinds, rows=pa.array([counts[r] for r in reasons], pa.int64()))

    def _small(self, **columns: pa.Array) -> DataFrame:
        """A table that the driver holds, by way of Arrow: a list would go through a Python of the workers."""
        return self._facts.frame.sparkSession.createDataFrame(pa.table(columns))

    def _codes(self) -> list[tuple[int, int]]:
        return [(code, rows) for _, code, rows in self.refusals]

    @property
    def _names(self) -> dict[int, Column]:
        return {o: F.lit(name) for o, name in enumerate(self.topology.names)}

    def _named(self, rows: DataFrame) -> DataFrame:
        """Put the operator's name for its number and the window's start for its number."""
        names = choose(F.col("operator"), self._names)
        return rows.withColumns({"operator": names, "window_start": self.windows.start(F.col("window"))})

    def close(self) -> None:
        """Free what Spark keeps in memory. The tables can still be read, but then Spark reads the log again."""
        self._facts.frame.unpersist()
        for keys in self.of_keys:
            keys.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def refused(held: Mapping[str, NDArray[np.int64]]) -> list[tuple[int | None, int, int]]:
    """Refused rows among arrivals and refusals; see `Tallied.refusals`."""
    rows = zip(*(values[held["code"] != ARRIVED].tolist() for values in held.values()), strict=True)
    numbers = ((w, REFUSED - code, more, n) for w, code, *more, n in rows)
    found = [(None if first in NOWHERE else w, whole_code((first, *more)), n) for w, first, more, n in numbers]
    return sorted(found, key=lambda row: (row[0] is not None, row))


def far_off(numbers: NDArray[np.int64], tuples: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """The windows that lie far before, and far after, most others; each side has at most a twentieth of the rows."""
    until = np.cumsum(tuples)
    total = int(until[-1]) if until.size else 0
    low, middle, high = np.searchsorted(until, [0.05 * total, 0.5 * total, 0.95 * total])
    # Empty windows, and ten times as many as nine tenths of the rows need: what lies beyond so many is far off.
    wide = np.diff(numbers) > max(1000, 10 * (numbers[high] - numbers[low] + 1)) if total else np.zeros(0, dtype=bool)
    gaps, at = np.flatnonzero(wide), np.arange(numbers.size)
    before, behind = gaps[gaps < middle], gaps[gaps >= middle]
    first, last = before.max(initial=-1), behind.min(initial=numbers.size)
    return at <= first, at > last


# The state of the operators at the end of each window, from the amounts that each window adds --------------------------


def held(added: DataFrame, topology: Topology, seen: Sequence[int]) -> DataFrame:
    """State over the last `windows` windows of each operator, as whole numbers.

    What window t adds is held from t to t + windows - 1: +x at t, -x at t + windows, and a running sum between
    these breakpoints. Two rows for each one read, however long the state is kept; a union would read the log again.
    """
    keys, sums = ["operator", "key_group"], [F.col(name) for name in STATE]
    kept = choose(F.col("operator"), {o: F.lit(operator.windows) for o, operator in enumerate(topology.operators)})
    ends = ((F.col("window"), sums), (F.col("window") + kept, [-value for value in sums]))
    both = (
        F.struct(at.alias("window"), *(v.alias(n) for n, v in zip(STATE, values, strict=True))) for at, values in ends
    )
    changes = added.select(*keys, F.inline(F.array(*both))).groupBy(*keys, "window").agg(*map(added_up, STATE))
    order = Window.partitionBy(*keys).orderBy("window")
    until = F.least(F.lead("window").over(order) - 1, F.lit(seen[-1] if seen else 0))
    running = changes.select(
        *keys,
        F.col("window").alias("since"),
        until.alias("until"),
        *(F.sum(name).over(order).alias(name) for name in STATE),
    )
    return running.where("since <= until").select(
        F.explode(F.sequence("since", "until")).alias("window"), *keys, *STATE
    )
