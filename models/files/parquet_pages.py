"""What the pages of a Parquet file unpack to, by their own headers: the footer, which a reader trusts, may say less."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from keyshift.models.files.reading import opened

DEEPEST = 32
"""Structures in structures: Parquet's own go a few deep."""
LONGEST_HEADER = 2**20
"""Bytes of a page's header, which may hold the least and the largest text of the page."""
_ROW_GROUPS, _COLUMNS, _ABOUT = 4, 1, 3
_COMPRESSED, _DATA, _DICTIONARY = 7, 9, 11
_UNPACKED_PAGE, _PACKED_PAGE = 2, 3
_BOOLEANS, _DOUBLE, _TEXT, _LISTS, _MAP, _STRUCT = (1, 2), 7, 8, (9, 10), 11, 12


def unpacked_bytes(file: Path) -> list[int]:
    """What each page declares to unpack to.

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
        reader = _Thrift(source.read(min(LONGEST_HEADER, until - at)))
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
        if depth > DEEPEST:
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
        raise ValueError("a field is of no known kind")
