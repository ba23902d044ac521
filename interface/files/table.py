"""A table in a file, with a row for each key group, as a workload: CSV with any common separator, or Parquet."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from csv import Error, reader
from pathlib import Path
from typing import Any

import numpy as np

from keyshift.models.base.disk import MOST_NUMBERS, read_text, size_of
from keyshift.models.base.frames import DECIMAL_COMMA, FROM_TEXT, Table
from keyshift.models.base.lazily import pd
from keyshift.models.base.tables import expect_bytes, expect_size, unreadable
from keyshift.models.errors import InputError, naming
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
    """All columns as texts, indexed by the lines of the file; semicolons between the cells let numbers have decimal commas."""
    lines = io.StringIO(read_text(source, most), newline="").readlines()
    at, separator = _heading(lines)
    if not "".join(lines[at : at + 1]).strip():
        raise InputError(f"{source} begins with an empty line; the first line must name the columns")
    lines[at] = lines[at].lstrip("# ") if at else lines[at]
    rows = _rows(source, lines, at, separator)
    names = rows.pop(at + 1)
    if (twice := next((name for name in names if names.count(name) > 1), None)) is not None:
        raise InputError(f"{source} has two columns {twice!r:.60}")
    rows = {line: row for line, row in rows.items() if lines[line - 1][0] != "#" or len(row) == len(names)}
    for line, row in rows.items():
        if len(row) != len(names):
            raise InputError(f"{source}, line {line} has {len(row)} cells, line {at + 1} names {len(names)} columns")
    marked = [line for line in rows if lines[line - 1][0] == "#"]
    if 0 < len(marked) < len(rows):
        said = "delete it if it is a comment; quote its first cell if it is a row"
        raise InputError(f"{source}, line {marked[0]} begins with # and has a cell for each column: {said}")
    expect_size(source, len(rows), None, MOST_NUMBERS)
    cells = np.array([[cell or None for cell in row] for row in rows.values()], dtype=object)
    made = pd.DataFrame(cells.reshape(len(rows), len(names)), columns=names, index=pd.Index(list(rows), dtype=np.int64))
    made.attrs = {FROM_TEXT: True, DECIMAL_COMMA: separator == ";"}
    return made


def _heading(lines: Sequence[str]) -> tuple[int, str]:
    """The line of names, from 0, and the separator: what a first line ``sep=;`` says, or what the names have most of.

    Lines that begin with # are comments, unless the first line without # has numbers: then the last one before it has the names.
    """
    said = re.fullmatch(r'"?sep=([^"\r\n])"?\s*', lines[0]) if lines else None
    first = int(said is not None)
    plain = (k for k in range(first, len(lines)) if lines[k][0] != "#" and (k == first or lines[k].strip()))
    at = next(plain, first)
    separator = said[1] if said else max(",;\t|", key="".join(lines[at : at + 1]).count)
    cells = [line.split(separator) for line in lines[first : at + 1]]
    alike = (first + k for k, c in enumerate(cells) if len(c) == len(cells[-1]) and not any(map(_is_number, c)))
    return max(alike, default=at), separator


def _is_number(text: str) -> bool:
    return re.fullmatch(r'\s*"?[-+]?[0-9]+([.,][0-9]+)?"?\s*', text) is not None


def _rows(source: Path, lines: Sequence[str], at: int, separator: str) -> dict[int, list[str]]:
    """The rows of a table by the lines in which they begin, without rows of empty cells, in which spreadsheets end."""
    table, rows, begin = reader(lines[at:], delimiter=separator, strict=True), {}, 0
    try:
        for row in table:
            if any(row) or not begin:
                rows[at + begin + 1] = row
            begin = table.line_num
    except Error as error:
        raise InputError(f"{source} is not a readable table (line {at + table.line_num}: {error})") from None
    return rows


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
