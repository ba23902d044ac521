"""Statistics on disk, as `keyshift stats` writes them, and the workload they make. No Spark is needed to read them.

A directory of statistics holds

==============================================  =====================================================================
``statistics.json``                             what counts: topology, windows, key groups, and which run holds which
                                                window. Replaced in one step when a run is complete.
``runs/<run>/load/window=<number>/*.parquet``   window_start, operator, key_group, tuples, load, and what the window
                                                adds to the state: state_whole + state_high / 2**10 + state_low / 2**44
``runs/<run>/traffic/window=<number>/...``      window_start, src_operator, src_key_group, dst_operator, dst_key_group,
                                                tuples, bytes
``runs/<run>/arrivals/window=<number>/...``     window_start, tuples
==============================================  =====================================================================

Window `number` starts at ``origin + number * length``. An operator that keeps `windows` windows holds at the end of one
what that one and the ``windows - 1`` before it add. A folder under ``runs`` that the JSON file does not name is what a
killed job left; it does not count. Operators are numbers, in the topology's order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from keyshift.models import arrays
from keyshift.models.errors import InputError
from keyshift.models.placement import placement as place
from keyshift.models.workload import FloatArray, Workload

if TYPE_CHECKING:
    import scipy.sparse as sp

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 1
MANIFEST = "statistics.json"
HIGH, LOW = 2.0**10, 2.0**44
"""Scales of the whole numbers that a fractional sum is kept in."""

DRIVER_ROWS = 5_000_000
"""So many rows of one table, or numbers of one matrix, may be held, unless the caller says otherwise."""

LOAD_COLUMNS = ("window", "operator", "key_group", "load", "state_whole", "state_high", "state_low")
TRAFFIC_COLUMNS = ("src_operator", "src_key_group", "dst_operator", "dst_key_group", "tuples", "bytes")


def read_statistics(
    path: str | Path,
    nodes: int | ArrayLike | None = None,
    *,
    placement: str | None = None,
    traffic: str = "tuples",
    last: int | None = None,
    end: int | None = None,
    max_rows: int = DRIVER_ROWS,
) -> Workload:
    """Read a workload from a directory of statistics; the parameters are those of `assemble`.

    `nodes` and `placement` default to those with which the statistics were written, `end` - the number of the window to
    end with - to the last one; `last` takes only so many windows up to it.

    Raises
    ------
    InputError
        With the file and what is wrong with it; when no number of nodes is known; when a limit is exceeded.
    """
    source = Path(path)
    manifest = read_manifest(source)
    nodes = manifest.get("nodes") if nodes is None else nodes
    if nodes is None:
        raise InputError(f"{source} holds statistics that name no nodes: give nodes to read_statistics")
    held = sorted((number, run) for number, run in windows_of(manifest).items() if end is None or number <= end)
    if not held:
        raise InputError(f"{source} holds no window" + ("" if end is None else f" up to number {end}"))
    first, end, last = held[0][0], held[-1][0] if end is None else end, arrays.whole("last", last, least=1)
    first = first if last is None else max(first, end - last + 1)
    reach = max(operator["windows"] for operator in manifest["topology"]["operators"])
    needed = [(number, run) for number, run in held if number >= min(first, end - reach + 1)]
    load = _read(source, "load", needed, max_rows)
    edges = [(number, run) for number, run in needed if number == end]
    pairs = _read(source, "traffic", edges, max_rows) if manifest["topology"]["edges"] else None
    return assemble(
        load,
        pairs,
        span=(first, end),
        key_groups=manifest["key_groups"],
        operators=manifest["topology"]["operators"],
        nodes=nodes,
        placement=placement or manifest.get("placement") or "ranges",
        traffic=traffic,
        max_rows=max_rows,
    )


def assemble(
    load: Mapping[str, Any],
    pairs: Mapping[str, Any] | None,
    *,
    span: tuple[int, int],
    key_groups: int,
    operators: Sequence[Mapping[str, Any]],
    nodes: int | ArrayLike,
    current: ArrayLike | None = None,
    placement: str = "ranges",
    traffic: str = "tuples",
    max_rows: int = DRIVER_ROWS,
) -> Workload:
    """Make a workload of the statistics' rows: index = operator * key_groups + key_group.

    Parameters
    ----------
    load : mapping of column name to array
        `LOAD_COLUMNS`; rows before the span serve the state only.
    pairs : mapping of column name to array, optional
        `TRAFFIC_COLUMNS` of the last window.
    span : (int, int)
        Numbers of the first and the last window; those without a row have load 0.
    key_groups : int
        Key groups of every operator.
    operators : sequence of mappings
        With `name` and `windows` each.
    nodes : int or array_like, shape (n,)
        Number of nodes, or their capacities. Every operator's key groups are spread over all of them.
    current : array_like of int, shape (p,), optional
        Where the key groups run now. Default: where the placement puts them.
    placement : str, default "ranges"
        Key group -> node, see `keyshift.models.placement`. It also is the workload's `home`.
    traffic : {"tuples", "bytes"}, default "tuples"
        Unit of the traffic.
    max_rows : int, default 5,000,000
        Limit on the numbers in the load matrix.
    """
    (first, end), p = span, key_groups * len(operators)
    if (end - first + 1) * p > max_rows:
        raise InputError(
            f"{end - first + 1} windows of {p} key groups are more than max_rows = {max_rows} numbers: "
            "take longer windows, fewer key groups, or the last windows only (last = ...)"
        )
    window = np.asarray(load["window"], dtype=np.int64)
    index = np.asarray(load["operator"], dtype=np.int64) * key_groups + np.asarray(load["key_group"], dtype=np.int64)
    matrix = np.zeros((end - first + 1, p))
    inside = window >= first
    matrix[window[inside] - first, index[inside]] = np.asarray(load["load"], dtype=float)[inside]
    _, n = nodes, (int(nodes) if isinstance(nodes, int | np.integer) else np.size(nodes))
    home = np.tile(place(placement, key_groups, n), len(operators))
    return Workload(
        load=matrix,
        state=_held(load, window, index, end, p, [operator["windows"] for operator in operators], key_groups),
        current=home if current is None else current,
        nodes=nodes,
        traffic=None if pairs is None else _matrix(pairs, key_groups, p, traffic, operators),
        operator=np.arange(p) // key_groups,
        home=home,
        keys=[f"{operator['name']}/{group}" for operator in operators for group in range(key_groups)],
    )


def _held(
    load: Mapping[str, Any],
    window: np.ndarray[Any, Any],
    index: np.ndarray[Any, Any],
    end: int,
    p: int,
    windows: Sequence[int],
    key_groups: int,
) -> FloatArray:
    """State at the end of the last window: what the last windows of each operator add, in whole numbers."""
    kept = window > end - np.repeat(np.asarray(windows, dtype=np.int64), key_groups)[index]
    sums = []
    for name in ("state_whole", "state_high", "state_low"):
        total = np.zeros(p, dtype=np.int64)
        np.add.at(total, index[kept], np.asarray(load[name], dtype=np.int64)[kept])
        sums.append(total)
    return sums[0].astype(float) + (sums[1] / HIGH + sums[2] / LOW)


def _matrix(
    pairs: Mapping[str, Any], key_groups: int, p: int, unit: str, operators: Sequence[Mapping[str, Any]]
) -> sp.csr_array:
    import scipy.sparse as sp

    if unit not in ("tuples", "bytes"):
        raise InputError(f"traffic = {unit!r} must be 'tuples' or 'bytes'")
    values = np.asarray(pairs[unit], dtype=float)
    source, destination = (
        np.asarray(pairs[f"{side}_operator"], dtype=np.int64) * key_groups
        + np.asarray(pairs[f"{side}_key_group"], dtype=np.int64)
        for side in ("src", "dst")
    )
    unknown = np.isnan(values)
    if unknown.any():
        name = operators[int(source[np.argmax(unknown)]) // key_groups]["name"]
        raise InputError(f"traffic in bytes: operator {name!r} has no `bytes` expression")
    return sp.csr_array((values, (source, destination)), shape=(p, p))


# The manifest -----------------------------------------------------------------------------------------------------


def read_manifest(source: Path) -> dict[str, Any]:
    """Read and check ``statistics.json``."""
    file = source / MANIFEST
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{source} holds no statistics: it has no {MANIFEST}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{file} is damaged ({error})") from None
    if not isinstance(manifest, dict) or manifest.get("keyshift_statistics") != FORMAT:
        raise InputError(f"{file} has another format than {FORMAT}, which this version reads")
    for name in ("topology", "length", "origin", "key_groups", "hash", "runs"):
        if name not in manifest:
            raise InputError(f"{file} is damaged: it lacks {name!r}")
    return manifest


def windows_of(manifest: Mapping[str, Any]) -> dict[int, str]:
    """Return the run that holds each window."""
    return {int(number): run for run, about in manifest["runs"].items() for number in about["windows"]}


def _read(source: Path, table: str, held: list[tuple[int, str]], max_rows: int) -> dict[str, Any]:
    """Read one table of some windows, as arrays; windows without a folder have no rows in that table."""
    columns: tuple[str, ...] = LOAD_COLUMNS[1:] if table == "load" else TRAFFIC_COLUMNS
    made: dict[str, list[Any]] = {name: [] for name in ("window", *columns)}
    rows = 0
    for number, run in held:
        for file in sorted((source / "runs" / run / table / f"window={number}").glob("*.parquet")):
            part = _table(file, columns)
            rows += part.num_rows
            if rows > max_rows:
                raise InputError(
                    f"{source}: more than max_rows = {max_rows} rows of {table}; raise it, or ask for less"
                )
            made["window"].append(np.full(part.num_rows, number))
            for name in columns:
                made[name].append(part[name].to_numpy(zero_copy_only=False))
    return {name: np.concatenate(parts) if parts else np.zeros(0) for name, parts in made.items()}


def _table(file: Path, columns: tuple[str, ...]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(file, columns=list(columns), partitioning=None)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{file} cannot be read ({str(error).splitlines()[0]})") from None
