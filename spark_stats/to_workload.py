"""From the statistics' tables to the matrices of a `Workload`, in the driver, within a limit of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from keyshift.models.errors import InputError
from keyshift.models.workload import Workload
from keyshift.spark_stats.placement import placement as place

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

    from keyshift.spark_stats.statistics import Stats

DRIVER_ROWS = 5_000_000
"""So many rows of one table may come to the driver, unless the caller says otherwise (about 40 bytes each)."""


def workload(
    stats: Stats,
    nodes: int | ArrayLike,
    *,
    current: ArrayLike | None = None,
    placement: str = "ranges",
    traffic: str = "tuples",
    last: int | None = None,
    max_rows: int = DRIVER_ROWS,
) -> Workload:
    """Return the workload of a log: all its windows, and the state and traffic of the last one.

    The key groups stand in operator order: index = operator * key_groups + key_group.

    Parameters
    ----------
    stats : Stats
        What `collect` returned.
    nodes : int or array_like, shape (n,)
        Number of nodes, or their capacities. Every operator's key groups are spread over all of them.
    current : array_like of int, shape (p,), optional
        Where the key groups run now. Default: where the placement puts them.
    placement : {"ranges", "modulo"}, default "ranges"
        Key group -> node, the same for every operator: Flink's even ranges, ``key_group * nodes // key_groups``, or
        ``key_group % nodes``. It also is the workload's `home`.
    traffic : {"tuples", "bytes"}, default "tuples"
        Unit of the traffic. "bytes" needs `bytes` on every operator that has an outgoing edge.
    last : int, optional
        Only so many windows, counted from the last. Windows in which nothing came are windows too, of load 0.
    max_rows : int, default 5,000,000
        The driver never holds more rows of a table, nor more numbers of a matrix.

    Raises
    ------
    InputError
        When the log has no usable row, a limit is exceeded, or an argument is wrong.
    """
    first, end = stats.span
    if last is not None:
        if last < 1:
            raise InputError(f"last = {last}: at least one window is needed")
        first = max(first, end - last + 1)
    per, p = stats.key_groups.count, stats.key_groups.count * len(stats.topology.operators)
    if (end - first + 1) * p > max_rows:
        raise InputError(
            f"{end - first + 1} windows of {p} key groups are more than max_rows = {max_rows} numbers: "
            "take longer windows, fewer key groups, or the last windows only (last = ...)"
        )
    load = np.zeros((end - first + 1, p))
    rows = rows_of(
        stats._operators.where(f"window >= {first}").select("window", "operator", "key_group", "load"), max_rows
    )
    load[rows["window"] - first, rows["operator"] * per + rows["key_group"]] = rows["load"]
    home = np.tile(place(placement, per, nodes if isinstance(nodes, int | np.integer) else np.size(nodes)), p // per)
    return Workload(
        load=load,
        state=_state(stats, end, p, max_rows),
        current=home if current is None else current,
        nodes=nodes,
        traffic=_traffic(stats, end, p, traffic, max_rows) if stats.topology.edges else None,
        operator=np.arange(p) // per,
        home=home,
        keys=[f"{name}/{group}" for name in stats.topology.names for group in range(per)],
    )


def rows_of(table: DataFrame, max_rows: int) -> pd.DataFrame:
    """Bring a table to the driver, unless it has more than `max_rows` rows."""
    rows: pd.DataFrame = table.limit(max_rows + 1).toPandas()
    if len(rows) > max_rows:
        raise InputError(
            f"more than max_rows = {max_rows} rows would come to the driver; raise max_rows, or ask for less"
        )
    return rows


def _state(stats: Stats, window: int, p: int, max_rows: int) -> np.ndarray[Any, Any]:
    state = np.zeros(p)
    start = stats.windows.start_of(window)
    rows = rows_of(stats.state.where(f"window_start = timestamp'{start.isoformat()}'"), max_rows)
    state[_index(stats, rows["operator"], rows["key_group"])] = rows["state"]
    return state


def _traffic(stats: Stats, window: int, p: int, unit: str, max_rows: int) -> sp.csr_array:
    if unit not in ("tuples", "bytes"):
        raise InputError(f"traffic = {unit!r} must be 'tuples' or 'bytes'")
    if unit == "bytes":
        for source, _ in stats.topology.numbered_edges:
            if stats.topology.operators[source].bytes is None:
                raise InputError(
                    f"traffic in bytes: operator {stats.topology.names[source]!r} has no `bytes` expression"
                )
    start = stats.windows.start_of(window)
    rows = rows_of(stats.traffic.where(f"window_start = timestamp'{start.isoformat()}'"), max_rows)
    source = _index(stats, rows["src_operator"], rows["src_key_group"])
    destination = _index(stats, rows["dst_operator"], rows["dst_key_group"])
    return sp.csr_array((rows[unit].to_numpy(dtype=float), (source, destination)), shape=(p, p))


def _index(stats: Stats, names: pd.Series[Any], groups: pd.Series[Any]) -> np.ndarray[Any, Any]:
    numbers = {name: o for o, name in enumerate(stats.topology.names)}
    operator = names.map(numbers).to_numpy(dtype=np.int64)
    return operator * stats.key_groups.count + groups.to_numpy(dtype=np.int64)
