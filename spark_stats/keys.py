"""Statistics of single keys, and the problems that they pose: mixed routing, key splitting, allocation key by key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import ArrayLike
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keyshift.models.base import guards
from keyshift.models.base.figures import apart
from keyshift.models.errors import InputError
from keyshift.models.placement import placement as place
from keyshift.models.routing import MixedRouting
from keyshift.models.splitting import KeyPlacement, KeySplitting
from keyshift.models.splitting.stream import CHUNK, as_keys
from keyshift.models.workload import FloatArray, IntArray, Workload
from keyshift.spark_stats.acceptance import joined, split
from keyshift.spark_stats.facts import TOO_MANY, rows_of
from keyshift.spark_stats.failures import in_one_sentence
from keyshift.spark_stats.key_groups import KeyGroups, label
from keyshift.spark_stats.key_tables import KeyLog, KeyTables
from keyshift.spark_stats.statistics_files import DRIVER_ROWS, node_count
from keyshift.spark_stats.topology import Topology
from keyshift.spark_stats.windows import Windows, zone_of

# Key splitting, key placement, and workloads key by key -----------------------------------------------------------------


@in_one_sentence()
def key_splitting(
    keys: KeyTables, workers: int | ArrayLike, *, max_rows: int = DRIVER_ROWS, **options: Any
) -> KeySplitting:
    """Pose key splitting for the messages of the window, from the histogram of their keys.

    The messages are made of the histogram chunk by chunk, each key's spread evenly over the stream: optimum and bounds
    are those of the log, schemes that decide online see a stream without drift. `options` as for `KeySplitting`.
    """
    stream, _ = _histogram(keys, max_rows)
    return KeySplitting(stream, workers=workers, **options)


@in_one_sentence()
def key_placement(
    keys: KeyTables, workers: int | ArrayLike, *, max_rows: int = DRIVER_ROWS, **options: Any
) -> KeyPlacement:
    """Pose key placement: one message for each key, of the weight of all its tuples."""
    _, (known, counts) = _histogram(keys, max_rows)
    return KeyPlacement(known, workers=workers, weights=counts.astype(float), **options)


def _histogram(keys: KeyTables, max_rows: int) -> tuple[Callable[[], Iterator[IntArray]], tuple[IntArray, IntArray]]:
    kind = keys.log.kind(keys.operator)
    with keys.held():
        counted = keys.frame.where("tuples > 0").select(label(F.col("key"), kind).alias("label"), "tuples")
        found = rows_of(counted, max_rows, f"{TOO_MANY}: take fewer keys, or a larger max_rows")
    table = found.sort_values("label", ignore_index=True)
    known = as_keys(table["label"].tolist() if table["label"].dtype == object else table["label"].to_numpy())
    counts = table["tuples"].to_numpy(dtype=np.int64)
    return lambda: messages(known, counts), (known, counts)


def messages(keys: IntArray, counts: IntArray, seed: int = 0, chunk: int = CHUNK) -> Iterator[IntArray]:
    """Every key as often as it counts, in chunks, evenly spread: message i of c comes at time (i + u) / c, 0 <= u < 1."""
    rng = np.random.default_rng(seed)
    offset = rng.random(keys.size)
    # At most this many chunks in a stream made of a histogram.
    slices = int(min(256, max(1, counts.sum() // chunk)))
    before = np.zeros(keys.size, dtype=np.int64)
    for number in range(1, slices + 1):
        whole = np.floor(counts * (number / slices) + offset).astype(np.int64)
        until = counts if number == slices else np.minimum(whole, counts)
        part = np.repeat(keys, until - before)
        rng.shuffle(part)
        before = until
        if part.size:
            yield part


@in_one_sentence()
def workload(
    keys: KeyTables,
    nodes: int | ArrayLike,
    *,
    to: Sequence[str] = (),
    placement: str = "ranges",
    current: ArrayLike | None = None,
    max_rows: int = DRIVER_ROWS,
) -> Workload:
    """Return a workload with a key group for each key, in the order of the keys, and its traffic.

    Parameters
    ----------
    to : sequence of str
        Downstream operators whose keys come in as well, with the traffic to them. Labels are then
        "<operator>/<key>", else the keys alone. An operator that sends to itself may be its own.
    """
    places = {name: number for number, name in enumerate(dict.fromkeys((keys.name, *to)))}
    with keys.held(*to):
        tables = [_table(keys, keys.log.topology.number(name), max_rows) for name in places]
        found = [rows_of(_labelled(keys, name), max_rows, f"{TOO_MANY}: take a shorter window") for name in to]
    start = np.concatenate([[0], np.cumsum([len(table) for table in tables])])
    homes = place(placement, keys.key_groups, node_count(nodes))
    home = np.concatenate([homes[table["key_group"].to_numpy()] for table in tables])
    traffic = None
    if to:
        blocks = []
        for name, pairs in zip(to, found, strict=True):
            source = pd.Index(tables[0]["label"]).get_indexer(pairs["src"])
            if (source < 0).any():
                unknown = pairs["src"][source < 0].iloc[0]
                said = f"{keys.name!r} sends to {name!r} under the key {unknown!r}, of which it holds nothing"
                raise InputError(said)
            target = pd.Index(tables[places[name]]["label"]).get_indexer(pairs["dst"]) + start[places[name]]
            blocks.append((pairs["tuples"].to_numpy(dtype=float), source, target))
        values, rows, columns = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        traffic = sp.csr_array((values, (rows, columns)), shape=(home.size, home.size))
    names = [table["label"].tolist() for table in tables]
    if to:
        names = [[f"{op}/{key}" for key in part] for op, part in zip(places, names, strict=True)]
    return Workload(
        load=np.concatenate([table["load"] for table in tables]),
        state=np.concatenate([table["state"] for table in tables]),
        current=home if current is None else current,
        nodes=nodes,
        traffic=traffic,
        operator=np.repeat(np.arange(len(tables)), [len(table) for table in tables]),
        home=home,
        keys=[key for part in names for key in part],
    )


def _table(keys: KeyTables, o: int, max_rows: int) -> pd.DataFrame:
    named = keys.of_operator(o).withColumn("label", label(F.col("key"), keys.log.kind(o)))
    chosen = named.select("label", "key_group", "load", "state")
    return rows_of(chosen, max_rows, f"{TOO_MANY}: take key groups instead of keys").sort_values(
        "label", ignore_index=True
    )


def _labelled(keys: KeyTables, to: str) -> DataFrame:
    names = {"src": (keys.operator, "src_key"), "dst": (keys.log.topology.number(to), "dst_key")}
    columns = [label(F.col(column), keys.log.kind(o)).alias(name) for name, (o, column) in names.items()]
    return keys.traffic(to).select(*columns, "tuples")


# Mixed routing of the keys of one operator: what of millions of keys the problem has to know comes to the driver.

MULTIPLES = (16.0, 8.0, 4.0, 2.0, 1.25)
"""Of a node's excess, how much the listed keys carry: the first that does not list too many."""


