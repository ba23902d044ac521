"""From single keys to problems: what of millions of keys a problem has to know, and no more, comes to the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import ArrayLike
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keyshift.models.errors import InputError
from keyshift.models.placement import placement as place
from keyshift.models.splitting import KeyPlacement, KeySplitting
from keyshift.models.splitting.stream import CHUNK, as_keys
from keyshift.models.workload import IntArray, Workload
from keyshift.spark_stats.facts import TOO_MANY, rows_of
from keyshift.spark_stats.failures import in_one_sentence
from keyshift.spark_stats.key_groups import label
from keyshift.spark_stats.key_tables import KeyTables
from keyshift.spark_stats.statistics_files import DRIVER_ROWS, node_count


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
