"""Malformed Parquet files: every column of every type, rows too many, too few or twice, damage, bombs, streams."""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import keyshift as ks
from hostile.files import ODD, STATISTICS, put, statistics, workload
from hostile.refusals import Case

TYPES: dict[str, Callable[[int], pa.Array]] = {
    "text": lambda n: pa.array([str(i) for i in range(n)]),
    "words": lambda n: pa.array(["x"] * n),
    "time": lambda n: pa.array(range(n), pa.timestamp("us")),
    "date": lambda n: pa.array(range(n), pa.date32()),
    "duration": lambda n: pa.array(range(n), pa.duration("s")),
    "decimal": lambda n: pa.array(range(n), pa.decimal128(10, 2)),
    "bytes": lambda n: pa.array([b"\x00\xff"] * n),
    "lists": lambda n: pa.array([[1, 2]] * n),
    "objects": lambda n: pa.array([{"a": 1}] * n),
    "nothing": lambda n: pa.nulls(n),
    "halves": lambda n: pa.array([i + 0.5 for i in range(n)]),
    "minus": lambda n: pa.array([-1 - i for i in range(n)]),
    "nan": lambda n: pa.array([math.nan] * n),
    "infinity": lambda n: pa.array([math.inf] * n),
    "far": lambda n: pa.array([2**62] * n),
    "unsigned": lambda n: pa.array([2**64 - 1] * n, pa.uint64()),
    "flags": lambda n: pa.array([True] * n),
    "holes": lambda n: pa.array([None, *range(n - 1)], pa.int64()),
}
FITS = {
    ("key_groups", "state"): {"halves", "far", "unsigned"}, ("key_groups", "resource.memory"): {"halves", "far", "unsigned"},
    ("key_groups", "key"): {"text", "minus"}, ("nodes", "capacity"): {"halves", "far", "unsigned"}, ("nodes", "draining"): set(),
    ("load", "load"): {"halves", "far", "unsigned"}, ("traffic", "tuples"): {"halves", "far", "unsigned"},
    ("st load", "load"): {"halves", "far", "unsigned"}, ("st load", "state_whole"): {"far", "minus"},
    ("st load", "state_high"): {"far", "minus"}, ("st load", "state_low"): {"far", "minus"},
    ("st traffic", "tuples"): {"halves", "far", "unsigned", "nan", "infinity", "minus"},
    ("st traffic", "bytes"): set(TYPES), ("table", "key"): {"far"}, ("table", "node"): {"far"},
}  # fmt: skip
"""Types and values that a column may well have; sums in the manifest still refuse those of a workload."""


@lru_cache
def tables() -> dict[str, pa.Table]:
    """Every table, as the library writes it."""

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ks.write_workload(workload(), folder / "w")
        ks.RoutingTable([1, 4], [2, 0]).save(folder / "table.parquet")
        made = {t: pq.read_table(folder / "w" / f"{t}.parquet") for t in ("key_groups", "nodes", "load", "traffic")}
        made["table"] = pq.read_table(folder / "table.parquet")
    return made | {f"st {t}": pa.table(columns) for t, columns in STATISTICS.items()}


def place_table(table: str, folder: Path, write: Callable[[Path], None]) -> list[str] | Callable[[], Any]:
    """A folder of good files but for one table."""
    put(folder, "a.json", "[0, 0, 1, 1, 2, 2]")
    if table == "table":
        write(folder / "table.parquet")
        return partial(ks.RoutingTable.load, folder / "table.parquet")
    if table.startswith("st "):
        path = statistics(folder) / "runs/ab12" / table[3:] / "window=8" / "part-0.parquet"
        path.unlink()
        write(path)
        return partial(ks.read_workload, folder / "st")
    ks.write_workload(workload(), folder / "w")
    (folder / "w" / f"{table}.parquet").unlink()
    write(folder / "w" / f"{table}.parquet")
    return ["check", "w", "-a", "a.json"]


def raw(made: bytes) -> Callable[[Path], Any]:
    return lambda path: path.write_bytes(made)


def packed(made: pa.Table) -> Callable[[Path], None]:
    return lambda path: pq.write_table(made, path, write_page_checksum=True)


def columns() -> Iterator[Case]:
    """Every column of every table with every other type, without it, and with rows too many, too few or twice."""
    for table, good_ in tables().items():
        rows, kind = good_.num_rows, f"{table}.parquet: "
        for position, name in enumerate(good_.column_names):
            for what, make in TYPES.items():
                made = good_.set_column(position, name, make(rows))
                fits = what in FITS.get((table, name), set()) and (
                    table.startswith("st ") or table == "table" or name == "key"
                )
                yield Case(
                    kind + "column", f"{name} {what}", partial(lambda t, w, folder: place_table(t, folder, w), table, packed(made)),
                    "anything said" if fits else "refused",
                )  # fmt: skip
            less = good_.drop_columns([name])
            yield Case(
                kind + "column gone", name, partial(lambda t, w, folder: place_table(t, folder, w), table, packed(less)),
                "refused",
            )  # fmt: skip
        more = {"a row more": pa.concat_tables([good_, good_.slice(0, 1)]), "no rows": good_.slice(0, 0),
                "a row less": good_.slice(1), "all twice": pa.concat_tables([good_, good_])}  # fmt: skip
        for what, made in more.items():
            harmless = (table.startswith("st ") and (what in ("no rows", "a row less") or table == "st traffic")) or (
                table == "table" and what in ("no rows", "a row less")
            )
            yield Case(
                kind + "rows", what, partial(lambda t, w, folder: place_table(t, folder, w), table, packed(made)),
                "anything said" if harmless else "refused",
            )  # fmt: skip


