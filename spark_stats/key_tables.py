"""Tables of single keys, millions of them: load, state and traffic.

Keys stay in Spark. What comes to the driver - the hottest keys, the entries of a problem - is
limited in rows, and asking for more is an error that names the limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_, or_
from typing import Self

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keyshift.models.base import guards
from keyshift.models.base.lazily import pd
from keyshift.models.errors import InputError
from keyshift.models.placement import placement as placed
from keyshift.spark_stats.acceptance import Log, Measures, joined, read_all, read_tuples
from keyshift.spark_stats.facts import added_up
from keyshift.spark_stats.failures import in_one_sentence
from keyshift.spark_stats.key_groups import KeyGroups, label
from keyshift.spark_stats.session import persisted
from keyshift.spark_stats.statistics_files import DRIVER_ROWS
from keyshift.spark_stats.topology import Topology
from keyshift.spark_stats.windows import Windows


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

    def counted(self, *sides: Sequence[int], first: int | None = None, end: int | None = None) -> DataFrame:
        """One pass over the log for all sides: the tuples that pass an operator, or both ends of an edge, by window and keys.

        Rows of a side have ``key_<o>`` and ``group_<o>`` of its operators, and null in those of the others; `tuples`, and the
        sums of all whole numbers. See `side`.
        """
        ends = sorted({o for side in sides for o in side})
        inside = [F.col("window") >= first] if first is not None else []
        inside += [F.col("window") <= end] if end is not None else []
        passes = reduce(or_, (F.col(f"group_{o}") >= 0 for o in ends))
        # Of the tuples that do not pass, one row in all.
        keys = {f"key_{o}": F.when(F.col(f"group_{o}") >= 0, F.col(f"key_{o}")) for o in ends}
        rows = self.frame.where(reduce(and_, inside, passes)).withColumns(keys)
        numbers = dict.fromkeys(
            column for o in ends for (p, _), own in self.measures.items() if p == o for column in own
        )
        columns = [["window", *(f"{name}_{o}" for o in side for name in ("key", "group"))] for side in sides]
        found = rows.groupingSets(columns, *dict.fromkeys(name for own in columns for name in own))
        return found.agg(F.count(F.lit(1)).alias("tuples"), *(added_up(name) for name in numbers))

    def kind(self, o: int) -> T.DataType:
        """Type of an operator's keys."""
        return self.frame.schema[f"key_{o}"].dataType

    def joined(self, o: int, name: str, where: Column | None = None) -> Column:
        """A measure's value, of the sums of its whole numbers; added up over the rows for which a condition holds."""
        values = [F.col(column) for column in self.measures[o, name] or ("tuples",)]
        return joined(values if where is None else [F.sum(F.when(where, value).otherwise(0)) for value in values])


def side(counted: DataFrame, *operators: int) -> DataFrame:
    """The rows of one side in a pass for several."""
    groups = [name for name in counted.columns if name.startswith("group_")]
    own = {f"group_{o}" for o in operators}
    return counted.where(reduce(and_, (F.col(name) >= 0 if name in own else F.col(name).isNull() for name in groups)))


