"""A table in a file, with a row for each key group, as a workload: CSV with any common separator, or Parquet."""

from __future__ import annotations

import io
from csv import Error, reader
from pathlib import Path
from typing import Any

import numpy as np

from keyshift.models.base.disk import MOST_NUMBERS, read_text, size_of
from keyshift.models.base.frames import Table
from keyshift.models.base.lazily import pd
from keyshift.models.base.tables import expect_bytes, expect_size, unreadable
from keyshift.models.errors import InputError, naming, refusing
from keyshift.models.workload import Workload

TABLES = (".csv", ".tsv", ".parquet")
"""How the name of such a file ends."""
MOST_TEXT = 2**30
"""Bytes of a CSV file that are read."""


def is_table(path: str | Path) -> bool:
    """Whether a path names a table in a file."""
    return Path(path).suffix.lower() in TABLES and not Path(path).is_dir()


def workload_of_table(path: str | Path, **columns: Any) -> Workload:
    """A workload from a table in a file: columns have usual names, or are named as for `Workload.from_frame`.

    Every name in a CSV file is the text that stands there: ``007`` is not ``7``.

    Raises
    ------
    InputError
        Names the file, and the column, the row and the value that are wrong.
    """
    source = Path(path)
    table = open_table(source)
    with naming(source):
        return Workload.from_frame(table, **columns)


def said_of_columns(path: str | Path, **columns: Any) -> str:
    """Which columns of a table are read as what, and which are not read."""
    table, names = Table(open_table(Path(path))), ("load", "state", "node", "key")
    found = table.roles(**{role: columns.get(role) for role in names})
    read = {
        role: name if isinstance(name, list) else [name]
        for role, name in {**columns, **found}.items()
        if role not in ("nodes", "draining")
    }
    used = {str(name) for some in read.values() for name in some}
    said = [f"{role} from {', '.join(map(str, some))}" for role, some in read.items() if some != [None]]
    rest = [name for name in table.data.columns if name not in used]
    return f"Columns: {'; '.join(said)}. Not read: {', '.join(rest) or 'none'}."


def open_table(source: Path, most: int = MOST_TEXT) -> Any:
    """The table in a file, of pyarrow; of CSV at most so many bytes."""
    if not source.exists():
        raise InputError(f"{source} does not exist")
    return _parquet(source) if source.suffix.lower() == ".parquet" else _csv(source, most)


def _parquet(source: Path) -> Any:
    from keyshift.models.base.arrow import pq

    size_of(source)
    with unreadable(source), pq.ParquetFile(source, page_checksum_verification=True) as file:
        expect_size(source, file.metadata.num_rows, None, MOST_NUMBERS)
        expect_bytes(source, file.metadata)
        return file.read()


def _csv(source: Path, most: int) -> Any:
    """All columns as texts; the separator is what the first line has most of: a comma, a semicolon, a tab or a bar."""
    text = read_text(source, most)
    head = text.split("\n", 1)[0]
    if not head.strip():
        raise InputError(f"{source} begins with an empty line; the first line must name the columns")
    with refusing(f"{source} is not a readable table ({{reason}})", Error):
        names, *rows = reader(io.StringIO(text, newline=""), delimiter=max(",;\t|", key=head.count), strict=True)
    if (twice := next((name for name in names if names.count(name) > 1), None)) is not None:
        raise InputError(f"{source} has two columns {twice!r:.60}")
    rows = [row for row in rows if any(row)]  # spreadsheets end in rows of empty cells
    for line, row in enumerate(rows):
        if len(row) != len(names):
            raise InputError(f"{source}: row {line} has {len(row)} cells, the first line names {len(names)} columns")
    expect_size(source, len(rows), None, MOST_NUMBERS)
    cells = np.array([[cell or None for cell in row] for row in rows], dtype=object).reshape(len(rows), len(names))
    return pd.DataFrame(cells, columns=names)


def table_options(
    *, load: str = "", state: str = "", node: str = "", key: str = "", nodes: str = "", draining: str = "",
    home: str = "", operator: str = "", resources: str = "", groups: str = "", domains: str = "",
) -> dict[str, Any]:  # fmt: skip
    """What a line says of a table's columns, as `Workload.from_frame` takes it.

    Parameters
    ----------
    load, state, node, key : column
        Where the table calls it otherwise. Several are named with commas: loads of windows, the oldest first; parts of a name,
        such as topic,partition. A number in place of the state: as much for each key group.
    nodes : number, or names
        How many nodes there are, or the names of all, such as b1,b2, or b1:2,b2:1 with capacities. Default: those in the table.
    draining : names
        Nodes that are to be emptied, with commas.
    home, operator, resources, groups, domains : columns
        With commas where there may be several; groups and domains are labels of key groups and of nodes, which rules may name.
    """
    given = {name: text for name, text in locals().items() if text}
    made: dict[str, Any] = {}
    for name, text in given.items():
        parts = [part.strip() for part in text.split(",")]
        if name in ("resources", "groups", "domains", "draining"):
            made[name] = parts
        elif name == "nodes":
            made[name] = _nodes(text, parts)
        else:
            made[name] = parts if len(parts) > 1 and name in ("load", "key") else text
    return made


def _nodes(text: str, parts: list[str]) -> Any:
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return int(text)
    pairs = [part.rpartition(":") for part in parts]
    if not all(name and colon for name, colon, _ in pairs):
        return parts
    try:
        return {name: float(capacity) for name, _, capacity in pairs}
    except ValueError:
        return parts