def bytes_of(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, write_page_checksum=True)
    return sink.getvalue().to_pybytes()


def same_workload(folder: Path) -> None:
    """What is read is what was written."""
    a, b = workload(), ks.read_workload(folder / "w")
    for name in ("load", "state", "current", "capacity", "draining", "operator", "home"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert (a.traffic != b.traffic).nnz == 0
    assert a.keys == b.keys
    assert {n: v.tolist() for n, v in a.resources.items()} == {n: v.tolist() for n, v in b.resources.items()}


def same_table(folder: Path) -> None:
    assert ks.RoutingTable.load(folder / "table.parquet") == ks.RoutingTable([1, 4], [2, 0])


def damage() -> Iterator[Case]:
    """Parquet files that are cut short, flipped, filled or something else altogether."""
    for table, good_ in tables().items():
        body, kind, rng = bytes_of(good_), f"{table}.parquet: ", random.Random(f"{table} damage")
        for cut in [0, 3, 4, 8, len(body) - 1, len(body) - 4, len(body) - 8, *rng.sample(range(9, len(body) - 9), 13)]:
            yield Case(
                kind + "truncated",
                f"at {cut}",
                partial(lambda t, w, folder: place_table(t, folder, w), table, raw(body[:cut])),
            )
        same = same_table if table == "table" else None if table.startswith("st ") else same_workload
        for place in rng.sample(range(len(body) * 8), 60):
            flipped = bytearray(body)
            flipped[place // 8] ^= 1 << place % 8
            yield Case(
                kind + "bit flipped", f"bit {place}", partial(lambda t, w, folder: place_table(t, folder, w), table, raw(bytes(flipped))),
                "refused or harmless", same,
            )  # fmt: skip
        for what, text in {
            "text": b"hello",
            "json": b"{}",
            "zip": b"PK\x03\x04",
            "noise": rng.randbytes(300),
            "zeros": bytes(300),
        }.items():
            yield Case(
                kind + "no Parquet", what, partial(lambda t, w, folder: place_table(t, folder, w), table, raw(text))
            )
        for what, write in ODD.items():
            expect = "anything said" if table.startswith("st ") and what == "missing" else "refused"
            yield Case(
                kind + "odd thing in its place",
                what,
                partial(lambda t, w, folder: place_table(t, folder, w), table, write),
                expect,
            )
        bombs = {"many rows": partial(bomb, good_, 40_000_000), "long texts": partial(long_texts, good_)}
        for what, write in bombs.items():
            make = partial(lambda t, w, folder: place_table(t, folder, w), table, write)
            yield Case(kind + "bomb", what, make, costly=what == "many rows" and table != "load")


@lru_cache
def _many_rows(names: tuple[str, ...], rows: int) -> bytes:
    sink = pa.BufferOutputStream()
    part = 4_000_000
    zeros = pa.table({name: pa.array(np.zeros(part, dtype=np.int64)) for name in names})
    with pq.ParquetWriter(sink, zeros.schema, compression="zstd") as out:
        for _ in range(rows // part):
            out.write_table(zeros)
    return sink.getvalue().to_pybytes()


def bomb(good_: pa.Table, rows: int, path: Path) -> None:
    """A small file of very many rows."""
    path.write_bytes(_many_rows(tuple(good_.column_names), rows))


def long_texts(good_: pa.Table, path: Path) -> None:
    """A small file whose texts take gigabytes when they are unpacked."""
    texts_ = pa.DictionaryArray.from_arrays(pa.array(np.zeros(5_000, dtype=np.int32)), pa.array(["x" * 1_000_000]))
    pq.write_table(pa.table(dict.fromkeys(good_.column_names, texts_)), path, compression="zstd")


def streams() -> Iterator[Case]:
    """Streams of keys."""
    rows = 4
    for what, make in TYPES.items():
        if what in ("text", "words", "minus", "far", "unsigned"):
            continue

        def made(folder: Path, make: Any = make) -> list[str]:
            pq.write_table(pa.table({"key": make(rows)}), folder / "s.parquet")
            return ["solve", "s.parquet", "-p", "key-splitting", "-m", "hash"]

        expect = "anything said" if what in ("flags", "bytes") else "refused"
        yield Case("stream: column", what, made, expect)
    for what, text in {"no text": b"\xff\xfe\x00", "empty": b"", "no Parquet": b"hello"}.items():
        for end in ("txt", "parquet"):
            if (what, end) == ("no Parquet", "txt"):
                continue

            def odd(folder: Path, text: bytes = text, end: str = end) -> list[str]:
                put(folder, f"s.{end}", text)
                return ["solve", f"s.{end}", "-p", "key-splitting", "-m", "hash"]

            yield Case("stream: no such file", f"{what} {end}", odd)


def cases() -> Iterator[Case]:
    """All of them."""
    for part in (columns, damage, streams):
        yield from part()
