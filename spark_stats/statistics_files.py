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

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike
from pydantic import ConfigDict, Field

from keyshift.models.base import guards
from keyshift.models.base.disk import read_json, shown
from keyshift.models.base.frames import words_of
from keyshift.models.base.lazily import sp
from keyshift.models.base.schema import LARGEST, Count, FileFormat, FileModel, FileName, Finite, Positive
from keyshift.models.base.tables import Columns, expect_sum, read_table
from keyshift.models.errors import InputError, refusing
from keyshift.models.placement import placement as place
from keyshift.models.workload import MOST_NODES, FloatArray, IntArray, Workload

# The manifest, and the tables that it counts ----------------------------------------------------------------------------

FORMAT = 1
MANIFEST = "statistics.json"

DRIVER_ROWS = 5_000_000
"""How many rows of one table, or numbers of one matrix, may be held unless the caller says otherwise."""

STATE = ("state_whole", "state_high", "state_low")
LOAD_COLUMNS = ("window", "operator", "key_group", "load", *STATE)
TRAFFIC_COLUMNS = ("src_operator", "src_key_group", "dst_operator", "dst_key_group", "tuples", "bytes")
COLUMNS = {
    "load": Columns({name: "number" if name == "load" else "whole" for name in LOAD_COLUMNS[1:]}),
    "traffic": Columns(
        {name: "nullable" if name == "bytes" else "number" if name == "tuples" else "whole" for name in TRAFFIC_COLUMNS}
    ),
}


Node = Annotated[int, Field(ge=0, lt=MOST_NODES)]


class Part(FileModel):
    """A part of the manifest that later versions may add to."""

    model_config = ConfigDict(extra="allow")


class OperatorPart(Part):
    """An operator, as far as the reader needs it; the topology says more."""

    name: str
    windows: Count = 1


class TopologyPart(Part):
    """Operators, whose order numbers the key groups, and the edges between them."""

    operators: Annotated[list[OperatorPart], Field(min_length=1, max_length=10_000)]
    edges: list[list[str]]


class RunPart(Part):
    """A run: its windows, the number of windows in a folder, and row counts and column sums of each table and folder."""

    windows: list[Annotated[int, Field(ge=-LARGEST, le=LARGEST)]]
    block: Count = 1
    refused: list[Annotated[list[int | None], Field(min_length=3, max_length=3)]] = Field(default_factory=list)
    checks: dict[str, dict[str, dict[str, Finite]]] | None = None


class FormerPart(Part):
    """Runs listed in a separate file: the range of their windows, and the rows they refused."""

    file: FileName
    first: int
    last: int
    level: int
    refused: list[list[int | None]]


class NodesPart(Part):
    """The nodes: their capacities, those to be removed, and where each key group runs now."""

    capacities: list[Positive] | None = None
    draining: list[Node] | None = None
    current: list[Node] | None = None


class StatisticsManifest(FileFormat, kind="keyshift-statistics", newest=FORMAT, legacy="keyshift_statistics"):
    """``statistics.json``."""

    model_config = ConfigDict(extra="allow")
    topology: TopologyPart
    length: Annotated[Any, Field(description="Length of a window in microseconds; null: one window")]
    origin: Annotated[Any, Field(description="Start of window 0 in microseconds since 1970")]
    time_zone: Annotated[str | None, Field(description="Whose clocks cut the windows; null: UTC")] = None
    key_groups: Annotated[int, Field(ge=1, le=2**20, description="Key groups of every operator")]
    hash: str
    runs: Annotated[dict[FileName, RunPart], Field(description="Folders under runs/")]
    older: Annotated[list[FormerPart], Field(description="Files of further runs")] = Field(default_factory=list)
    nodes: Annotated[int, Field(ge=1, le=MOST_NODES)] | None = None
    placement: Literal["ranges", "modulo", "consistent"] | None = None
    units: Annotated[dict[Literal["load", "state"], str] | None, Field(description="Units of load and state")] = None
    cluster: NodesPart | None = None


def runs_of(file: Path) -> dict[str, Any]:
    """The runs in a file of their own."""
    runs = read_json(file)
    if not isinstance(runs, dict):
        raise InputError(f"{file} must be a mapping of runs")
    return runs


