"""The manifest of statistics, and the tables that it counts; `keyshift.models.files.statistics` says what lies where."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import ConfigDict, Field

from keyshift.models.errors import InputError
from keyshift.models.files.schema import (
    LARGEST,
    Count,
    FileFormat,
    FileModel,
    FileName,
    read_json,
    shown,
    validated,
)
from keyshift.models.files.tables import Columns, read_table
from keyshift.models.files.writing import reason
from keyshift.models.workload import MOST_NODES

FORMAT = 1
MANIFEST = "statistics.json"

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
    """What the reader needs to know of an operator; the topology knows more."""

    name: str
    windows: Count = 1


class TopologyPart(Part):
    """Operators in the order that numbers the key groups, and who feeds whom."""

    operators: Annotated[list[OperatorPart], Field(min_length=1, max_length=10_000)]
    edges: list[list[str]]


class RunPart(Part):
    """A run: its windows, and for each table and window its rows and the sums of its columns."""

    windows: list[Annotated[int, Field(ge=-LARGEST, le=LARGEST)]]
    refused: list[Annotated[list[int | None], Field(min_length=3, max_length=3)]] = Field(default_factory=list)
    checks: dict[str, dict[str, dict[str, Annotated[float, Field(allow_inf_nan=False)]]]] | None = None


class NodesPart(Part):
    """What is known of the nodes: their capacities, those to be removed, and where each key group runs now."""

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
    if not isinstance(manifest, dict):
        raise InputError(f"{file} must hold one JSON object, not {shown(manifest)}")
    checked = validated(StatisticsManifest, StatisticsManifest.unstamped(manifest, file), str(file))
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
    return manifest


def windows_of(manifest: Mapping[str, Any]) -> dict[int, str]:
    """Return the run that holds each window."""
    return {int(number): run for run, about in manifest["runs"].items() for number in about["windows"]}


def read_rows(
    source: Path, manifest: Mapping[str, Any], table: str, held: list[tuple[int, str]], max_rows: int
) -> dict[str, Any]:
    """Read one table of some windows, as arrays; what the manifest counts must be there."""
    made: dict[str, list[Any]] = {name: [] for name in ("window", *COLUMNS[table].required)}
    rows = 0
    for number, run in held:
        checks = manifest["runs"][run].get("checks")
        folder = source / "runs" / run / table
        files = _files_of(folder, number, table, old=checks is None)
        parts = [read_table(file, COLUMNS[table], most_rows=max_rows - rows) for file in files]
        expected = None if checks is None else checks.get(table, {}).get(str(number), {"rows": 0})
        _verify(folder / f"window={number}", parts, expected)
        for part in parts:
            size = part["tuples" if table == "traffic" else "load"].size
            rows += size
            made["window"].append(np.full(size, number))
            for name, values in part.items():
                made[name].append(values)
    return {name: np.concatenate(parts) if parts else np.zeros(0) for name, parts in made.items()}


def _files_of(folder: Path, number: int, table: str, *, old: bool) -> list[Path]:
    """The files of one window. Manifests of version 0.1 count no rows: there a missing folder cannot mean none."""
    place = folder / f"window={number}"
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
