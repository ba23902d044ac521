"""`collect`: statistics of a log that is all there."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from pyspark.sql import DataFrame

from keyshift.models.errors import InputError
from keyshift.spark_stats.acceptance import read_all
from keyshift.spark_stats.facts import gather
from keyshift.spark_stats.key_groups import KeyGroups
from keyshift.spark_stats.key_tables import KeyLog
from keyshift.spark_stats.session import refuse_connect_frame
from keyshift.spark_stats.statistics import Stats
from keyshift.spark_stats.topology import Topology
from keyshift.spark_stats.windows import Windows, zone_of


def collect(
    events: DataFrame | Mapping[str, DataFrame],
    topology: Topology,
    *,
    time: str | None = None,
    window: str | timedelta | None = None,
    origin: str | datetime | None = None,
    time_zone: str | None = None,
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
        An instant at which a window starts. Default 1970-01-01 00:00 UTC (a Thursday: mind it for weeks).
    time_zone : str, optional
        Cut windows of whole days by the clocks of this place, such as "Europe/Berlin"; "session" is Spark's own setting,
        ``spark.sql.session.timeZone``. Default: UTC.
    key_groups : int, default 128
        Key groups of every operator.
    hash : str, default "xxhash64"
        Key -> key group; see `keyshift.spark_stats.key_groups.KeyGroups`.

    strict : bool, default False
        Read the log at once, and raise if a single row had to be refused.

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
    if time is None and window is not None:
        raise InputError(f"window = {window!r} needs the time of a tuple: give time")
    windows = Windows.of(window, origin, zone_of(events, time_zone))
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