def read_manifest(source: Path, *, whole: bool = True) -> dict[str, Any]:
    """Read and check ``statistics.json``, with the runs that have moved to other files unless it is not asked for whole."""
    file = source / MANIFEST
    if not file.exists():
        raise InputError(f"{source} holds no statistics: it has no {MANIFEST}")
    manifest = read_json(file)
    checked = StatisticsManifest.of(manifest, str(file))
    if whole and checked.older:
        former = [runs_of(source / part.file) for part in checked.older]
        manifest = {
            **manifest,
            "runs": {**{name: run for runs in former for name, run in runs.items()}, **manifest["runs"]},
        }
        del manifest["older"]
        checked = StatisticsManifest.of(manifest, str(file))
    names = {operator.name for operator in checked.topology.operators}
    for at, edge in enumerate(checked.topology.edges):
        if len(edge) not in (2, 3) or not names.issuperset(edge[:2]):
            raise InputError(f"{file}: topology.edges[{at}] = {shown(edge)} must be a pair of operators")
    held: set[int] = set()
    for name, run in checked.runs.items():
        if twice := held.intersection(run.windows) or len(set(run.windows)) < len(run.windows):
            which = f"window {min(twice)}" if isinstance(twice, set) else "a window"
            raise InputError(f"{file} names {which} twice, the last time in the run {name}")
        held.update(run.windows)
    return dict(manifest)


def windows_of(manifest: Mapping[str, Any]) -> dict[int, str]:
    """Return the run that holds each window."""
    return {int(number): run for run, about in manifest["runs"].items() for number in about["windows"]}


