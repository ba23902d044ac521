"""Reading a Parquet table with care: its types, nulls and size are known before a column is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from keyshift.models.errors import InputError
from keyshift.models.files.parquet_pages import unpacked_bytes
from keyshift.models.files.reading import size_of
from keyshift.models.files.writing import reason

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

MOST_NUMBERS = 2**25
"""Rows of one table, or numbers of one matrix, that are read unless the caller allows more."""

MOST_BYTES = 2**30
"""Bytes that one table may take, uncompressed."""
UNSUSPICIOUS = 2**27
"""Up to this many bytes a footer may err: some writers count the bytes packed."""


@dataclass(frozen=True)
class Columns:
    """The columns of a table and what each must hold.

    Attributes
    ----------
    required, optional : mapping of str to {"whole", "number", "nullable", "flag", "label"}
        Whole numbers; numbers; numbers or nulls; true or false (or 0 and 1); texts or whole numbers.
    prefix : (str, kind), optional
        Further columns by the beginning of their names.
    """

    required: Mapping[str, Kind]
    optional: Mapping[str, Kind] = field(default_factory=dict)
    prefix: tuple[str, Kind] | None = None

    def kind(self, name: str) -> Kind | None:
        """What a column must hold; None for one that is not ours."""
        known = {**self.required, **self.optional}
        if name not in known and self.prefix is not None and name.startswith(self.prefix[0]):
            return self.prefix[1]
        return known.get(name)


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
    import pyarrow as pa
    import pyarrow.parquet as pq

    size_of(file)
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as source:
            about, types = source.metadata, source.schema_arrow
            _expect_size(file, about.num_rows, rows, most_rows)
            _expect_bytes(file, about)
            chosen = _chosen(file, types, columns)
            labels = [
                name
                for name, kind in chosen.items()
                if kind == "label" and not pa.types.is_integer(types.field(name).type)
            ]
        # Texts stay in their dictionaries: a thousand bytes may stand for a million rows of the longest text.
        # Not pq.read_table, which imports pyarrow's datasets and with them pandas: most of what a short command takes.
        with pq.ParquetFile(file, read_dictionary=labels, page_checksum_verification=True) as source:
            table = source.read(columns=list(chosen))
        _expect_size(file, table.num_rows, rows, most_rows)
        return {name: _array(file, name, table[name], kind) for name, kind in chosen.items()}
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError, MemoryError) as error:
        raise InputError(f"{file} is not a readable Parquet file ({reason(error)})") from None


def count_rows(file: Path) -> int:
    """Rows of a table, by its own account."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    size_of(file)
    try:
        return int(pq.read_metadata(file).num_rows)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise InputError(f"{file} is not a readable Parquet file ({reason(error)})") from None


def _expect_size(file: Path, found: int, rows: int | None, most: int) -> None:
    if rows is not None and found != rows:
        raise InputError(
            f"{file} has {found:,} rows, expected {rows:,}: it is damaged, or not the one that belongs here"
        )
    if found > most:
        raise InputError(f"{file} has {found:,} rows; at most {most:,} are read")


def _expect_bytes(file: Path, about: Any) -> None:
    """Refuse a table that unpacks to more than `MOST_BYTES`, or to more than it declares.

    By row group: pyarrow's `ColumnChunkMetaData` crashes the whole process where a flipped bit spoils a column's statistics.
    """
    total = sum(max(0, about.row_group(group).total_byte_size) for group in range(about.num_row_groups))
    if total > MOST_BYTES:
        raise InputError(f"{file} unpacks to {total:,} bytes; at most {MOST_BYTES:,} are read")
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
            expected = {
                "whole": "whole numbers",
                "number": "numbers",
                "flag": "true or false",
                "label": "texts or whole numbers",
            }[kind]
            raise InputError(f"{file}: the column {name!r} holds {types.field(name).type}, expected {expected}")
        chosen[name] = kind
    return chosen


def _is_whole(found: pa.DataType) -> bool:
    from pyarrow import types

    return bool(types.is_integer(found))


def _fits(found: pa.DataType, kind: Kind) -> bool:
    from pyarrow import types

    whole = _is_whole(found)
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
    return np.asarray(
        values.astype({"whole": np.int64, "label": np.int64, "number": np.float64}.get(kind, values.dtype))
    )


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
