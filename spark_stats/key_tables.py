"""Tables of single keys, millions of them: load, state and traffic.

Keys stay in Spark. What comes to the driver - the hottest keys, the entries of a problem - is
limited in rows, and asking for more is an error that names the limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keyshift.models.base import guards
from keyshift.models.errors import InputError
from keyshift.models.placement import placement as placed
from keyshift.spark_stats import exact_sums
from keyshift.spark_stats.acceptance import Log, Measures, read_all, read_tuples
from keyshift.spark_stats.failures import in_one_sentence
from keyshift.spark_stats.key_groups import KeyGroups, label
from keyshift.spark_stats.statistics_files import DRIVER_ROWS
from keyshift.spark_stats.topology import Topology
from keyshift.spark_stats.windows import Windows

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class KeyLog:
    """The log with window, key and key group of every operator, evaluated row by row and never collected.

    Attributes
    ----------
    frame : DataFrame
        What `read_tuples` gives, and the columns key_0, key_1, ...: each operator's key.
    """

    frame: DataFrame
    measures: Measures
    topology: Topology
    windows: Windows
    key_groups: KeyGroups

    @classmethod
    def of(
        cls,
        events: DataFrame | Mapping[str, DataFrame],
        topology: Topology,
        time: str | None,
        windows: Windows,
        groups: KeyGroups,
        operator: str | None = None,
    ) -> KeyLog:
        """Evaluate the topology on a log, keys included; of the logs on that of an operator."""
        read_all(events, topology, time, windows, groups)  # refuses what does not fit, by the log's own columns
        name = None
        if isinstance(events, Mapping):
            name = topology.operators[0 if operator is None else topology.number(operator)].log
            events = events[name or ""]
        log = Log(events, topology.trust)
        texts = [(op.key, op.log) for op in topology.operators]
        texts += [(text, topology.operators[topology.numbered_edges[edge][1]].log) for edge, text in topology.senders]
        names = [f"__keyshift_key_{o}" for o in range(len(texts))]
        keys = {
            n: log.column("key", text) if of == name else F.lit(None)
            for n, (text, of) in zip(names, texts, strict=True)
        }
        tuples = read_tuples(events.withColumns(keys), topology, time, windows, groups, keep=names, of=name)
        frame = tuples.frame.withColumnsRenamed({name: f"key_{o}" for o, name in enumerate(names)})
        return cls(frame, tuples.measures, topology, windows, groups)

    def accepted(self, o: int) -> DataFrame:
        """The tuples that pass an operator."""
        return self.frame.where(F.col(f"group_{o}") >= 0)

    def sums(self, o: int, name: str, where: Column | None = None) -> list[Column]:
        """Sums of the whole numbers of a measure, over the tuples for which a condition holds."""
        values = [F.col(column) for column in self.measures[o, name]] or [F.lit(1)]
        return [F.sum(value if where is None else value * where.cast("long")) for value in values]

    def kind(self, o: int) -> T.DataType:
        """Type of an operator's keys."""
        return self.frame.schema[f"key_{o}"].dataType


