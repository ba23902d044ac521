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
what that one and the ``windows - 1`` before it add. More than a thousand windows lie together, some to a file: a run with a
`block` B has folders ``block=<number // B>`` instead, whose tables have a column ``window``. A folder under ``runs`` that
the JSON file does not name is what a killed job left; it does not count. Operators are numbers, in the topology's order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from keyshift.models import guards
from keyshift.models.errors import InputError
from keyshift.models.files.statistics_manifest import DRIVER_ROWS as DRIVER_ROWS
from keyshift.models.files.statistics_manifest import FORMAT as FORMAT
from keyshift.models.files.statistics_manifest import MANIFEST as MANIFEST
from keyshift.models.files.statistics_manifest import read_manifest as read_manifest
from keyshift.models.files.statistics_manifest import read_rows as read_rows
from keyshift.models.files.statistics_manifest import windows_of as windows_of
from keyshift.models.placement import placement as place
from keyshift.models.workload import MOST_NODES, FloatArray, IntArray, Workload

if TYPE_CHECKING:
    import scipy.sparse as sp

HIGH, LOW = 2.0**10, 2.0**44
"""Scales of the whole numbers that a fractional sum is kept in."""


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

    `nodes` (with the places and draining nodes that were given then) and `placement` default to those with which the
    statistics were written, `end` - the number of the window to
    end with - to the last one; `last` takes only this many windows up to it.

    Raises
    ------
    InputError
        With the file and what is wrong with it; when no number of nodes is known; when a limit is exceeded.
    """
    source = Path(path)
    manifest = read_manifest(source)
    cluster = (manifest.get("cluster") or {}) if nodes is None else {}
    nodes = cluster.get("capacities") or manifest.get("nodes") if nodes is None else nodes
    if nodes is None:
        raise InputError(f"{source} holds statistics that name no nodes: give nodes to read_statistics")
    held = sorted((number, run) for number, run in windows_of(manifest).items() if end is None or number <= end)
    if not held:
        raise InputError(f"{source} holds no window" + ("" if end is None else f" up to number {end}"))
    first, end, last = held[0][0], held[-1][0] if end is None else end, guards.whole("last", last, least=1)
    first = first if last is None else max(first, end - last + 1)
    reach = max(operator.get("windows", 1) for operator in manifest["topology"]["operators"])
    needed = [(number, run) for number, run in held if number >= min(first, end - reach + 1)]
    load = read_rows(source, manifest, "load", needed, max_rows)
    edges = [(number, run) for number, run in needed if number == end]
    pairs = read_rows(source, manifest, "traffic", edges, max_rows) if manifest["topology"]["edges"] else None
    return assemble(
        load,
        pairs,
        span=(first, end),
        key_groups=manifest["key_groups"],
        operators=manifest["topology"]["operators"],
        nodes=nodes,
        current=cluster.get("current"),
        draining=cluster.get("draining", ()),
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
    draining: Sequence[int] = (),
    placement: str = "ranges",
    traffic: str = "tuples",
    max_rows: int = DRIVER_ROWS,
) -> Workload:
    """Make a workload of the statistics' rows: index = operator * key_groups + key_group.

    Parameters
    ----------
    load : mapping of column name to array
        window, and those of ``load/``; rows before the span serve the state only.
    pairs : mapping of column name to array, optional
        Those of ``traffic/``, of the last window.
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
    draining : sequence of int, optional
        Nodes to be removed.
    placement : str, default "ranges"
        Key group -> node, see `keyshift.models.placement`. It also is the workload's `home`.
    traffic : {"tuples", "bytes"}, default "tuples"
        Unit of the traffic.
    max_rows : int, default 5,000,000
        Limit on the numbers in the load matrix.
    """
    (first, end), p = span, key_groups * len(operators)
    n = _nodes(nodes)
    if (end - first + 1) * p > max_rows:
        raise InputError(
            f"{end - first + 1} windows of {p} key groups are more than max_rows = {max_rows} numbers: "
            "take longer windows, fewer key groups, or the last windows only (last = ...)"
        )
    window = np.asarray(load["window"], dtype=np.int64)
    index = np.asarray(load["operator"], dtype=np.int64) * key_groups + np.asarray(load["key_group"], dtype=np.int64)
    _refuse_strangers(
        load, window, first - max(o.get("windows", 1) for o in operators), end, key_groups, len(operators)
    )
    _refuse_twice(window, index, operators, key_groups)
    matrix = np.zeros((end - first + 1, p))
    inside = window >= first
    matrix[window[inside] - first, index[inside]] = np.asarray(load["load"], dtype=float)[inside]
    home = np.tile(place(placement, key_groups, n), len(operators))
    return Workload(
        load=matrix,
        state=_held(load, window, index, end, p, [operator.get("windows", 1) for operator in operators], key_groups),
        current=home if current is None else current,
        nodes=nodes,
        draining=np.isin(np.arange(n), np.asarray(draining, dtype=np.int64)),
        traffic=None if pairs is None else _matrix(pairs, key_groups, p, traffic, operators),
        operator=np.arange(p) // key_groups,
        home=home,
        keys=[f"{operator['name']}/{group}" for operator in operators for group in range(key_groups)],
    )


def _nodes(nodes: int | ArrayLike) -> int:
    """How many nodes there are; `Workload` checks their capacities."""
    if np.ndim(nodes) == 0:
        return guards.whole("nodes", nodes, least=1, most=MOST_NODES, optional=False)
    return int(np.size(nodes))


def _refuse_strangers(
    rows: Mapping[str, Any], window: IntArray, first: int, end: int, key_groups: int, operators: int
) -> None:
    """Refuse rows of windows, operators or key groups that do not exist."""
    limits = {"operator": (rows["operator"], 0, operators - 1), "key_group": (rows["key_group"], 0, key_groups - 1)}
    for name, (values, least, most) in {**limits, "window": (window, first, end)}.items():
        given = np.asarray(values, dtype=np.int64)
        wrong = (given < least) | (given > most)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise InputError(f"load: {name}[{at}] = {given[at]}, expected {least} to {most}")


def _refuse_twice(window: IntArray, index: IntArray, operators: Sequence[Mapping[str, Any]], key_groups: int) -> None:
    order = np.lexsort((index, window))
    same = (np.diff(window[order]) == 0) & (np.diff(index[order]) == 0)
    if same.any():
        at = order[int(np.argmax(same))]
        name = operators[int(index[at]) // key_groups]["name"]
        raise InputError(
            f"load: window {window[at]} has two rows for operator {name!r}, key group {index[at] % key_groups}"
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
    for side, ends in (("src", source), ("dst", destination)):
        wrong = (ends < 0) | (ends >= p) | ~_within(pairs[f"{side}_key_group"], key_groups)
        if wrong.any():
            raise InputError(f"traffic: row {int(np.argmax(wrong))} names an operator or key group that does not exist")
    unknown = np.isnan(values)
    if unknown.any():
        name = operators[int(source[np.argmax(unknown)]) // key_groups]["name"]
        raise InputError(f"traffic in bytes: operator {name!r} has no `bytes` expression")
    return sp.csr_array((values, (source, destination)), shape=(p, p))


def _within(values: Any, upper: int) -> np.ndarray[Any, Any]:
    given = np.asarray(values, dtype=np.int64)
    return np.asarray((given >= 0) & (given < upper))
