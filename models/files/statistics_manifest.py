"""The manifest of statistics, and the tables that it counts; `keyshift.models.files.statistics` says what lies where."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import ConfigDict, Field

from keyshift.models.errors import InputError
from keyshift.models.files.reading import read_json, shown
from keyshift.models.files.schema import LARGEST, Count, FileFormat, FileModel, FileName, enveloped
from keyshift.models.files.tables import Columns, read_table
from keyshift.models.files.writing import reason
from keyshift.models.workload import MOST_NODES

FORMAT = 1
MANIFEST = "statistics.json"

DRIVER_ROWS = 5_000_000
"""How many rows of one table, or numbers of one matrix, may be held unless the caller says otherwise."""

LOAD_COLUMNS = ("window", "operator", "key_group", "load", "state_whole", "state_high", "state_low")
TRAFFIC_COLUMNS = ("src_operator", "src_key_group", "dst_operator", "dst_key_group", "tuples", "bytes")
COLUMNS = {
    "load": Columns({name: "number" if name == "load" else "whole" for name in LOAD_COLUMNS[1:]}),
    "traffic": Columns(
        {name: "nullable" if name == "bytes" else "number" if name == "tuples" else "whole" for name in TRAFFIC_COLUMNS}
    ),
}


class Part(FileModel):
    """A part of the manifest that later versions may add to."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)


class OperatorPart(Part):
    """An operator, as far as the reader needs it; the topology says more."""

    name: str
    windows: Count = 1


class TopologyPart(Part):
    """Operators in the order that numbers the key groups, and who feeds whom."""

    operators: Annotated[list[OperatorPart], Field(min_length=1, max_length=10_000)]
    edges: list[list[str]]


class RunPart(Part):
    """A run: its windows, how many lie in one folder, and for each table and folder its rows and the sums of its columns."""

    windows: list[Annotated[int, Field(ge=-LARGEST, le=LARGEST)]]
    block: Count = 1
    refused: list[Annotated[list[int | None], Field(min_length=3, max_length=3)]] = Field(default_factory=list)
    checks: dict[str, dict[str, dict[str, Annotated[float, Field(allow_inf_nan=False)]]]] | None = None


class NodesPart(Part):
    """The nodes: their capacities, those to be removed, and where each key group runs now."""

    capacities: list[Annotated[float, Field(gt=0, allow_inf_nan=False)]] | None = None
    draining: list[Annotated[int, Field(ge=0, lt=MOST_NODES)]] | None = None
    current: list[Annotated[int, Field(ge=0, lt=MOST_NODES)]] | None = None


class StatisticsManifest(FileFormat):
    """``statistics.json``."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)
    kind: ClassVar[str] = "keyshift-statistics"
    newest: ClassVar[int] = FORMAT
    legacy: ClassVar[str] = "keyshift_statistics"

    format: str
    version: int
    topology: TopologyPart
    length: Annotated[Any, Field(description="Length of a window in microseconds; null: one window")]
    origin: Annotated[Any, Field(description="Start of window 0 in microseconds since 1970")]
    time_zone: Annotated[str | None, Field(description="Whose clocks cut the windows; null: UTC")] = None
    key_groups: Annotated[int, Field(ge=1, le=2**20, description="Key groups of every operator")]
    hash: str
    runs: Annotated[dict[FileName, RunPart], Field(description="Folders under runs/")]
    nodes: Annotated[int, Field(ge=1, le=MOST_NODES)] | None = None
    placement: Literal["ranges", "modulo", "consistent"] | None = None
    cluster: NodesPart | None = None


def read_manifest(source: Path) -> dict[str, Any]:
    """Read and check ``statistics.json``."""
    file = source / MANIFEST
    if not file.exists():
        raise InputError(f"{source} holds no statistics: it has no {MANIFEST}")
    manifest = read_json(file)
    checked = enveloped(StatisticsManifest, manifest, str(file))
    names = {operator.name for operator in checked.topology.operators}
    for at, edge in enumerate(checked.topology.edges):
        if len(edge) != 2 or not names.issuperset(edge):
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


def unit_of(block: int) -> str:
    """The first word of a folder's name, by how many windows lie in it."""
    return "window" if block == 1 else "block"


def read_rows(
    source: Path, manifest: Mapping[str, Any], table: str, held: list[tuple[int, str]], max_rows: int
) -> dict[str, Any]:
    """Read one table of some windows, as arrays; what the manifest counts must be there."""
    wanted: dict[tuple[str, int], list[int]] = {}
    for number, run in held:
        wanted.setdefault((run, number // manifest["runs"][run].get("block", 1)), []).append(number)
    parts, rows = [], 0
    for (run, block), numbers in wanted.items():
        part = read_block(source, manifest, table, run, block, max_rows - rows)
        part = rows_between(part, *numbers) if len(numbers) == 1 else _rows_of(part, numbers)
        rows += part["window"].size
        if rows > max_rows:
            raise InputError(f"{source} has more than {max_rows:,} rows of {table} in these windows")
        parts.append(part)
    return joined(table, parts)


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


def rows_between(part: Mapping[str, np.ndarray], first: int, end: int | None = None) -> dict[str, np.ndarray]:
    """The rows of windows from first to end, of a table sorted by window."""
    at = slice(
        np.searchsorted(part["window"], first), np.searchsorted(part["window"], first if end is None else end, "right")
    )
    return {name: values[at] for name, values in part.items()}


def _rows_of(part: Mapping[str, np.ndarray], numbers: list[int]) -> dict[str, np.ndarray]:
    chosen = np.isin(part["window"], numbers)
    return {name: values[chosen] for name, values in part.items()}


def _files_of(folder: Path, name: str, table: str, *, old: bool) -> list[Path]:
    """The files of one folder. Manifests of version 0.1 count no rows: there a missing folder cannot mean none."""
    place = folder / name
    if old and not (folder if table == "traffic" else place).is_dir():
        raise InputError(f"{folder if table == 'traffic' else place} is missing")
    try:
        return sorted(place.glob("*.parquet"))
    except OSError as error:
        raise InputError(f"{place} cannot be read ({reason(error)})") from None


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
            if not abs(total - counted) <= 1e-9 * max(abs(total), abs(counted)):
                raise InputError(f"{place}: {name} sums to {total:g}, {MANIFEST} says {counted:g}: a file was changed")
