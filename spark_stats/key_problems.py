"""From single keys to problems: what of millions of keys a problem has to know, and no more, comes to the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import ArrayLike
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from keyshift.models import arrays
from keyshift.models.errors import InputError
from keyshift.models.files.statistics import DRIVER_ROWS
from keyshift.models.placement import placement as place
from keyshift.models.routing import MixedRouting
from keyshift.models.splitting import KeyPlacement, KeySplitting
from keyshift.models.splitting.stream import CHUNK, as_keys
from keyshift.models.workload import IntArray, Workload
from keyshift.spark_stats.failures import in_one_sentence
from keyshift.spark_stats.key_groups import label

if TYPE_CHECKING:
    from keyshift.spark_stats.keys import Keys

REST = "(the other keys of node {})"
"""Label of the entry that stands for all keys of a node that are not listed."""

SLICES = 256
"""At most so many chunks in a stream made of a histogram."""


@in_one_sentence()
def mixed_routing(
    keys: Keys,
    nodes: int | ArrayLike,
    theta_max: float,
    *,
    degree: int = 64,
    movable: int = 100,
    exceptions: Mapping[Any, int] | None = None,
    placement: str = "ranges",
    max_rows: int = DRIVER_ROWS,
    **options: Any,
) -> MixedRouting:
    """Pose mixed routing for the keys of one operator, without bringing them all to the driver.

    Keys alike in home, and in load and state after HLHE discretisation of degree R, are one record of [Fang2016], made
    in Spark. Of each record at most `movable` keys are *listed*: entries of the problem with their true load and
    state. All others of a node are one more entry, its rest, whose sums are exact too. So every node's load in the
    problem is the true one, before and after a plan. A rest's state is at least that of all listed keys together, so that an
    optimum moves a rest only where nothing else will do. What is given up is moving more than `movable` keys of a record:
    an optimum is one among plans that move listed keys, and where there is none with a small `movable` there may be one
    with a larger.

    Parameters
    ----------
    keys : Keys
    nodes : int or array_like, shape (n,)
        Number of nodes, or their capacities.
    theta_max : float
        As for `MixedRouting`, like the further options: max_table_size, sides.
    degree : int, default 64
        R of HLHE, a power of two: larger means more records.
    movable : int, default 100
        Keys of one record that may leave their node.
    exceptions : mapping of key to node, optional
        The routing table in force: keys that do not run at home now. They are always listed.
    placement : str, default "ranges"
        Key group -> node.
    max_rows : int
        At most so many keys are listed.

    Returns
    -------
    MixedRouting
        ``workload.keys`` are the keys themselves (see `keyshift.spark_stats.key_groups.label`), and at the end the
        rests. `keyshift.engines.spark.route` takes its solutions, and refuses one that moves a rest.
    """
    arrays.whole("movable", movable, least=1, optional=False)
    n = int(nodes) if isinstance(nodes, int | np.integer) else int(np.size(nodes))
    arrays.whole("nodes", n, least=1, optional=False)
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
    totals = _totals(keys, n, placement)
    rest = _rest(totals, table)
    home = np.concatenate([table["home"].to_numpy(dtype=np.int64), rest["home"].to_numpy(dtype=np.int64)])
    current = home.copy()
    if exceptions:
        moved = table["label"].map(dict(exceptions))
        at = np.flatnonzero(moved.notna().to_numpy())
        current[at] = moved.to_numpy()[at].astype(np.int64)
    workload_ = Workload(
        load=np.concatenate([table["load"], rest["load"]]),
        state=np.concatenate([table["state"], rest["state"]]),
        current=current,
        home=home,
        nodes=nodes,
        keys=[*table["label"].tolist(), *rest["label"]],
    )
    return MixedRouting(workload_, theta_max=theta_max, **options)


def _totals(keys: Keys, nodes: int, placement: str) -> pd.DataFrame:
    """Keys, load and state by home, exact whatever the order of addition: home, keys, load, state."""

    def exact(name: str) -> Column:
        return F.sum(F.col(name).cast("decimal(38,14)")).cast("double").alias(name)

    grouped = keys.frame.groupBy("key_group").agg(F.count(F.lit(1)).alias("keys"), exact("load"), exact("state"))
    found = grouped.toPandas().sort_values("key_group")
    homes = place(placement, keys.key_groups, nodes)
    found["home"] = homes[found["key_group"].to_numpy()]
    return found.groupby("home", as_index=False)[["keys", "load", "state"]].sum()


def _rest(totals: pd.DataFrame, listed: pd.DataFrame) -> pd.DataFrame:
    """What the keys that are not listed add up to, for each home that has such keys: home, load, state, label."""
    known = listed.assign(keys=1).groupby("home")[["keys", "load", "state"]].sum()
    whole = totals.set_index("home")[["keys", "load", "state"]]
    left = whole.sub(known.reindex(whole.index, fill_value=0))
    left = left[left["keys"] > 0].clip(lower=0.0)
    left["state"] = left["state"].clip(lower=float(listed["state"].sum()))
    return left.reset_index().assign(label=[REST.format(home) for home in left.index])


def is_rest(name: Any) -> bool:
    """Whether a label stands for the keys that are not listed."""
    return isinstance(name, str) and name.startswith(REST.split("{")[0]) and name.endswith(")")


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


def messages(keys: IntArray, counts: IntArray, seed: int = 0) -> Iterator[IntArray]:
    """Every key as often as it counts, in chunks, evenly spread: message i of c comes at time (i + u) / c, 0 <= u < 1."""
    rng = np.random.default_rng(seed)
    offset = rng.random(keys.size)
    slices = int(min(SLICES, max(1, counts.sum() // CHUNK)))
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