def units_of(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Units of load and state: those that were named, and bytes of state if the operators add up columns that are called so."""
    states = {operator.get("state") or "1" for operator in manifest["topology"]["operators"]}
    columns = [text for text in states if text == "1" or not re.fullmatch(r"[0-9.]+", text)]  # a number fits each unit
    named = [re.fullmatch(r"[\w.`]+", text) and "bytes" in words_of(text) for text in columns]
    return {**({"state": "bytes"} if named and all(named) else {}), **(manifest.get("units") or {})}


def unit_of(block: int) -> str:
    """The first word of a folder's name, by how many windows lie in it."""
    return "window" if block == 1 else "block"


class RowsOfWindows:
    """A table of statistics, read folder by folder on demand; folders that are no longer needed are dropped.

    Parameters
    ----------
    source : Path
    manifest : mapping
    table : str
    max_rows : int
        Those of more are refused.
    """

    def __init__(self, source: Path, manifest: Mapping[str, Any], table: str, max_rows: int = DRIVER_ROWS) -> None:
        self.source, self.manifest, self.table, self.max_rows = source, manifest, table, max_rows
        self.run_of = windows_of(manifest)
        self.numbers = np.array(sorted(self.run_of), dtype=np.int64)
        self.held: dict[tuple[str, int], dict[str, np.ndarray]] = {}

    def between(self, first: int, end: int) -> dict[str, np.ndarray]:
        """The rows of the windows from first to end, as arrays; what the manifest counts must be there."""
        here = self.numbers[slice(*np.searchsorted(self.numbers, [first, end + 1]))].tolist()
        runs = self.manifest["runs"]
        folders = dict.fromkeys((run, n // runs[run].get("block", 1)) for n in here for run in [self.run_of[n]])
        found, rows = [], 0
        for folder in folders:
            part = self.held[folder] = self.held.get(folder) or self._read(*folder)
            found.append(rows_between(part, first, end))
            rows += found[-1]["window"].size
            if rows > self.max_rows:
                raise InputError(f"{self.source} has more than {self.max_rows:,} rows of {self.table} in these windows")
        self.held = {folder: self.held[folder] for folder in folders}
        return joined(self.table, found)

    def _read(self, run: str, block: int) -> dict[str, np.ndarray]:
        """The rows of a folder whose windows are not another run's by now."""
        part = read_block(self.source, self.manifest, self.table, run, block, self.max_rows)
        if self.manifest["runs"][run].get("block", 1) == 1:
            return part
        windows, at = np.unique(part["window"], return_inverse=True)
        ours = np.array([self.run_of.get(number) == run for number in windows.tolist()], dtype=bool)
        return part if ours.all() else {name: values[ours[at]] for name, values in part.items()}


def joined(table: str, parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Rows of one table, put together."""
    if len(parts) == 1:
        return parts[0]
    return {
        name: np.concatenate([part[name] for part in parts]) if parts else np.zeros(0)
        for name in ("window", *COLUMNS[table].required)
    }


def read_block(
    source: Path, manifest: Mapping[str, Any], table: str, run: str, block: int, max_rows: int
) -> dict[str, np.ndarray]:
    """Read one table of a folder of a run, verify it, and sort it by window; also windows that are another run's by now."""
    about = manifest["runs"][run]
    together, checks = about.get("block", 1), about.get("checks")
    folder = source / "runs" / run / table
    files = _files_of(folder, f"{unit_of(together)}={block}", table, old=checks is None)
    columns, most = COLUMNS[table], max_rows
    if together > 1:
        columns, most = Columns({"window": "whole", **columns.required}), max(max_rows, DRIVER_ROWS)
    parts = [read_table(file, columns, most_rows=most) for file in files]
    expected = None if checks is None else checks.get(table, {}).get(str(block), {"rows": 0})
    _verify(folder / f"{unit_of(together)}={block}", parts, expected)
    if together == 1:
        size = [part["tuples" if table == "traffic" else "load"].size for part in parts]
        parts = [{"window": np.full(n, block), **part} for n, part in zip(size, parts, strict=True)]
    whole = dict(joined(table, parts))
    del parts
    order = np.argsort(whole["window"], kind="stable")
    for name in whole:  # a column at a time: many windows may lie here
        whole[name] = whole[name][order]
    return whole


def rows_between(part: Mapping[str, np.ndarray], first: int, end: int) -> dict[str, np.ndarray]:
    """The rows of windows from first to end, of a table sorted by window."""
    at = slice(*np.searchsorted(part["window"], [first, end + 1]))
    return {name: values[at] for name, values in part.items()}


def _files_of(folder: Path, name: str, table: str, *, old: bool) -> list[Path]:
    """The files of one folder. Manifests of version 0.1 count no rows: there a missing folder cannot mean none."""
    place = folder / name
    if old and not (folder if table == "traffic" else place).is_dir():
        raise InputError(f"{folder if table == 'traffic' else place} is missing")
    with refusing(f"{place} cannot be read ({{reason}})", OSError):
        return sorted(place.glob("*.parquet"))


def _verify(place: Path, parts: list[dict[str, np.ndarray]], expected: Mapping[str, float] | None) -> None:
    """Compare what was read with what the manifest counts."""
    if expected is None:
        return
    found = sum(next(iter(part.values())).size for part in parts)
    if found != expected.get("rows"):
        raise InputError(f"{place} holds {found:,} rows, {MANIFEST} counts {expected.get('rows', 0):,}")
    for name, counted in expected.items():
        if parts and name in parts[0]:
            total = float(sum(np.nansum(part[name].astype(float)) for part in parts))
            expect_sum(f"{place}: {name}", total, counted, MANIFEST, "a file was changed")


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
    held = sorted(number for number in windows_of(manifest) if end is None or number <= end)
    if not held:
        raise InputError(f"{source} holds no window" + ("" if end is None else f" up to number {end}"))
    first, end, last = held[0], held[-1] if end is None else end, guards.whole("last", last, least=1)
    first = first if last is None else max(first, end - last + 1)
    places = {"current": cluster.get("current"), "draining": cluster.get("draining", ())}
    tables = tables_of(source, manifest, max_rows)
    return from_tables(*tables, first, end, nodes, placement, traffic=traffic, max_rows=max_rows, **places)


def tables_of(
    source: Path, manifest: Mapping[str, Any], max_rows: int = DRIVER_ROWS
) -> tuple[RowsOfWindows, RowsOfWindows]:
    """The loads and the traffic of statistics."""
    return RowsOfWindows(source, manifest, "load", max_rows), RowsOfWindows(source, manifest, "traffic", max_rows)


class WindowTable(Protocol):
    """A table of statistics, here or in Spark, and what the manifest says of all of them."""

    manifest: Mapping[str, Any]

    def between(self, first: int, end: int) -> Mapping[str, Any]: ...


def from_tables(
    load: WindowTable, pairs: WindowTable, first: int, end: int, nodes: Any, placement: str | None, **more: Any
) -> Workload:
    """The workload of the windows from first to end; where no placement is asked for, the one that the statistics name."""
    about = load.manifest
    operators = about["topology"]["operators"]
    reach = max(operator.get("windows", 1) for operator in operators)
    return assemble(
        load.between(min(first, end - reach + 1), end),
        pairs.between(end, end) if about["topology"]["edges"] else None,
        span=(first, end), key_groups=about["key_groups"], operators=operators, nodes=nodes,
        placement=placement or about.get("placement") or "ranges", units=units_of(about), **more,
    )  # fmt: skip


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
    units: Mapping[str, str] | None = None,
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
    units : mapping of str to str, optional
        Units of load and state.
    """
    (first, end), p = span, key_groups * len(operators)
    n = node_count(nodes)
    if (end - first + 1) * p > max_rows:
        raise InputError(
            f"{end - first + 1} windows of {p} key groups are more than max_rows = {max_rows} numbers: "
            "take longer windows, fewer key groups, or the last windows only (last = ...)"
        )
    window = np.asarray(load["window"], dtype=np.int64)
    index = np.asarray(load["operator"], dtype=np.int64) * key_groups + np.asarray(load["key_group"], dtype=np.int64)
    windows = [operator.get("windows", 1) for operator in operators]
    for name, upper in (("operator", len(operators)), ("key_group", key_groups)):
        guards.numbered(f"load.{name}", np.asarray(load[name], dtype=np.int64), upper, name.replace("_", " "))
    guards.numbered("load.window", window, end + 1, "window", first - max(windows))
    _refuse_twice(window, index, operators, key_groups)
    matrix = np.zeros((end - first + 1, p))
    inside = window >= first
    matrix[window[inside] - first, index[inside]] = np.asarray(load["load"], dtype=float)[inside]
    home = np.tile(place(placement, key_groups, n), len(operators))
    return Workload(
        load=matrix,
        state=_held(load, window, index, end, windows, key_groups),
        current=home if current is None else current,
        nodes=nodes,
        draining=np.isin(np.arange(n), np.asarray(draining, dtype=np.int64)),
        traffic=None if pairs is None else _matrix(pairs, key_groups, p, traffic, operators),
        operator=np.arange(p) // key_groups,
        home=home,
        keys=[f"{operator['name']}/{group}" for operator in operators for group in range(key_groups)],
        units=units,
    )


def node_count(nodes: int | ArrayLike) -> int:
    """How many nodes there are; `Workload` checks their capacities."""
    if np.ndim(nodes) == 0:
        return guards.whole("nodes", nodes, least=1, most=MOST_NODES, optional=False)
    return int(np.size(nodes))


def _refuse_twice(window: IntArray, index: IntArray, operators: Sequence[Mapping[str, Any]], key_groups: int) -> None:
    order = np.lexsort((index, window))
    same = np.flatnonzero((np.diff(window[order]) == 0) & (np.diff(index[order]) == 0))
    for at in order[same[:1]]:
        name = operators[int(index[at]) // key_groups]["name"]
        said = f"load: window {window[at]} has two rows for operator {name!r}, key group {index[at] % key_groups}"
        raise InputError(said)


def _held(
    load: Mapping[str, Any], window: IntArray, index: IntArray, end: int, windows: Sequence[int], key_groups: int
) -> FloatArray:
    """State at the end of the last window: what the last windows of each operator add, in whole numbers."""
    kept = window > end - np.repeat(np.asarray(windows, dtype=np.int64), key_groups)[index]
    sums = []
    for name in STATE:
        total = np.zeros(len(windows) * key_groups, dtype=np.int64)
        np.add.at(total, index[kept], np.asarray(load[name], dtype=np.int64)[kept])
        sums.append(total)
    return sums[0].astype(float) + (sums[1] / HIGH + sums[2] / LOW)


def _matrix(
    pairs: Mapping[str, Any], key_groups: int, p: int, unit: str, operators: Sequence[Mapping[str, Any]]
) -> sp.csr_array:
    guards.one_of("traffic", unit, ("tuples", "bytes"))
    values = np.asarray(pairs[unit], dtype=float)
    both = []
    for side in ("src", "dst"):
        operator, group = (np.asarray(pairs[f"{side}_{name}"], dtype=np.int64) for name in ("operator", "key_group"))
        both.append(ends := operator * key_groups + group)
        wrong = (ends < 0) | (ends >= p) | (group < 0) | (group >= key_groups)
        if wrong.any():
            raise InputError(f"traffic: row {int(np.argmax(wrong))} names an operator or key group that does not exist")
    source, destination = both
    unknown = np.isnan(values)
    if unknown.any():
        name = operators[int(source[np.argmax(unknown)]) // key_groups]["name"]
        raise InputError(f"traffic in bytes: operator {name!r} has no `bytes` expression")
    return sp.csr_array((values, (source, destination)), shape=(p, p))
