"""From single keys to problems: what of millions of keys a problem has to know, and no more, comes to the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import ArrayLike
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from keyshift.models import guards
from keyshift.models.errors import InputError
from keyshift.models.files.statistics import DRIVER_ROWS
from keyshift.models.placement import placement as place
from keyshift.models.routing import MixedRouting
from keyshift.models.splitting import KeyPlacement, KeySplitting
from keyshift.models.splitting.stream import CHUNK, as_keys
from keyshift.models.workload import FloatArray, IntArray, Workload
from keyshift.spark_stats.failures import in_one_sentence
from keyshift.spark_stats.key_groups import label

if TYPE_CHECKING:
    from keyshift.spark_stats.keys import Keys

SLICES = 256
"""At most this many chunks in a stream made of a histogram."""


@in_one_sentence()
def mixed_routing(
    keys: Keys,
    nodes: int | ArrayLike,
    theta_max: float,
    *,
    degree: int = 64,
    movable: int = 1000,
    exceptions: Mapping[Any, int] | None = None,
    placement: str = "ranges",
    max_rows: int = DRIVER_ROWS,
    **options: Any,
) -> MixedRouting:
    r"""Pose mixed routing for the keys of one operator, without bringing them all to the driver.

    Keys alike in home, and in load and state after HLHE discretisation of degree R, are one record of paper 4, made
    in Spark. Of each record at most `movable` keys are *listed*: keys of the problem, with their true load and state.
    All others stay at home. With b_d their load on node d, T the load of the listed keys and L that of all, constraint
    (2) for all keys,

    .. math:: b_d + \sum_k c_k x_{kd} \le (1 + \theta_{max})\, L\, q_d / \sum_i q_i =: U_d,

    is constraint (2) for the listed keys alone, with capacities :math:`q'_d = U_d - b_d`, what the other keys leave, and
    :math:`\theta' = \theta_{max} L / T`. So every node's true load is within what was asked for, and the state moved is
    the true one. What is given up is moving more than `movable` keys of a record: an optimum is one among plans that
    move listed keys, and where there is none with a small `movable` there may be one with a larger.

    Parameters
    ----------
    keys : Keys
    nodes : int or array_like, shape (n,)
        Number of nodes, or their capacities.
    theta_max : float
        As for `MixedRouting`, like max_table_size among the further options; `sides` is "upper".
    degree : int, default 64
        R of HLHE, a power of two: larger means more records.
    movable : int, default 1000
        Keys of one record that may leave their node.
    exceptions : mapping of key to node, optional
        The routing table in force: keys that do not run at home now. They are always listed.
    placement : str, default "ranges"
        Key group -> node.
    max_rows : int
        At most this many keys are listed.

    Returns
    -------
    MixedRouting
        ``workload.keys`` are the listed keys (see `keyshift.spark_stats.key_groups.label`). `keyshift.engines.spark.route`
        takes its solutions. Figures relative to capacities, such as theta, are relative to what the other keys leave.

    Raises
    ------
    InputError
        More listed keys than `max_rows`; a node whose other keys alone are too much, or a key for which they leave no
        room anywhere: with more movable keys there may be some.
    """
    guards.whole("movable", movable, least=1, optional=False)
    if options.get("sides", "upper") != "upper":
        raise InputError(f"sides = {options['sides']!r}: keys that are not listed are known on the upper side only")
    n = int(nodes) if isinstance(nodes, int | np.integer) else int(np.size(nodes))
    guards.whole("nodes", n, least=1, optional=False)
    kind = keys.log.kind(keys.operator)
    classed = keys.classed(n, degree, placement, "load_class", "state_class").withColumn(
        "label", label(F.col("key"), kind)
    )
    record = Window.partitionBy("home", "load_class", "state_class").orderBy("key")
    listed = F.row_number().over(record) <= movable
    if exceptions:
        listed = listed | F.col("label").isin(list(exceptions))
    named = classed.withColumn("listed", listed).where("listed").select("label", "home", "load", "state")
    table = _limited(named, max_rows, "take a smaller degree or fewer movable keys")
    table = table.sort_values("label", ignore_index=True)
    room, theta = _room(_totals(keys, n, placement), table, nodes, theta_max)
    home = table["home"].to_numpy(dtype=np.int64)
    current = home.copy()
    if exceptions:
        moved = table["label"].map(dict(exceptions))
        at = np.flatnonzero(moved.notna().to_numpy())
        current[at] = moved.to_numpy()[at].astype(np.int64)
    listed_keys = Workload(
        load=table["load"].to_numpy(),
        state=table["state"].to_numpy(),
        current=current,
        home=home,
        nodes=room / room.mean(),
        keys=table["label"].tolist(),
    )
    return MixedRouting(listed_keys, theta_max=theta, **options)


def _totals(keys: Keys, nodes: int, placement: str) -> FloatArray:
    """Load of all keys by home, exact whatever the order of addition, shape (n,)."""
    load = F.sum(F.col("load").cast("decimal(38,14)")).cast("double").alias("load")
    found = keys.frame.groupBy("key_group").agg(load).toPandas().sort_values("key_group")
    homes = place(placement, keys.key_groups, nodes)[found["key_group"].to_numpy()]
    return np.bincount(homes, weights=found["load"].to_numpy(dtype=float), minlength=nodes)


def _room(
    totals: FloatArray, listed: pd.DataFrame, nodes: int | ArrayLike, theta_max: float
) -> tuple[FloatArray, float]:
    """Load that the keys which are not listed leave on each node, and the theta of the listed ones."""
    theta = guards.real("theta_max", theta_max, optional=False) or 0.0
    capacity = np.ones(totals.size) if np.ndim(nodes) == 0 else guards.non_negative("nodes", nodes)
    own = np.bincount(listed["home"].to_numpy(dtype=np.int64), weights=listed["load"], minlength=totals.size)
    others = np.maximum(totals - own, 0.0)
    limit = (1 + theta) * totals.sum() * capacity / capacity.sum()
    room = limit - others
    if (room <= 0).any():
        at = int(np.argmin(room))
        raise InputError(
            f"node {at}: the keys that are not listed carry {others[at]:g}, its limit is {limit[at]:g}: "
            "raise movable or theta_max"
        )
    heaviest = float(listed["load"].max()) if len(listed) else 0.0
    if heaviest > room.max() * (1 + 1e-9):
        raise InputError(
            f"a key carries {heaviest:g}, and beside the keys that are not listed no node has room for more than "
            f"{room.max():g}: raise movable or theta_max"
        )
    return room, room.sum() / (own.sum() or 1.0) - 1.0


@in_one_sentence()
def key_splitting(keys: Keys, workers: int | ArrayLike, *, max_rows: int = DRIVER_ROWS, **options: Any) -> KeySplitting:
    """Pose key splitting for the messages of the window, from the histogram of their keys.

    The messages are made of the histogram chunk by chunk, each key's spread evenly over the stream: optimum and bounds
    are those of the log, schemes that decide online see a stream without drift. `options` as for `KeySplitting`.
    """
    stream, _ = _histogram(keys, max_rows)
    return KeySplitting(stream, workers=workers, **options)


@in_one_sentence()
def key_placement(keys: Keys, workers: int | ArrayLike, *, max_rows: int = DRIVER_ROWS, **options: Any) -> KeyPlacement:
    """Pose key placement: one message for each key, of the weight of all its tuples."""
    _, (known, counts) = _histogram(keys, max_rows)
    return KeyPlacement(known, workers=workers, weights=counts.astype(float), **options)


def _histogram(keys: Keys, max_rows: int) -> tuple[Callable[[], Iterator[IntArray]], tuple[IntArray, IntArray]]:
    kind = keys.log.kind(keys.operator)
    counted = keys.frame.where("tuples > 0").select(label(F.col("key"), kind).alias("label"), "tuples")
    table = _limited(counted, max_rows, "take fewer keys, or a larger max_rows").sort_values("label", ignore_index=True)
    known = as_keys(table["label"].tolist() if table["label"].dtype == object else table["label"].to_numpy())
    counts = table["tuples"].to_numpy(dtype=np.int64)
    return lambda: messages(known, counts), (known, counts)


def messages(keys: IntArray, counts: IntArray, seed: int = 0, chunk: int = CHUNK) -> Iterator[IntArray]:
    """Every key as often as it counts, in chunks, evenly spread: message i of c comes at time (i + u) / c, 0 <= u < 1."""
    rng = np.random.default_rng(seed)
    offset = rng.random(keys.size)
    slices = int(min(SLICES, max(1, counts.sum() // chunk)))
    before = np.zeros(keys.size, dtype=np.int64)
    for number in range(1, slices + 1):
        until = (
            counts
            if number == slices
            else np.minimum(np.floor(counts * (number / slices) + offset).astype(np.int64), counts)
        )
        part = np.repeat(keys, until - before)
        rng.shuffle(part)
        before = until
        if part.size:
            yield part


@in_one_sentence()
def workload(
    keys: Keys,
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
        "<operator>/<key>", else the keys alone.
    """
    others = [keys.log.keys(name, keys.number) for name in to]
    tables = [_table(part, max_rows) for part in (keys, *others)]
    n = int(nodes) if isinstance(nodes, int | np.integer) else int(np.size(nodes))
    start = np.concatenate([[0], np.cumsum([len(table) for table in tables])])
    homes = place(placement, keys.key_groups, n)
    home = np.concatenate([homes[table["key_group"].to_numpy()] for table in tables])
    traffic = None
    if others:
        blocks = []
        for number, (name, table) in enumerate(zip(to, tables[1:], strict=True), start=1):
            pairs = _limited(_labelled(keys, name), max_rows, "take a shorter window")
            source = pd.Index(tables[0]["label"]).get_indexer(pairs["src"])
            target = pd.Index(table["label"]).get_indexer(pairs["dst"]) + start[number]
            blocks.append((pairs["tuples"].to_numpy(dtype=float), source, target))
        values, rows, columns = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        traffic = sp.csr_array((values, (rows, columns)), shape=(home.size, home.size))
    names = [table["label"].tolist() for table in tables]
    if others:
        names = [[f"{op}/{key}" for key in part] for op, part in zip((keys.name, *to), names, strict=True)]
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


def _table(keys: Keys, max_rows: int) -> pd.DataFrame:
    named = keys.frame.withColumn("label", label(F.col("key"), keys.log.kind(keys.operator)))
    chosen = named.select("label", "key_group", "load", "state")
    return _limited(chosen, max_rows, "take key groups instead of keys").sort_values("label", ignore_index=True)


def _labelled(keys: Keys, to: str) -> DataFrame:
    names = {"src": (keys.operator, "src_key"), "dst": (keys.log.topology.number(to), "dst_key")}
    columns = [label(F.col(column), keys.log.kind(o)).alias(name) for name, (o, column) in names.items()]
    return keys.traffic(to).select(*columns, "tuples")


def _limited(table: DataFrame, max_rows: int, remedy: str) -> pd.DataFrame:
    """Count before anything comes to the driver: a refusal names the number."""
    rows = table.count()
    if rows > max_rows:
        raise InputError(f"{rows} rows would come to the driver, more than max_rows = {max_rows}: {remedy}")
    found: pd.DataFrame = table.toPandas()
    return found