class KeyTables:
    """The tables of one operator's keys in one window, lazily; `Keys` says what each holds.

    Without a number of a window, the first question counts the keys of all windows, and keeps them for the others until `close`.
    """

    def __init__(self, log: KeyLog, operator: str | None, number: int | None) -> None:
        if operator is None and len(log.topology.operators) > 1:
            raise InputError(f"name the operator of the keys, one of {', '.join(log.topology.names)}")
        self.log, self._number = log, number
        self.operator = 0 if operator is None else log.topology.number(operator)
        self.key_groups = log.key_groups.count
        self._kept: tuple[DataFrame, tuple[tuple[int, ...], ...]] | None = None

    @property
    def name(self) -> str:
        """The operator's name."""
        return self.log.topology.names[self.operator]

    @cached_property
    def number(self) -> int:
        if self._number is not None:
            return self._number
        self.persist()
        windows = side(self._counted((self.operator,)), self.operator).select("window").distinct().collect()
        if not windows:
            raise InputError(f"operator {self.name!r} accepts no tuple of the log")
        return max(window for (window,) in windows)

    def _counted(self, *sides: tuple[int, ...]) -> DataFrame:
        """A pass over the log, or what is kept of one."""
        if self._kept is not None and set(sides) <= set(self._kept[1]):
            return self._kept[0]
        reach = max(
            self.log.topology.operators[o].windows for own in sides for o in own if o < len(self.log.topology.operators)
        )
        known = {} if self._number is None else {"first": self._number - reach + 1, "end": self._number}
        return self.log.counted(*sides, **known)

    @property
    def frame(self) -> DataFrame:
        return self.of_operator(self.operator)

    def of_operator(self, o: int) -> DataFrame:
        """The same of another operator, in this window."""
        number, log = self.number, self.log
        reach, rows = log.topology.operators[o].windows, side(self._counted((o,)), o)
        rows = rows.where(F.col("window").between(number - reach + 1, number))
        if reach == 1:
            return by_window(log, rows, o).drop("window").withColumnRenamed("state_added", "state")
        inside, always = F.col("window") == number, F.lit(True)
        return rows.groupBy(F.col(f"key_{o}").alias("key"), F.col(f"group_{o}").alias("key_group")).agg(
            F.sum(F.when(inside, F.col("tuples")).otherwise(0)).alias("tuples"),
            log.joined(o, "cost", inside).alias("load"),
            log.joined(o, "state", always).alias("state"),
        )

    @property
    def by_window(self) -> DataFrame:
        """window, key, key_group, tuples, load, and what the window adds to the state: every window of the log."""
        o = self.operator
        every = self._counted((o,)) if self._number is None else self.log.counted((o,))
        return by_window(self.log, side(every, o), o)

    @property
    def series(self) -> DataFrame:
        """The same with window_start, the instant, in place of the window's number."""
        start = self.log.windows.start(F.col("window")).alias("window_start")
        return self.by_window.select(start, "key", "key_group", "tuples", "load", "state_added")

    def traffic(self, to: str | None = None) -> DataFrame:
        """Tuples of the window from each key to each key of a downstream operator: src_key, dst_key, tuples, bytes.

        One tuple that passes both ends counts once; bytes is null unless the operator has `bytes`. Exact; where the
        pairs are hundreds of millions, see `heavy_traffic`.
        """
        ends = self._ends(to)
        if self._number is None and self._kept is None:
            self.persist(self.log.topology.names[self._downstream(to)])
        size = F.lit(None).cast("double")
        if (self.operator, "bytes") in self.log.measures:
            size = self.log.joined(self.operator, "bytes")
        number = self.number
        keys = (F.col(f"key_{o}").alias(name) for o, name in zip(ends, ("src_key", "dst_key"), strict=True))
        return (
            side(self._counted(ends), *ends)
            .where(F.col("window") == number)
            .select(*keys, "tuples", size.alias("bytes"))
        )

    def heavy_traffic(
        self, to: str | None = None, *, capacity: int = 10_000, max_rows: int = DRIVER_ROWS
    ) -> tuple[pd.DataFrame, int]:
        """The `capacity` heaviest pairs, and what the heaviest of all others has.

        Spark counts the pairs, on disk where memory does not suffice, and no task brings more than so many.

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
        names = zip(("src_key", "dst_key"), (self.operator, self._downstream(to)), strict=True)
        labels = [label(F.col(name), self.log.kind(o)).alias(name) for name, o in names]
        with in_one_sentence():
            found = heaviest(self.traffic(to).select(*labels, "tuples"), capacity + 1, "tuples", "src_key", "dst_key")
        return found.head(capacity), int(found["tuples"].iloc[capacity:].sum())

    def _ends(self, to: str | None) -> tuple[int, int]:
        """Whose keys lie at the ends of the edge to an operator."""
        topology = self.log.topology
        return topology.ends[topology.numbered_edges.index((self.operator, self._downstream(to)))]

    def _downstream(self, to: str | None) -> int:
        follow = [d for s, d in self.log.topology.numbered_edges if s == self.operator]
        if to is None and len(follow) == 1:
            return follow[0]
        number = None if to is None else self.log.topology.number(to)
        if number not in follow:
            known = ", ".join(self.log.topology.names[d] for d in follow) or "no operator"
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
        return heaviest(self.frame, count, "load", "key")

    def homed(self, nodes: int, placement: str) -> DataFrame:
        """The keys with their home."""
        homes = F.array(*(F.lit(home) for home in placed(placement, self.key_groups, nodes).tolist()))
        return self.frame.withColumn("home", F.element_at(homes, F.col("key_group") + 1))

    def held(self, *to: str) -> AbstractContextManager[object]:
        """Keep the keys in Spark while questions are asked, unless they are kept already; with those of operators downstream."""
        ours = self._kept is None
        return (closing if ours else nullcontext)(self.persist(*to))

    def persist(self, *to: str) -> Self:
        """Keep the keys in Spark's memory and disks, for more than one question; `close` frees them."""
        downstream = {(self.log.topology.number(name),) for name in to}
        sides = tuple(sorted({(self.operator,), *downstream, *map(self._ends, to)}))
        if self._kept is None or not set(sides) <= set(self._kept[1]):
            self.close()
            self._kept = persisted(self._counted(*sides)), sides
        return self

    def close(self) -> None:
        """Free what is kept."""
        if self._kept is not None:
            self._kept[0].unpersist()
            self._kept = None

    def __exit__(self, *_: object) -> None:
        self.close()


def by_window(log: KeyLog, rows: DataFrame, o: int) -> DataFrame:
    """window, key, key_group, tuples, load, state_added, of the rows of an operator's side."""
    measures = (log.joined(o, name).alias(shown) for name, shown in (("cost", "load"), ("state", "state_added")))
    return rows.select(
        "window", F.col(f"key_{o}").alias("key"), F.col(f"group_{o}").alias("key_group"), "tuples", *measures
    )


def heaviest(table: DataFrame, count: int, by: str, *names: str) -> pd.DataFrame:
    """The first rows by a number, ties in the order of the names: each task brings its own, and the driver chooses."""
    return pd.DataFrame(table.orderBy(F.desc(by), *names).limit(count).collect(), columns=table.columns)