def quotas(records: pd.DataFrame, limit: FloatArray, loads: FloatArray, most: int) -> IntArray:
    """Return how many keys of each record to list, at most `most` in all.

    A node sheds what is above its limit, its *excess*, and no key has to leave a node that is within it, except to make
    room. So of each home are listed

    * some keys of every record, to fit the last gaps and to be swapped;
    * the heaviest keys that are not more than the excess, until they carry a multiple of it: plans with few table entries;
    * those of the most load for their state, likewise: plans that move little state.

    Where the lighter keys of a home are less than its excess, one of its heavier keys has to leave, and so the roomiest
    nodes need keys that make room for it: these have an excess then, too.

    Parameters
    ----------
    records : DataFrame
        home, load and heaviest (the sum and the largest of its keys' loads), state (about, of each key), count.
    limit, loads : ndarray, shape (n,)
        What each node may carry; what it carries if all keys stay, or go home.

    Raises
    ------
    InputError
        `most` is not even a key of each record, or not enough to shed the excess.
    """
    count = records["count"].to_numpy(dtype=np.int64)
    if count.sum() <= most:
        return count
    if most < 2 * len(records):
        said = f"movable = {most} keys are too few for {len(records)} records of keys alike: raise it, or take a larger degree"
        raise InputError(said)
    # Keys of a record that are listed in any case, if the number of records allows.
    some = np.minimum(count, min(16, most // (2 * len(records))))
    excess = excesses(records, limit, loads)
    for multiple in MULTIPLES:
        wanted = np.maximum(some, walked(records, excess, multiple))
        if wanted.sum() <= most:
            return wanted
    raise InputError(
        f"{wanted.sum()} keys would have to be listed to shed what nodes carry above their limits, more than movable = "
        f"{most}: raise it, or theta_max"
    )


def excesses(records: pd.DataFrame, limit: FloatArray, loads: FloatArray) -> FloatArray:
    """Load that each node has to shed, shape (n,): for its own limit, or to make room for a heavy key."""
    excess = np.maximum(loads - limit, 0.0)
    home, heaviest = records["home"].to_numpy(dtype=np.int64), records["heaviest"].to_numpy(dtype=float)
    light = heaviest <= excess[home]
    carried = np.bincount(home[light], weights=records["load"].to_numpy(dtype=float)[light], minlength=limit.size)
    forced = np.flatnonzero((excess > 0) & (carried < excess))
    leaving = np.sort([heaviest[(home == d) & ~light].min(initial=np.inf) for d in forced])[::-1]
    roomiest = np.argsort(loads - limit, kind="stable")[: leaving.size]
    roomiest, leaving = roomiest[excess[roomiest] == 0], leaving[: int((excess[roomiest] == 0).sum())]
    leaving = np.where(np.isfinite(leaving), leaving, 0.0)
    excess[roomiest] = np.maximum(leaving - (limit - loads)[roomiest], 0.0)
    return excess


def walked(records: pd.DataFrame, excess: FloatArray, multiple: float) -> IntArray:
    """Keys of each record until those before it carry a multiple of the home's excess, in two orders."""
    home, count = records["home"].to_numpy(dtype=np.int64), records["count"].to_numpy(dtype=np.int64)
    load, state = records["load"].to_numpy(dtype=float), records["state"].to_numpy(dtype=float)
    each = load / count
    usable = (records["heaviest"].to_numpy(dtype=float) <= excess[home]) & (each > 0)
    psi = each / np.where(state > 0, state, 1e-300)
    wanted = np.zeros_like(count)
    for order in (np.lexsort((-each, home)), np.lexsort((each, -psi, home))):
        order = order[usable[order]]
        total = np.cumsum(load[order])
        first = np.searchsorted(home[order], home[order])  # where its home's records begin
        before = total - load[order] - (total - load[order])[first]
        missing = np.clip(multiple * excess[home[order]] - before, 0.0, None)
        part = np.minimum(np.ceil(missing / each[order] * (1 - 1e-12)).astype(np.int64), count[order])
        wanted[order] = np.maximum(wanted[order], part)
    return wanted


RECORD = ("home", "load_class", "state_class")


@in_one_sentence()
def mixed_routing(
    keys: KeyTables,
    nodes: int | ArrayLike,
    theta_max: float,
    *,
    degree: int = 64,
    movable: int = 200_000,
    exceptions: Mapping[Any, int] | None = None,
    placement: str = "ranges",
    max_rows: int = DRIVER_ROWS,
    **options: Any,
) -> MixedRouting:
    r"""Pose mixed routing for the keys of one operator, without bringing them all to the driver.

    Keys alike in home, and in the classes of load and state that HLHE of degree R has, are one record, counted and added
    up in Spark. The records say what each node carries and by how much that is too much, and so how many keys of which
    record may have to leave it (see `quotas`): so many are *listed*, in the order of a hash.
    They are the keys of the problem, with their true load and state; all others stay at home. With b_d their load on
    node d, T the load of the listed keys and L that of all, constraint (2) for all keys,

    .. math:: b_d + \sum_k c_k x_{kd} \le (1 + \theta_{max})\, L\, q_d / \sum_i q_i =: U_d,

    is constraint (2) for the listed keys alone, with capacities :math:`q'_d = U_d - b_d`, what the other keys leave, and
    :math:`\theta' = \theta_{max} L / T`. So every node's true load is within what was asked for, and the state moved is
    the true one. What is given up is moving keys that are not listed: an optimum is one among plans that move listed
    keys. Operators with at most `movable` keys list them all, and give up nothing.

    Parameters
    ----------
    keys : Keys
    nodes : int or array_like, shape (n,)
        Number of nodes, or their capacities.
    theta_max : float
        As for `MixedRouting`, like max_table_size among the further options; `sides` is "upper".
    degree : int, default 64
        R of HLHE, a power of two: larger means fewer records.
    movable : int, default 200,000
        Keys that are listed at most, over all nodes.
    exceptions : mapping of key to node, optional
        The routing table in force: keys that do not run at home now. They are always listed.
    placement : str, default "ranges"
        Key group -> node.
    max_rows : int
        At most this many records, and this many exceptions.

    Returns
    -------
    MixedRouting
        ``workload.keys`` are the listed keys (see `keyshift.spark_stats.key_groups.label`). `keyshift.engines.spark.route`
        takes its solutions. Figures relative to capacities, such as theta, are relative to what the other keys leave.

    Raises
    ------
    InputError
        More records than `max_rows`; too few movable keys to shed what nodes carry above their limits; a node whose other
        keys alone are too much, or a key for which they leave no room anywhere.
    """
    guards.whole("movable", movable, least=1, optional=False)
    if options.get("sides", "upper") != "upper":
        raise InputError(f"sides = {options['sides']!r}: keys that are not listed are known on the upper side only")
    n = node_count(nodes)
    for key, node in (exceptions or {}).items():
        if not isinstance(node, int | np.integer) or not 0 <= node < n:
            raise InputError(f"exceptions[{key!r}] = {node!r} is not a node: they are numbered 0 to {n - 1}")
    theta = guards.real("theta_max", theta_max, optional=False)
    capacity = np.ones(n) if np.ndim(nodes) == 0 else guards.non_negative("nodes", nodes)
    with keys.held():
        classed, found = _records(keys.homed(n, placement), degree, max_rows)
        totals = np.bincount(found["home"], weights=found["load"], minlength=n)
        limit = (1 + theta) * totals.sum() * capacity / capacity.sum()
        kind = keys.log.kind(keys.operator)
        named = classed.withColumn("label", label(F.col("key"), kind))
        away = _exceptions(named, exceptions or {}, kind, max_rows)
        loads = totals.copy()
        np.add.at(loads, away["home"].to_numpy(dtype=np.int64), -away["load"].to_numpy(dtype=float))
        np.add.at(loads, away["node"].to_numpy(dtype=np.int64), away["load"].to_numpy(dtype=float))
        found["listed"] = quotas(found, limit, np.maximum(loads, totals), movable)
        table = pd.concat([away, _listed(named, found)]).drop_duplicates("label").sort_values("label")
    room, theta = _room(totals, limit, table)
    listed_keys = Workload(
        load=table["load"].to_numpy(),
        state=table["state"].to_numpy(),
        current=table["node"].fillna(table["home"]).to_numpy(dtype=np.int64),
        home=table["home"].to_numpy(dtype=np.int64),
        nodes=room / room.mean(),
        keys=table["label"].tolist(),
    )
    return MixedRouting(listed_keys, theta_max=theta, **options)


def _records(homed: DataFrame, degree: int, max_rows: int) -> tuple[DataFrame, pd.DataFrame]:
    """The keys with their classes; and the records: home, classes, count, load, heaviest, state. Sums are exact."""
    if degree < 1 or degree & (degree - 1):
        raise InputError(f"the degree of discretisation R = {degree} must be a power of two")
    span = homed.agg(
        *(
            function(F.when(F.col(name) > 0, F.col(name))).alias(f"{function.__name__}_{name}")
            for name in ("load", "state")
            for function in (F.min, F.max)
        )
    ).collect()[0]
    classes = {
        f"{name}_class": _rung(F.col(name), degree, span[f"min_{name}"] or 1.0, span[f"max_{name}"] or 1.0)
        for name in ("load", "state")
    }
    classed = homed.withColumns(classes)
    limbs = split(F.col("load"), whole=False)
    counted = classed.groupBy(*RECORD).agg(
        F.count(F.lit(1)).alias("count"),
        joined([F.sum(limb) for limb in limbs]).alias("load"),
        F.max("load").alias("heaviest"),
    )
    found = rows_of(counted, max_rows, "more than max_rows = {most} records of keys alike: take a larger degree")
    found = found.sort_values(list(RECORD), ignore_index=True)
    return classed, found.assign(state=found["state_class"])


def _rung(value: Column, degree: int, least: float, most: float) -> Column:
    """The largest of HLHE's representatives that is not above a value, in units of `least`, the smallest positive one."""
    x, top = value / F.lit(least or 1.0), max(float(np.floor(most / (least or 1.0) / degree)), 1.0) * degree
    linear = F.least(F.floor(x / degree) * degree, F.lit(top))
    return F.when(x >= degree, linear).when(x > 0, F.pow(F.lit(2.0), F.floor(F.log2(x)))).otherwise(0.0).cast("double")


def _exceptions(named: DataFrame, exceptions: Mapping[Any, int], kind: T.DataType, max_rows: int) -> pd.DataFrame:
    """The keys that do not run at home now: label, home, load, state, node."""
    if len(exceptions) > max_rows:
        raise InputError(f"{len(exceptions)} exceptions are more than max_rows = {max_rows}")
    columns = ["label", "home", "load", "state", "node"]
    if not exceptions:
        return pd.DataFrame({name: pd.Series(dtype=float if name != "label" else object) for name in columns})
    spark, text = named.sparkSession, "bigint" if isinstance(kind, T.IntegralType) else "string"
    entries = spark.createDataFrame(
        pd.DataFrame({"label": list(exceptions), "node": [int(node) for node in exceptions.values()]}),
        f"label {text}, node long",
    )
    return named.join(F.broadcast(entries), "label").select(*columns).toPandas()


def _listed(named: DataFrame, records: pd.DataFrame) -> pd.DataFrame:
    """Bring as many keys of each record as are to be listed: those whose hash is smallest.

    A record's keys have hashes all over 64 bits, so that about the right number lies below a threshold; a few more are
    brought, and dropped here. Nothing is sorted in Spark.
    """
    wanted, count = records["listed"].to_numpy(), records["count"].to_numpy()
    share = np.minimum((wanted + 6 * np.sqrt(wanted) + 20) / count, 1.0)
    asked = records.assign(share=np.where(wanted < count, share, 1.0))[wanted > 0]
    chosen = named.sparkSession.createDataFrame(asked[[*RECORD, "listed", "share"]])
    # Of the hash by which the keys of a record are listed: another than that of their key groups.
    uniform: Column = F.xxhash64(F.lit(17), F.col("key")) / F.lit(2.0**64) + 0.5
    kept = named.withColumn("at", uniform).join(F.broadcast(chosen), list(RECORD)).where("at <= share")
    found: pd.DataFrame = kept.select(*RECORD, "label", "load", "state", "at", "listed").toPandas()
    found = found.sort_values([*RECORD, "at", "label"])
    rank = found.groupby(list(RECORD)).cumcount()
    return found.loc[rank < found["listed"], ["label", "home", "load", "state"]].assign(node=np.nan)


def _room(totals: FloatArray, limit: FloatArray, listed: pd.DataFrame) -> tuple[FloatArray, float]:
    """Load that the keys which are not listed leave on each node, and the theta of the listed ones."""
    own = np.bincount(listed["home"].to_numpy(dtype=np.int64), weights=listed["load"], minlength=totals.size)
    others = np.maximum(totals - own, 0.0)
    room = limit - others
    if (room <= 0).any():
        at = int(np.argmin(room))
        carried, most = apart(others[at], limit[at])
        raise InputError(
            f"node {at}: the keys that are not listed carry {carried}, its limit is {most}: raise movable or theta_max"
        )
    heaviest = float(listed["load"].max()) if len(listed) else 0.0
    if heaviest > room.max() * (1 + 1e-9):
        load, most = apart(heaviest, room.max())
        raise InputError(
            f"a key carries {load}, and beside the keys that are not listed no node has room for more than "
            f"{most}: raise movable or theta_max"
        )
    return room, room.sum() / (own.sum() or 1.0) - 1.0


# The public class ------------------------------------------------------------------------------------------------------


class Keys(KeyTables, AbstractContextManager["Keys"]):
    """Load and state of every key of one operator in one window, and its traffic; lazy Spark tables.

    Attributes
    ----------
    frame : DataFrame
        key, key_group, tuples, load (in the window), state (what the operator's last `windows` windows add).
    number : int
        The window's number.
    """

    key_splitting = key_splitting
    key_placement = key_placement
    workload = workload
    mixed_routing = mixed_routing


def collect_keys(
    events: DataFrame | Mapping[str, DataFrame],
    topology: Topology,
    operator: str | None = None,
    *,
    time: str | None = None,
    window: str | timedelta | None = None,
    origin: str | datetime | None = None,
    time_zone: str | None = None,
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    key_groups: int = 128,
    hash: str = "xxhash64",
    number: int | None = None,
) -> Keys:
    """Gather load and state per key of one operator in one window; the parameters are those of `collect`.

    Parameters
    ----------
    operator : str, optional
        Its name; needed if there are more.
    number : int, optional
        Number of the window; default: the last in which it accepts a tuple.
    """
    windows = Windows.of(window, origin, zone_of(events, time_zone), since, until)
    log = KeyLog.of(events, topology, time, windows, KeyGroups(key_groups, hash), operator)
    return Keys(log, operator, number)