class KeyTables:
    """The tables of one operator's keys in one window, lazily; `Keys` says what each holds."""

    def __init__(self, log: KeyLog, operator: int, number: int) -> None:
        self.log, self.operator, self.number = log, operator, number
        self.key_groups = log.key_groups.count

    @classmethod
    def of(cls, log: KeyLog, operator: str | None, number: int | None) -> Self:
        """The keys of one operator in one window, by default the last in which it accepts a tuple."""
        if operator is None and len(log.topology.operators) > 1:
            raise InputError(f"give the operator whose keys are meant, one of {', '.join(log.topology.names)}")
        o = 0 if operator is None else log.topology.number(operator)
        if number is None:
            number = log.accepted(o).agg(F.max("window")).collect()[0][0]
        if number is None:
            raise InputError(f"operator {log.topology.names[o]!r} accepts no tuple of the log")
        return cls(log, o, int(number))

    @property
    def name(self) -> str:
        """The operator's name."""
        return self.log.topology.names[self.operator]

    @cached_property
    def frame(self) -> DataFrame:
        o, key = self.operator, F.col(f"key_{self.operator}").alias("key")
        inside = F.col("window") == self.number
        reach = self.log.topology.operators[o].windows
        recent = self.log.accepted(o).where((F.col("window") <= self.number) & (F.col("window") > self.number - reach))
        return recent.groupBy(key, F.col(f"group_{o}").alias("key_group")).agg(
            F.sum(inside.cast("long")).alias("tuples"),
            exact_sums.joined(self.log.sums(o, "cost", inside)).alias("load"),
            exact_sums.joined(self.log.sums(o, "state")).alias("state"),
        )

    @cached_property
    def by_window(self) -> DataFrame:
        """window, key, key_group, tuples, load, and what the window adds to the state: every window of the log."""
        o = self.operator
        found = self.log.accepted(o).groupBy("window", f"key_{o}", f"group_{o}")
        made = found.agg(
            F.count(F.lit(1)).alias("tuples"),
            exact_sums.joined(self.log.sums(o, "cost")).alias("load"),
            exact_sums.joined(self.log.sums(o, "state")).alias("state_added"),
        )
        return made.withColumnsRenamed({f"key_{o}": "key", f"group_{o}": "key_group"})

    @cached_property
    def series(self) -> DataFrame:
        """The same with window_start, the instant, in place of the window's number."""
        start = self.log.windows.start(F.col("window")).alias("window_start")
        return self.by_window.select(start, "key", "key_group", "tuples", "load", "state_added")

    def traffic(self, to: str | None = None) -> DataFrame:
        """Tuples of the window from each key to each key of a downstream operator: src_key, dst_key, tuples, bytes.

        One tuple that passes both ends counts once; bytes is null unless the operator has `bytes`. Exact; where the
        pairs are hundreds of millions, see `heavy_traffic`.
        """
        pairs = self._pairs(to)
        size = F.lit(None).cast("double")
        if (self.operator, "bytes") in self.log.measures:
            size = exact_sums.joined(self.log.sums(self.operator, "bytes"))
        return pairs.groupBy("src_key", "dst_key").agg(F.count(F.lit(1)).alias("tuples"), size.alias("bytes"))

    def heavy_traffic(
        self, to: str | None = None, *, capacity: int = 10_000, max_rows: int = DRIVER_ROWS
    ) -> tuple[pd.DataFrame, int]:
        """The `capacity` heaviest pairs, and what the heaviest of all others has.

        Spark counts the pairs, on disk where memory does not suffice, and one task never has more than the heaviest of each.

        Returns
        -------
        pandas.DataFrame
            src_key, dst_key, tuples: at most `capacity` pairs, heaviest first, counted exactly.
        int
            What a pair that is not there has at most: N / (capacity + 1) or less, for N tuples.
        """
        guards.whole("capacity", capacity, least=1, optional=False)
        if capacity > max_rows:
            raise InputError(f"capacity = {capacity} pairs are more than max_rows = {max_rows} rows")
        pairs = self._pairs(to).select(*(label(F.col(n), self._type(n, to)).alias(n) for n in ("src_key", "dst_key")))
        heaviest = pairs.groupBy("src_key", "dst_key").agg(F.count(F.lit(1)).alias("tuples"))
        with in_one_sentence():
            found = heaviest.orderBy(F.desc("tuples"), "src_key", "dst_key").limit(capacity + 1).toPandas()
        return found.head(capacity), int(found["tuples"].iloc[capacity:].sum())

    def _type(self, side: str, to: str | None) -> T.DataType:
        return self.log.kind(self.operator if side == "src_key" else self._downstream(to))

    def _pairs(self, to: str | None) -> DataFrame:
        topology = self.log.topology
        o, d = topology.ends[topology.numbered_edges.index((self.operator, self._downstream(to)))]
        both = (F.col(f"group_{o}") >= 0) & (F.col(f"group_{d}") >= 0) & (F.col("window") == self.number)
        keys = F.col(f"key_{o}").alias("src_key"), F.col(f"key_{d}").alias("dst_key")
        return self.log.frame.where(both).select(*keys, *self.log.measures.get((self.operator, "bytes"), ()))

    def _downstream(self, to: str | None) -> int:
        follow = [d for s, d in self.log.topology.numbered_edges if s == self.operator]
        if to is None and len(follow) == 1:
            return follow[0]
        number = None if to is None else self.log.topology.number(to)
        if number not in follow:
            known = ", ".join(self.log.topology.names[d] for d in follow) or "nobody"
            raise InputError(f"operator {self.name!r} sends to {known}" + ("" if to is None else f", not to {to!r}"))
        return number

    # To the driver -----------------------------------------------------------------------------------------------

    @in_one_sentence()
    def distinct(self) -> int:
        """Number of distinct keys that hold state or occur in the window."""
        return self.frame.count()

    @in_one_sentence()
    def top(self, count: int = 20, *, max_rows: int = DRIVER_ROWS) -> pd.DataFrame:
        """Return the keys with the most load, exactly, heaviest first; ties in the order of the keys."""
        count = guards.whole("count", count, least=1, optional=False)
        if count > max_rows:
            raise InputError(f"top {count} keys are more than max_rows = {max_rows} rows")
        return self.frame.orderBy(F.desc("load"), "key").limit(count).toPandas()

    def homed(self, nodes: int, placement: str) -> DataFrame:
        """The keys with their home."""
        homes = F.array(*(F.lit(home) for home in placed(placement, self.key_groups, nodes).tolist()))
        return self.frame.withColumn("home", F.element_at(homes, F.col("key_group") + 1))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the keys in Spark while questions are asked, unless they are kept already."""
        ours = not self.frame.is_cached
        if ours:
            self.frame.persist()
        try:
            yield
        finally:
            if ours:
                self.frame.unpersist()

    def persist(self) -> Self:
        """Keep the keys in Spark's memory and disks, for more than one question; `close` frees them."""
        self.frame.persist()
        return self

    def close(self) -> None:
        """Free what `persist` keeps."""
        self.frame.unpersist()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
