"""Routing tables on disk: Parquet (columns key, node and, for people, label), or JSON for a name that ends in .json."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from keyshift.models.base import tables
from keyshift.models.base.disk import write_file
from keyshift.models.base.schema import FileFormat, FileModel, Whole
from keyshift.models.base.tables import Columns
from keyshift.models.errors import InputError

COLUMNS = Columns({"key": "whole", "node": "whole"})


class EntryPart(FileModel):
    """An exception to the hash: a key and its node."""

    key: Whole
    node: Whole
    label: Annotated[str | int | None, Field(description="The key's name, for people")] = None


class RoutingTableFile(FileFormat, kind="keyshift-routing-table", newest=2, bare=True):
    """A routing table in one JSON file."""

    format: str = "keyshift-routing-table"
    version: int = 2
    entries: list[EntryPart]


def write_table(
    path: str | Path, keys: Sequence[int], nodes: Sequence[int], labels: Sequence[str | int] | None = None
) -> None:
    """Write the entries of a routing table in one step."""
    target = Path(path)
    if not target.absolute().parent.is_dir():
        raise InputError(f"{target}: the folder {target.absolute().parent} does not exist")
    if target.suffix == ".json":
        entries: list[dict[str, Any]] = [{"key": k, "node": d} for k, d in zip(keys, nodes, strict=True)]
        for entry, label in zip(entries, labels or [], strict=False):
            entry["label"] = label
        RoutingTableFile.write(target, {"entries": entries})
        return
    from keyshift.models.base.arrow import pa, pq

    columns = {"key": pa.array(keys, pa.int64()), "node": pa.array(nodes, pa.int64())}
    if labels is not None:
        columns["label"] = pa.array([str(label) for label in labels], pa.string())
    write_file(target, lambda out: pq.write_table(pa.table(columns), out, write_page_checksum=True))


def read_table(path: str | Path) -> tuple[Any, Any]:
    """Keys and nodes of a routing table, one of each for every entry."""
    source = Path(path)
    if source.suffix == ".json":
        entries = RoutingTableFile.read(source).entries
        return [entry.key for entry in entries], [entry.node for entry in entries]
    columns = tables.read_table(source, COLUMNS)
    return columns["key"], columns["node"]
