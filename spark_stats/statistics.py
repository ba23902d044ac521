"""The statistics of a log, and what is made of them: workloads, transitions, single keys, files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keyshift.models.base import guards
from keyshift.models.base.lazily import pd
from keyshift.models.errors import InputError
from keyshift.models.intervals.policy.transitions import node_counts, transition_matrix
from keyshift.models.workload import FloatArray, Workload
from keyshift.spark_stats import output
from keyshift.spark_stats.acceptance import read_all
from keyshift.spark_stats.facts import gather, rows_of
from keyshift.spark_stats.failures import in_one_sentence
from keyshift.spark_stats.hadoop import place
from keyshift.spark_stats.key_groups import KeyGroups
from keyshift.spark_stats.key_tables import KeyLog
from keyshift.spark_stats.session import refuse_connect_frame
from keyshift.spark_stats.statistics_files import DRIVER_ROWS, LOAD_COLUMNS, from_tables
from keyshift.spark_stats.tallied import Tallied
from keyshift.spark_stats.topology import Topology
from keyshift.spark_stats.windows import Windows, zone_of

if TYPE_CHECKING:
    from keyshift.spark_stats.keys import Keys


# Period by period: workloads to replay, node counts to expect -----------------------------------------------------------


BLOCK_ROWS = 1_000_000
"""Rows of a table that `workloads` brings to the driver at once, as far as the windows allow."""


class RowsInSpark:
    """A table of statistics in Spark, as `RowsOfWindows` has those on disk: it comes to the driver in blocks of windows."""

    def __init__(self, stats: Tallied, table: DataFrame, max_rows: int) -> None:
        self.stats, self.table, self.max_rows = stats, table, max_rows
        self.manifest: Mapping[str, Any] = output.description(stats.topology, stats.windows, stats.key_groups)
        self.held: Any = None
        self.first, self.end = 0, -1

    def between(self, first: int, end: int) -> dict[str, Any]:
        """The rows of the windows from first to end; fetched with those of the windows behind, as far as a block has room."""
        if not self.first <= first <= end <= self.end:
            seen, at_most = self.stats.seen, self.stats.rows_at_most
            until = np.cumsum(at_most * (np.asarray(seen) >= first))
            follow = int(np.searchsorted(until, min(BLOCK_ROWS, self.max_rows), side="right"))
            self.first, self.end = first, max(end, [*seen, seen[-1] + 1][follow] - 1)
            with in_one_sentence():
                chosen = self.table.where(F.col("window").between(first, self.end))
                self.held = rows_of(chosen, self.max_rows, at_most=at_most.sum()).sort_values("window")
        return dict(self.held.iloc[slice(*np.searchsorted(self.held["window"], [first, end + 1]))])


def _tables(stats: Tallied, max_rows: int) -> tuple[RowsInSpark, RowsInSpark]:
    """The loads and the traffic."""
    load = stats.added.select(*LOAD_COLUMNS)
    return RowsInSpark(stats, load, max_rows), RowsInSpark(stats, stats.pairs, max_rows)


def workloads(
    stats: Tallied,
    nodes: int | ArrayLike,
    *,
    current: ArrayLike | None = None,
    draining: Sequence[int] = (),
    placement: str = "ranges",
    traffic: str = "tuples",
    max_rows: int = DRIVER_ROWS,
) -> Iterator[Workload]:
    """Give one workload for each window from the first to the last, those in which nothing arrived included.

    Load and traffic are the window's, the state is what each operator holds at its end. The parameters are those of
    `Stats.workload`. The rows come to the driver in blocks of neighbouring windows, as the workloads are asked for:
    `max_rows` limits those of one block, and the number of windows.
    """
    if len(stats.seen) > max_rows:
        raise InputError(f"more than max_rows = {max_rows} windows: raise it, or ask for less")
    first, end = stats.span
    tables = _tables(stats, max_rows)
    places: dict[str, Any] = {"current": current, "draining": draining, "traffic": traffic, "max_rows": max_rows}
    return (
        stats.windows.begun(from_tables(*tables, window, window, nodes, placement, **places), window)
        for window in range(first, end + 1)
    )


@in_one_sentence()
def total_loads(stats: Tallied) -> FloatArray:
    """Load of all operators together in each window, from the first to the last, shape (windows,)."""
    first, end = stats.span
    rows: pd.DataFrame = rows_of(stats.added.groupBy("window").agg({"load": "sum"}), DRIVER_ROWS)
    return np.bincount(rows["window"] - first, rows["sum(load)"], minlength=end - first + 1)


def transitions(
    stats: Tallied,
    target_utilisation: float,
    *,
    node_capacity: float | None = None,
    least: int = 1,
    most: int | None = None,
    smoothing: float = 0.0,
    changes_only: bool = True,
) -> dict[int, dict[int, float]]:
    r"""Return how likely each number of nodes follows another, {n: {n': probability}}, for `MigrationPolicy`.

    A window of load L needs :math:`n = \lceil L / (u\,C) \rceil` nodes at the target utilisation u of their capacity C,
    kept within `least` and `most`; the transitions are counted over consecutive windows, see
    `keyshift.spark_stats.transition_matrix`.

    Parameters
    ----------
    target_utilisation : float
        u, in (0, 1].
    node_capacity : float, optional
        C, the load that one node can take in a window. Default: the largest load of a window divided by `most`, so that
        the busiest window needs all of them at full use; `most` must then be given.
    least, most : int
        Bounds on the number of nodes.
    smoothing, changes_only
        As for `transition_matrix`.

    Raises
    ------
    InputError
        Fewer than two windows; a utilisation outside (0, 1]; neither a capacity nor `most`.
    """
    use = guards.real("target_utilisation", target_utilisation, optional=False)
    if not 0 < use <= 1:
        raise InputError(f"target_utilisation = {use:g} must be above 0 and at most 1")
    guards.whole("least", least, least=1, optional=False)
    guards.whole("most", most, least=least)
    loads = total_loads(stats)
    if node_capacity is None:
        if most is None:
            raise InputError("transitions need node_capacity, the load that a node can carry in a window, or most")
        node_capacity = float(loads.max()) / most or 1.0
    capacity = guards.real("node_capacity", node_capacity, optional=False, above=True)
    needed = np.ceil(loads / (use * capacity) * (1 - 1e-12))
    counts = np.clip(needed, least, needed.max() if most is None else most).astype(np.int64)
    return transition_matrix(np.maximum(counts, least), smoothing=smoothing, changes_only=changes_only)


# From a log's arrivals to a migration transition matrix ([Ding2015], sections 5.2 and 6) -------------------------------


def transitions_of(stats: Tallied, least: int, most: int, *, smoothing: float = 0.0) -> dict[int, dict[int, float]]:
    """Return the transition matrix of a log's arrivals per window; windows in which nothing arrived count, too.

    See `node_counts` for `least` and `most`, the numbers of nodes, and `transition_matrix` for `smoothing`.
    """
    first, last = stats.span
    windows, tuples = stats.tuples
    arrivals = np.bincount(windows - first, tuples, minlength=last - first + 1)
    return transition_matrix(node_counts(arrivals, least, most), smoothing=smoothing)


# The statistics of one log ----------------------------------------------------------------------------------------------


class Stats(Tallied, AbstractContextManager["Stats"]):
    """Statistics of one log. Each table is a Spark DataFrame; the log is read once, when the first is asked for.

    Use it as a context manager, or call `close`, to free what Spark keeps in memory.

    Attributes
    ----------
    load : DataFrame
        operator, key_group, window_start, tuples, load. No row where no tuple arrived.
    state : DataFrame
        operator, key_group, window_start, state: held at the end of that window. No row where nothing is held.
    traffic : DataFrame
        window_start, src_operator, src_key_group, dst_operator, dst_key_group, tuples, bytes (null unless the source
        operator has `bytes`). One tuple that passes both ends of an edge counts once.
    arrivals : DataFrame
        window_start, tuples: every row of the log that has a time, whether or not an operator takes it.
    rejected : DataFrame
        kind, rows: rows of the log that at least one operator had to refuse for that reason.
    rejected_by_operator : DataFrame
        operator, kind, rows; operator is null where the whole row is unusable.
    """

    @in_one_sentence()
    def workload(
        self,
        nodes: int | ArrayLike,
        *,
        current: ArrayLike | None = None,
        draining: Sequence[int] = (),
        placement: str = "ranges",
        traffic: str = "tuples",
        last: int | None = None,
        max_rows: int = DRIVER_ROWS,
    ) -> Workload:
        """Return the workload of this log: all its windows, and the state and traffic of the last one.

        The key groups stand in operator order: index = operator * key_groups + key_group; their labels are
        "<operator>/<key group>".

        Parameters
        ----------
        nodes : int or array_like, shape (n,)
            Number of nodes, or their capacities. Every operator's key groups are spread over all of them.
        current : array_like of int, shape (p,), optional
            Where the key groups run now. Default: where the placement puts them.
        draining : sequence of int, optional
            Nodes to be removed.
        placement : {"ranges", "modulo", "consistent"}, default "ranges"
            Key group -> node, the same for every operator, see `keyshift.models.placement`: Flink's even ranges,
            ``key_group * nodes // key_groups``, or another. It also is the workload's `home`.
        traffic : {"tuples", "bytes"}, default "tuples"
            Unit of the traffic. "bytes" needs `bytes` for every operator with an outgoing edge.
        last : int, optional
            Only this many of the last windows. Windows in which nothing arrived count, with load 0.
        max_rows : int, default 5,000,000
            The most rows of a table, or numbers of a matrix, that the driver may hold.

        Raises
        ------
        InputError
            When the log has no usable row, a limit is exceeded, or an argument is wrong.
        """
        first, end = self.span
        last = guards.whole("last", last, least=1)
        first = first if last is None else max(first, end - last + 1)
        return from_tables(
            *_tables(self, max_rows), first, end, nodes, placement,
            current=current, draining=draining, traffic=traffic, max_rows=max_rows,
        )  # fmt: skip

    workloads = workloads
    transitions = transitions

    @in_one_sentence()
    def keys(self, operator: str | None = None, *, number: int | None = None) -> Keys:
        """Return load, state and traffic of each single key of an operator. This reads the log again, once for each question.

        Parameters
        ----------
        operator : str, optional
            Its name; needed if there are more.
        number : int, optional
            Number of the window; default: the last in which it accepts a tuple.
        """
        from keyshift.spark_stats.keys import Keys  # with pandas, which nothing else here needs

        if self.log is None:
            raise InputError("these statistics are of a stream that has ended: statistics of single keys need the log")
        if number is None and "arrivals_and_refusals" in self.__dict__:  # what has been counted says it
            accepted = F.col("kind") == (0 if operator is None else self.topology.number(operator))
            windows = self._facts.unpacked.where(accepted).select("window").distinct().collect()
            number = max((window for (window,) in windows), default=None)
        keys = Keys(self.log(operator), operator, number)
        self.of_keys.append(keys)
        keys.number  # noqa: B018 - refuses an operator that accepts nothing
        return keys

    @in_one_sentence()
    def write(
        self,
        path: str | Path,
        *,
        nodes: int | ArrayLike | None = None,
        placement: str | None = None,
        cluster: dict[str, Any] | None = None,
        keys: Sequence[str] = (),
        units: Mapping[str, str] | None = None,
    ) -> None:
        """Write the statistics to a directory, completely or not at all; see `keyshift.spark_stats.statistics_files`.

        Windows that the directory holds already are replaced, and others stay.

        Parameters
        ----------
        path : str or Path
            A new directory, or one of statistics of the same topology, windows and key groups; also a URL such as
            ``hdfs://...``, see `keyshift.spark_stats.hadoop`.
        nodes, placement : optional
            What `keyshift.read_workload` takes by default when it reads the directory: a number of nodes, or their capacities.
        cluster : dict, optional
            The options of `keyshift stats` about nodes: capacities, draining, current.
        keys : sequence of str, optional
            Operators whose single keys are written as well: the table ``keys``, with window_start, operator, key, key_group,
            tuples, load and state_added.
        units : mapping of str to str, optional
            Units of `load` and `state` for people, as a `Workload` has them. Default: bytes of state if all operators add up
            columns whose names have the word *bytes*.
        """
        known = output.cluster_of(nodes)
        options = {**known, "placement": placement, "cluster": cluster or known.get("cluster"), "units": units}
        output.write(self, place(path, self._facts.frame.sparkSession), options=options, keys=keys)


# collect: statistics of a log that is all there ------------------------------------------------------------------------


def collect(
    events: DataFrame | Mapping[str, DataFrame],
    topology: Topology,
    *,
    time: str | None = None,
    window: str | timedelta | None = None,
    origin: str | datetime | None = None,
    time_zone: str | None = None,
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    key_groups: int = 128,
    hash: str = "xxhash64",
    strict: bool = False,
) -> Stats:
    """Gather load, state and traffic of a topology from the log of its tuples.

    Parameters
    ----------
    events : DataFrame
        The log, one row for each tuple; or the logs by name, where the operators name theirs.
    topology : Topology
        The operators, in Spark SQL over the log's columns, and the edges between them.
    time : str, optional
        Spark SQL for a tuple's time: a timestamp, or what casts to one (numbers are seconds since 1970). Rows without
        one are refused. May be left out with ``window=None``.
    window : str or timedelta, optional
        Length of the statistic windows, such as "1 hour" or "2 weeks". Default: one window for the whole log.
    origin : str or datetime, optional
        An instant at which a window starts. Default 1970-01-01 00:00 UTC, a Thursday, so that weeks begin on Thursdays.
    time_zone : str, optional
        Begin windows of whole days at midnight of this time zone, such as "Europe/Berlin"; "session" is Spark's own setting,
        ``spark.sql.session.timeZone``. Default: UTC.
    since, until : str or datetime, optional
        Rows of earlier times than `since`, and of `until` and later, are left out, and counted. Without them a few rows that lie
        so far from the others that most windows would be empty are refused, with what would leave them out.
    key_groups : int, default 128
        Key groups of every operator.
    hash : str, default "xxhash64"
        Key -> key group; see `keyshift.spark_stats.key_groups.KeyGroups`.
    strict : bool, default False
        Read the log at once, and raise an error if any row was refused.

    Returns
    -------
    Stats
        Lazy (unless strict): Spark reads the log when the first table is asked for, and only once.

    Raises
    ------
    InputError
        Before any job starts: an expression that does not fit the log, a wrong length, origin or hash. With `strict`,
        for refused rows: how many of which kind.
    """
    for frame in events.values() if isinstance(events, Mapping) else [events]:
        refuse_connect_frame(frame)
    if time is None and (needs := {"window": window, "since": since, "until": until}) != dict.fromkeys(needs):
        name, value = next((name, value) for name, value in needs.items() if value is not None)
        raise InputError(f"{name} = {value!r} needs the time of a tuple: give time")
    windows = Windows.of(window, origin, zone_of(events, time_zone), since, until)
    groups = KeyGroups(key_groups, hash)
    tuples = read_all(events, topology, time, windows, groups)
    stats = Stats(gather(tuples, topology), topology, windows, groups)
    stats.log = lambda operator: KeyLog.of(events, topology, time, windows, groups, operator)
    if strict:
        refuse(stats.rejected_counts())
    return stats


def refuse(rejected: Mapping[str, int]) -> None:
    """Raise if rows were refused."""
    if rejected:
        counts = ", ".join(f"{kind}: {rows}" for kind, rows in rejected.items())
        raise InputError(f"the log is not clean, and strict was asked for ({counts})")
