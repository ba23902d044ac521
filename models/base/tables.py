"""Reading a Parquet table with care: its types, nulls and size are known before a column is read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np

from keyshift.models.base.disk import MOST_NUMBERS, opened, size_of
from keyshift.models.base.figures import apart
from keyshift.models.errors import InputError, refusing

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["whole", "number", "nullable", "flag", "label"]
EXPECTED = {
    "whole": "whole numbers",
    "number": "numbers",
    "nullable": "numbers or nulls",
    "flag": "true or false",
    "label": "texts or whole numbers",
}

UNSUSPICIOUS = 2**27
"""Up to this many bytes a footer may err: some writers count the bytes packed."""


@dataclass(frozen=True)
class Columns:
    """The columns of a table and what each must hold.

    Attributes
    ----------
    required, optional : mapping of str to {"whole", "number", "nullable", "flag", "label"}
        Whole numbers; numbers; numbers or nulls; true or false (or 0 and 1); texts or whole numbers.
    prefixes : mapping of str to kind
        Further columns by the beginning of their names.
    """

    required: Mapping[str, Kind]
    optional: Mapping[str, Kind] = field(default_factory=dict)
    prefixes: Mapping[str, Kind] = field(default_factory=dict)

    def kind(self, name: str) -> Kind | None:
        """The type that a column must have; None for a column that keyshift does not read."""
        further = (kind for prefix, kind in self.prefixes.items() if name.startswith(prefix))
        return {**self.required, **self.optional}.get(name) or next(further, None)


def read_table(
    file: Path, columns: Columns, *, rows: int | None = None, most_rows: int = MOST_NUMBERS
) -> dict[str, np.ndarray]:
    """Read the columns of a table as arrays.

    Parameters
    ----------
    file : Path
    columns : Columns
    rows : int, optional
        How many there must be.
    most_rows : int
        More are refused before they are read.

    Raises
    ------
    InputError
        With the file, and what is missing, of another type, null, too much or unreadable.
    """
    from keyshift.models.base.arrow import pa, pq

    size_of(file)
    with unreadable(file):
        with pq.ParquetFile(file, page_checksum_verification=True) as source:
            about, types = source.metadata, source.schema_arrow
            expect_size(file, about.num_rows, rows, most_rows)
            expect_bytes(file, about)
            chosen = _chosen(file, types, columns)
            texts = [name for name, kind in chosen.items() if kind == "label"]
            labels = [name for name in texts if not pa.types.is_integer(types.field(name).type)]
        # Texts stay in their dictionaries: a thousand bytes may stand for a million rows of the longest text.
        # Not pq.read_table, which imports pyarrow's datasets and with them pandas: most of what a short command takes.
        with pq.ParquetFile(file, read_dictionary=labels, page_checksum_verification=True) as source:
            table = source.read(columns=list(chosen))
        expect_size(file, table.num_rows, rows, most_rows)
        return {name: _array(file, name, table[name], kind) for name, kind in chosen.items()}


def unreadable(file: Path) -> AbstractContextManager[None]:
    """A context in which all that pyarrow raises about a damaged file is bad input."""
    from keyshift.models.base.arrow import pa

    damaged = pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError, MemoryError
    return refusing(f"{file} is not a readable Parquet file ({{reason}})", *damaged)


def expect_sum(said: str, found: float, stated: float, where: str, why: str) -> None:
    """Refuse a column that does not sum to what its manifest says."""
    if not abs(found - stated) <= 1e-9 * max(abs(found), abs(stated)):
        read, says = apart(found, stated)
        raise InputError(f"{said} sums to {read}, {where} says {says}: {why}")


def expect_size(file: Path, found: int, rows: int | None, most: int) -> None:
    """Refuse a table with too many rows, or another number of them than is stated."""
    if rows is not None and found != rows:
        said = f"{file} has {found:,} rows, expected {rows:,}: it is damaged, or not the one that belongs here"
        raise InputError(said)
    if found > most:
        raise InputError(f"{file} has {found:,} rows; at most {most:,} are read")


def expect_bytes(file: Path, about: Any) -> None:
    """Refuse a table that unpacks to more than 2**30 bytes, or to more than it declares.

    By row group: pyarrow's `ColumnChunkMetaData` crashes the whole process where a flipped bit spoils a column's statistics.
    """
    total = sum(max(0, about.row_group(group).total_byte_size) for group in range(about.num_row_groups))
    # Bytes that one table may take, uncompressed.
    if total > 2**30:
        raise InputError(f"{file} unpacks to {total:,} bytes; at most {2**30:,} are read")
    pages = sum(unpacked_bytes(file))
    if pages > max(UNSUSPICIOUS, 2 * total):
        raise InputError(f"{file} declares {total:,} bytes, but unpacks to {pages:,}: it is damaged, or made to harm")


def _chosen(file: Path, types: pa.Schema, columns: Columns) -> dict[str, Kind]:
    """Ours among the columns, each of the right type."""
    for name in columns.required:
        if name not in types.names:
            raise InputError(f"{file} lacks the column {name!r}")
    chosen: dict[str, Kind] = {}
    for name in types.names:
        kind = columns.kind(name)
        if kind is None:
            continue
        if name in chosen:
            raise InputError(f"{file} has two columns {name!r}")
        if not _fits(types.field(name).type, kind):
            raise InputError(f"{file}: the column {name!r} holds {types.field(name).type}, expected {EXPECTED[kind]}")
        chosen[name] = kind
    return chosen


def _fits(found: pa.DataType, kind: Kind) -> bool:
    from pyarrow import types

    whole = types.is_integer(found)
    if kind == "whole":
        return bool(whole)
    if kind in ("number", "nullable"):
        return bool(whole or types.is_floating(found))
    if kind == "flag":
        return bool(whole or types.is_boolean(found))
    text = found.value_type if types.is_dictionary(found) else found
    return bool(whole or types.is_string(text) or types.is_large_string(text))


def _array(file: Path, name: str, column: pa.ChunkedArray, kind: Kind) -> np.ndarray:
    if column.null_count and kind != "nullable":
        raise InputError(f"{file} has a null in the column {name!r}")
    if kind == "label" and not str(column.type).startswith(("int", "uint")):
        found = [_texts(chunk) for chunk in column.chunks]
        return np.concatenate(found) if found else np.empty(0, dtype=object)
    values = np.concatenate([_numbers(chunk) for chunk in column.chunks] or [np.empty(0)])
    if values.dtype.kind == "u" and values.size and int(values.max()) >= 2**63:
        raise InputError(f"{file}: the column {name!r} holds {int(values.max())}, which is too large")
    stored = {"whole": np.int64, "label": np.int64, "number": np.float64}.get(kind, values.dtype)
    return np.asarray(values.astype(stored))


def _numbers(chunk: Any) -> np.ndarray:
    """Numbers as an array; not by `to_numpy`, where nothing is missing, since that imports pandas."""
    from pyarrow import types

    if chunk.null_count or not len(chunk):
        return np.asarray(chunk.to_numpy(zero_copy_only=False))
    if types.is_boolean(chunk.type):
        bits = np.unpackbits(np.frombuffer(chunk.buffers()[1], dtype=np.uint8), bitorder="little")
        return bits[chunk.offset : chunk.offset + len(chunk)].astype(bool)
    return np.from_dlpack(chunk)


def _texts(chunk: Any) -> np.ndarray:
    """Texts as objects, those that are alike the same one."""
    if not hasattr(chunk, "dictionary"):
        return np.array(chunk.to_pylist(), dtype=object)
    known = np.array([*chunk.dictionary.to_pylist(), ""], dtype=object)  # not empty, and of one dimension
    return known[_numbers(chunk.indices)]


# What the pages unpack to by their own headers: the footer, which a reader trusts, may say less -----------------

_ROW_GROUPS, _COLUMNS, _ABOUT = 4, 1, 3
_COMPRESSED, _DATA, _DICTIONARY = 7, 9, 11
_UNPACKED_PAGE, _PACKED_PAGE = 2, 3
_BOOLEANS, _DOUBLE, _TEXT, _LISTS, _MAP, _STRUCT = (1, 2), 7, 8, (9, 10), 11, 12


def unpacked_bytes(file: Path) -> list[int]:
    """The unpacked size that each page declares.

    Raises
    ------
    ValueError
        Where the file's structure is damaged.
    """
    try:
        return _pages(file)
    except (TypeError, AttributeError, OverflowError):  # a flipped bit makes a number a text, and a text a list
        raise ValueError("its structure is damaged") from None


def _pages(file: Path) -> list[int]:
    with opened(file) as source:
        end = source.seek(0, os.SEEK_END)
        source.seek(max(0, end - 8))
        length = int.from_bytes(source.read(4), "little")
        if length > end - 8:
            raise ValueError("the footer is longer than the file")
        source.seek(end - 8 - length)
        footer = _Thrift(source.read(length)).structure()
        chunks = [c.get(_ABOUT, {}) for group in footer.get(_ROW_GROUPS, []) for c in group.get(_COLUMNS, [])]
        return [page for about in chunks for page in _of_chunk(source, about, end)]


def _of_chunk(source: BinaryIO, about: dict[int, Any], end: int) -> Iterator[int]:
    """The pages of one column in one row group."""
    at = min(offset for offset in (about.get(_DATA), about.get(_DICTIONARY)) if offset)
    until = at + about.get(_COMPRESSED, 0)
    if not 0 < at <= until <= end:
        raise ValueError("a column lies outside the file")
    while at < until:
        source.seek(at)
        # Bytes of a page's header, which may hold the least and the largest text of the page.
        reader = _Thrift(source.read(min(2**20, until - at)))
        header = reader.structure()
        unpacked, packed = header.get(_UNPACKED_PAGE, -1), header.get(_PACKED_PAGE, -1)
        if unpacked < 0 or packed < 0:
            raise ValueError("a page has no size")
        yield unpacked
        at += reader.at + packed


class _Thrift:
    """Reads structures in Thrift's compact protocol, as dictionaries by field number; texts are skipped.

    Source: Apache Thrift, `doc/specs/thrift-compact-protocol.md`.
    """

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        if self.at >= len(self.data):
            raise ValueError("it ends in the middle")
        self.at += 1
        return self.data[self.at - 1]

    def number(self) -> int:
        value = shift = 0
        while True:
            more = self.byte()
            value |= (more & 127) << shift
            shift += 7
            if more < 128:
                return value
            if shift > 63:
                raise ValueError("a number is too long")

    def signed(self) -> int:
        folded = self.number()
        return (folded >> 1) ^ -(folded & 1)

    def structure(self, depth: int = 0) -> dict[int, Any]:
        found: dict[int, Any] = {}
        field = 0
        while head := self.byte():
            field = field + (head >> 4) if head >> 4 else self.signed()
            kind = head & 15
            found[field] = kind == _BOOLEANS[0] if kind in _BOOLEANS else self.value(kind, depth + 1)
        return found

    def value(self, kind: int, depth: int) -> Any:
        # Structures in structures: Parquet's own go a few deep.
        if depth > 32:
            raise ValueError("it is nested too deeply")
        if kind in (*_BOOLEANS, 3):
            return self.byte()
        if kind in (4, 5, 6):
            return self.signed()
        if kind in (_DOUBLE, _TEXT):
            length = 8 if kind == _DOUBLE else self.number()
            self.at += length
            return None
        if kind in _LISTS:
            head = self.byte()
            size = head >> 4 if head >> 4 < 15 else self.number()
            return [self.value(head & 15, depth + 1) for _ in range(size)]
        if kind == _MAP:
            size = self.number()
            kinds = self.byte() if size else 0
            return [(self.value(kinds >> 4, depth + 1), self.value(kinds & 15, depth + 1)) for _ in range(size)]
        if kind == _STRUCT:
            return self.structure(depth)
        raise ValueError("a field has an unknown type")
