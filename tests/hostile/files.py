"""Malformed files: every field with every wrong type, every column, truncations, bit flips, huge sizes, odd things in place.

What is legal is said here a second time, value by value, and shares no code with the library.
"""

from __future__ import annotations

import copy
import json
import math
import os
import random
import struct
import zipfile
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import keyshift as ks
from hostile.refusals import Case

P, N, M = 6, 3, 2
WRONG: dict[str, Any] = {
    "null": None, "true": True, "minus": -1, "half": 1.5, "word": "x", "digits": "1", "blank": "", "empty list": [],
    "empty object": {}, "nested": [[1]], "object": {"a": 1}, "30 digits": 10**30, "nan": math.nan, "infinity": math.inf,
    "huge": 1e308, "minus half": -0.5, "far": 999_999, "path": "../../etc/passwd", "deep": "DEEP",
}  # fmt: skip
DEEP = "[" * 100_000 + "]" * 100_000
GONE = object()


def workload() -> ks.Workload:
    """A workload with everything in it."""
    return ks.Workload(
        load=[[4, 3, 2, 1, 0, 5], [1, 2, 3, 4, 5, 6]], state=[3, 1, 4, 1, 5, 9], current=[0, 0, 1, 1, 2, 2],
        nodes=[1, 2, 1.5], draining=[False, False, True], traffic=[[0, 1, 0, 0, 0, 2]] * 6, operator=[0, 0, 0, 1, 1, 1],
        home=[0, 1, 2, 0, 1, 2], resources={"memory": [1, 2, 3, 1, 2, 3]}, keys=list("abcdef"),
    )  # fmt: skip


# What is legal in a field ---------------------------------------------------------------------------------------------


def number(v: Any) -> bool:
    return type(v) in (int, float) and math.isfinite(v) and v >= 0


def whole(below: float = 2**53, least: int = 0) -> Callable[[Any], bool]:
    return lambda v: type(v) in (int, float) and math.isfinite(v) and v == int(v) and least <= v < below


def only(*values: Any) -> Callable[[Any], bool]:
    return lambda v: any(v == w and type(v) is type(w) for w in values)


def anything(v: Any) -> bool:
    return True


def never(v: Any) -> bool:
    return False


LEGAL = {
    "workload": {
        "version": whole(3, 1), "load.*.*": number, "state.*": number, "current.*": whole(N),
        "nodes.*": lambda v: number(v) and v > 0, "nodes": whole(10_000_001, 3), "draining.*": lambda v: type(v) is bool,
        "draining": only(None), "traffic": lambda v: v is None or v == [], "traffic.*.0": whole(P), "traffic.*.1": whole(P),
        "traffic.*.2": number, "operator.*": whole(2**53 + 1), "operator": only(None), "home.*": whole(N), "home": only(None),
        "resources": lambda v: v is None or v == {}, "resources.memory.*": number, "keys": only(None),
        "keys.*": lambda v: type(v) is str or (type(v) is int),
    },
    "assignment": {"*": whole(N), "assignment.*": whole(N)},
    "replay": {"version": whole(3, 1)},
    "period": {
        "version": whole(3, 1), "clusters.*.left.*": whole(), "clusters.*.left_at.*": lambda v: type(v) is int,
        "clusters.*.place.*": whole(N), "clusters.*.first_place.*": whole(), "clusters.*.capacity.*": lambda v: number(v) and v > 0,
        "clusters.*.names.*": whole(), "clusters.*.next_name": whole(), "clusters.*.start_load": lambda v: v is None or number(v),
        "clusters.*.draining.*": lambda v: type(v) is bool,
    },
    "front": {
        "version": whole(3, 1), "about.seed": only(None), "about.keyshift_pareto": lambda v: v is None or type(v) is int,
        "points.*.seconds": lambda v: type(v) in (int, float),
        "points.*.termination": lambda v: type(v) is str, "points": only([]),
    },
    "table": {
        "version": whole(3, 1), "entries": only([]), "entries.*.node": whole(2**53), "entries.*.key": whole(2**53),
        "entries.*.label": lambda v: v is None or type(v) in (str, int),
    },
    "statistics": {
        "length": anything, "origin": anything, "rejected": anything, "hash": lambda v: type(v) is str,
        "nodes": lambda v: v is None or (whole(10_000_001, 1)(v) and type(v) is int), "placement": only(None),
        "topology.operators.*.windows": lambda v: type(v) is int and 1 <= v < 2**53, "topology.operators.*.name": lambda v: type(v) is str,
        "topology.edges": only([]), "topology.operators.*.key": anything, "topology.operators.*.cost": anything,
    },
}  # fmt: skip
"""What may stand in a field besides what is there; every other change has to be refused."""


def paths(content: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place in a JSON value, of long lists the first and the last."""
    if at:
        yield at
    if isinstance(content, dict):
        for name, value in content.items():
            yield from paths(value, (*at, name))
    elif isinstance(content, list):
        for place in sorted({0, len(content) - 1} & set(range(len(content)))):
            yield from paths(content[place], (*at, place))


def changed(content: Any, at: tuple[str | int, ...], value: Any) -> Any:
    made = copy.deepcopy(content)
    parent = made
    for part in at[:-1]:
        parent = parent[part]
    if value is GONE:
        del parent[at[-1]]
    else:
        parent[at[-1]] = value
    return made


def legal(file: str, content: Any, at: tuple[str | int, ...], value: Any) -> bool:
    there = content
    for part in at:
        there = there[part]
    if type(there) is type(value) and there == value:
        return True
    pattern = ".".join("*" if isinstance(part, int) else part for part in at)
    if at[0] == "traffic" and len(at) == 3:
        pattern = f"traffic.*.{at[2]}"
    if file == "period":
        pattern = pattern.replace(".flux.", ".*.")
    if value is GONE:
        return (file, pattern) in MAY_GO
    return LEGAL[file].get(pattern, never)(value)


MAY_GO = {
    ("workload", n)
    for n in ("draining", "traffic", "operator", "home", "resources", "keys", "resources.memory", "traffic.*", "load.*")
}
MAY_GO |= {("front", "points.*"), ("front", "about.seed"), ("table", "entries.*"), ("table", "entries.*.label")}
MAY_GO |= {
    ("statistics", n)
    for n in (
        "nodes",
        "placement",
        "rejected",
        "topology.operators.*.windows",
        "topology.edges.*",
        "topology.operators.*.key",
        "topology.operators.*.cost",
    )
}
MAY_GO |= {("period", f"rows.*.{n}") for n in ("remote_traffic", "collocation_factor")} | {
    ("period", "clusters.*.start_load"),
    ("period", "rows.*"),
}


# Good files, and what reads them ----------------------------------------------------------------------------------------


def dump(content: Any) -> str:
    return json.dumps(content).replace('"DEEP"', DEEP)


@lru_cache
def good() -> dict[str, Any]:
    """The content of every JSON file, as the library writes it."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ks.write_workload(workload(), folder / "w.json")
        ks.write_workload(workload(), folder / "w")
        ks.replay([workload()], ["flux"], problem="key-group-allocation", checkpoint=folder / "out")
        ks.pareto(ks.MCLB(workload().replace(nodes=3)), 3, checkpoint=folder / "front.json")
        ks.RoutingTable([1, 4], [2, 0]).save(folder / "table.json", labels=list("abcdef"))
        read = {
            "workload": "w.json", "manifest": "w/workload.json", "replay": "out/replay.json",
            "period": "out/period-000000.json", "front": "front.json", "table": "table.json",
        }  # fmt: skip
        made = {key: json.loads((folder / file).read_text()) for key, file in read.items()}
    made["assignment"] = {"assignment": [0, 0, 1, 1, 2, 2]}
    made["statistics"] = {
        "keyshift_statistics": 1, "length": 3_600_000_000, "origin": 0, "key_groups": 3, "hash": "xxhash64",
        "topology": {"operators": [{"name": "a", "key": "k", "cost": "1", "windows": 1},
                                   {"name": "b", "key": "j", "cost": "1", "windows": 2}], "edges": [["a", "b"]]},
        "runs": {"ab12": {"windows": [7, 8], "refused": []}}, "rejected": {}, "nodes": 2, "placement": "ranges",
    }  # fmt: skip
    return made


def statistics(folder: Path, content: Any = None) -> Path:
    """A directory of statistics: two windows of two operators of three key groups."""
    for number_ in (7, 8):
        for table, columns in STATISTICS.items():
            place = folder / "st" / "runs" / "ab12" / table / f"window={number_}"
            place.mkdir(parents=True)
            pq.write_table(pa.table(columns), place / "part-0.parquet", write_page_checksum=True)
    (folder / "st" / "statistics.json").write_text(dump(good()["statistics"] if content is None else content))
    return folder / "st"


STATISTICS = {
    "load": {"operator": [0, 0, 1], "key_group": [0, 2, 1], "load": [3.0, 1.0, 2.0], "state_whole": [3, 1, 2],
             "state_high": [0, 0, 0], "state_low": [0, 0, 0]},
    "traffic": {"src_operator": [0], "src_key_group": [0], "dst_operator": [1], "dst_key_group": [1], "tuples": [2],
                "bytes": pa.array([None], pa.float64())},
}  # fmt: skip


def put(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def reader(file: str, folder: Path, text: str | bytes) -> list[str] | Callable[[], Any]:
    """Put a file of some kind where it belongs; what reads it."""
    put(folder, "a.json", "[0, 0, 1, 1, 2, 2]")
    if file == "workload":
        put(folder, "w.json", text)
        return ["check", "w.json", "-a", "a.json"]
    if file == "assignment":
        ks.write_workload(workload(), folder / "w.json")
        put(folder, "s.json", text)
        return ["check", "w.json", "-a", "s.json"]
    if file == "manifest":
        ks.write_workload(workload(), folder / "w")
        put(folder, "w/workload.json", text)
        return ["check", "w", "-a", "a.json"]
    if file in ("replay", "period"):
        ks.write_workload(workload().replace(load=workload().load[-1]), folder / "w.json")
        put(folder, "out/replay.json", dump(good()["replay"]))
        put(folder, f"out/{'replay' if file == 'replay' else 'period-000000'}.json", text)
        periods = partial(ks.replay, [workload()], ["flux"], problem="key-group-allocation", checkpoint=folder / "out")
        return periods
    if file == "front":
        put(folder, "front.json", text)
        return partial(ks.pareto, ks.MCLB(workload().replace(nodes=3)), 3, checkpoint=folder / "front.json")
    if file == "table":
        return partial(ks.RoutingTable.load, put(folder, "table.json", text))
    statistics(folder)
    put(folder, "st/statistics.json", text)
    return partial(ks.read_workload, folder / "st")


LEGAL["manifest"] = {
    "version": whole(3, 1), "tables.load.sums": lambda v: v is None or v == {}, "tables.key_groups.sums": lambda v: v is None or v == {},
    "tables.nodes.sums": lambda v: v is None or v == {}, "tables.traffic.sums": lambda v: v is None or v == {},
    **{f"tables.{t}.rows": only(None) for t in ("load", "traffic", "key_groups", "nodes")}, "tables": only(None),
}  # fmt: skip
MAY_GO |= {
    ("manifest", f"tables.{t}.{x}") for t in ("load", "traffic", "key_groups", "nodes") for x in ("rows", "sums")
}
MAY_GO |= {("manifest", "tables"), ("manifest", "tables.traffic")}
MAY_GO |= {
    ("manifest", f"tables.{t}.sums.{c}")
    for t, c in (
        ("load", "load"),
        ("traffic", "tuples"),
        ("nodes", "capacity"),
        ("key_groups", "state"),
        ("key_groups", "resource.memory"),
    )
}


def fields() -> Iterator[Case]:
    """Every field with every wrong type, without it, twice, and with an unknown one beside it."""
    for file, content in good().items():
        for at in paths(content):
            name = ".".join(map(str, at))
            for what, value in [*WRONG.items(), ("gone", GONE)]:
                fine = value != "DEEP" and legal(file, content, at, value)
                text = partial(lambda content, at, value: dump(changed(content, at, value)), content, at, value)
                yield Case(
                    f"{file}: field", f"{name} {what}", partial(lambda f, t, folder: reader(f, folder, t()), file, text),
                    "anything said" if fine else "refused",
                )  # fmt: skip
        if file != "statistics":  # whose manifest may grow
            for name in ("weight", "__class__", "keyshift"):
                text = dump({**content, name: 1}) if file != "assignment" else "{}"
                yield Case(
                    f"{file}: unknown field", name, partial(lambda f, t, folder: reader(f, folder, t), file, text)
                )
        body = dump(content)
        twice = body[:-1] + ", " + body[1:]
        yield Case(f"{file}: field twice", "all", partial(lambda f, t, folder: reader(f, folder, t), file, twice))


def texts() -> Iterator[Case]:
    """Files that are no JSON, or JSON of another shape, or cut short."""
    odd = {
        "empty": b"", "blank": b" ", "null": b"null", "number": b"3", "list": b"[]", "text": b'"x"', "object": b"{}",
        "deep list": DEEP.encode(), "deep object": b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "half deep": b"[" * 200_000,
        "utf-16": '{"load": [1]}'.encode("utf-16"), "latin": b'{"l\xe9ad": 1}', "zeros": bytes(100), "bom": b"\xef\xbb\xbf{}",
        "parquet": b"PAR1" + bytes(40) + b"PAR1", "5000 digits": b'{"version": ' + b"9" * 5000 + b"}", "trailing": b"{} {}",
        "comment": b"{} // no", "yaml": b"load: [1, 2]", "zip": b"PK\x03\x04" + bytes(30), "lone surrogate": b'{"\\ud800": 1}',
    }  # fmt: skip
    for file, content in good().items():
        for what, text in odd.items():
            expect = "refused"
            yield Case(
                f"{file}: no such file", what, partial(lambda f, t, folder: reader(f, folder, t), file, text), expect
            )
        body = dump(content).encode()
        rng = random.Random(f"{file} cuts")
        for cut in sorted(rng.sample(range(1, len(body) - 1), 25)):
            make = partial(lambda f, t, folder: reader(f, folder, t), file, body[:cut])
            yield Case(f"{file}: truncated", f"at {cut}", make)
        for place in rng.sample(range(len(body) * 8), 40):
            flipped = bytearray(body)
            flipped[place // 8] ^= 1 << place % 8
            make = partial(lambda f, t, folder: reader(f, folder, t), file, bytes(flipped))
            yield Case(f"{file}: bit flipped", f"bit {place}", make, "anything said")


# Parquet ----------------------------------------------------------------------------------------------------------------

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
    import tempfile

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
            optional = name in ("operator", "home", "key", "resource.memory") and table == "key_groups"
            yield Case(
                kind + "column gone", name, partial(lambda t, w, folder: place_table(t, folder, w), table, packed(less)),
                "anything said" if optional else "refused",
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
            harmless = table == "traffic" and what == "missing" and False
            expect = "anything said" if harmless or (table.startswith("st ") and what == "missing") else "refused"
            yield Case(
                kind + "odd thing in its place",
                what,
                partial(lambda t, w, folder: place_table(t, folder, w), table, write),
                expect,
            )
        bombs = {"many rows": partial(bomb, good_, 40_000_000), "long texts": partial(long_texts, good_)}
        for what, write in bombs.items():
            yield Case(kind + "bomb", what, partial(lambda t, w, folder: place_table(t, folder, w), table, write))


ODD: dict[str, Callable[[Path], Any]] = {
    "missing": lambda path: None,
    "a folder": lambda path: path.mkdir(),
    "a pipe": lambda path: os.mkfifo(path),
    "a dangling link": lambda path: path.symlink_to("nowhere"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "an endless device": lambda path: path.symlink_to("/dev/zero"),
    "nothing in it": lambda path: path.write_bytes(b""),
}


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


# Workloads, statistics and policies as a whole --------------------------------------------------------------------------


def json_in_place() -> Iterator[Case]:
    """Odd things in the place of JSON files, and files of huge size."""
    names = {"workload": "w.json", "manifest": "w/workload.json", "replay": "out/replay.json",
             "period": "out/period-000000.json", "front": "front.json", "table": "table.json",
             "assignment": "s.json", "statistics": "st/statistics.json"}  # fmt: skip
    odd = {
        **ODD,
        "ten gigabytes": lambda path: os.truncate(path, 10**10) if path.write_bytes(b"{") is not None else None,
    }
    for file, name in names.items():
        for what, write in odd.items():

            def make(folder: Path, file: str = file, name: str = name, write: Any = write) -> Any:
                todo = reader(file, folder, dump(good()[file]))
                (folder / name).unlink()
                write(folder / name)
                return todo

            fresh = what == "missing" and file in ("front", "period")
            yield Case(f"{file}: odd thing in its place", what, make, "anything said" if fresh else "refused")


def missing_parts() -> Iterator[Case]:
    """Folders from which something is gone: never read as zero."""

    def without(part: str, folder: Path) -> Callable[[], Any]:
        import shutil

        path = statistics(folder) / part
        shutil.rmtree(path)
        return partial(ks.read_workload, folder / "st")

    for part in (
        "runs",
        "runs/ab12",
        "runs/ab12/load",
        "runs/ab12/load/window=7",
        "runs/ab12/load/window=8",
        "runs/ab12/traffic",
    ):
        yield Case("statistics: a folder gone", part, partial(without, part))
    for seen in ("window twice", "run outside", "window far"):

        def made(folder: Path, seen: str = seen) -> Callable[[], Any]:
            content = copy.deepcopy(good()["statistics"])
            if seen == "window twice":
                content["runs"]["cd34"] = {"windows": [8], "refused": []}
            elif seen == "run outside":
                content["runs"]["../../ab12"] = content["runs"].pop("ab12")
            else:
                content["runs"]["ab12"]["windows"] = [7, 10**12]
            return partial(ks.read_workload, statistics(folder, content))

        yield Case("statistics: runs", seen, made)

    def tables_declare(folder: Path, **numbers: int) -> list[str]:
        ks.write_workload(workload(), folder / "w")
        about = json.loads((folder / "w/workload.json").read_text()) | numbers
        put(folder, "w/workload.json", dump(about))
        return ["solve", "w", "-m", "flux"]

    for numbers in (
        {"windows": 10**9},
        {"key_groups": 10**15},
        {"nodes": 10**9},
        {"windows": 10**5, "key_groups": 10**5},
    ):
        yield Case("manifest: declares too much", str(numbers), partial(tables_declare, **numbers))


@lru_cache
def _policy() -> dict[str, bytes]:
    """The members of a policy's archive."""
    import tempfile

    w = ks.Workload(load=[3, 2, 1, 1, 2], state=[1, 2, 1, 3, 1], current=[0, 0, 1, 1, 1], nodes=2)
    problem = ks.MigrationPolicy(w, {2: {2: 0.5, 3: 0.5}, 3: {2: 1}}, 0.5, 0.9)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "p.npz"
        ks.solve(problem).details["policy"].save(path)
        with zipfile.ZipFile(path) as archive:
            return {member: archive.read(member) for member in archive.namelist()}


def _load_policy(folder: Path, body: bytes) -> Callable[[], Any]:
    from keyshift.solvers.intervals.policy.saved_policy import Policy

    path = put(folder, "p.npz", body)

    def use() -> None:
        policy = Policy.load(path)
        for n in policy.classes:
            for i in range(policy.classes[n].size):
                policy.decide(n, policy.classes[n].cuts(i), n)

    return use


def _zipped(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    import io

    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression) as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    return made.getvalue()


def _npy(array: np.ndarray) -> bytes:
    import io

    made = io.BytesIO()
    np.save(made, array, allow_pickle=True)
    return made.getvalue()


def policies() -> Iterator[Case]:
    """Policies: every array of every wrong type, shape and value; archives that are none."""
    members = _policy()
    arrays = {
        "text": np.array("x"), "floats": np.array([0.5, 1.5]), "nan": np.array([np.nan] * 3), "none": np.empty(0, dtype=np.int64),
        "minus": np.array([-1, -2, -3]), "far": np.array([10**9] * 3), "cube": np.zeros((2, 2, 2), dtype=np.int64),
        "pickle": np.array([{"a": 1}], dtype=object), "complex": np.array([1j]), "time": np.array(["2020-01-01"], dtype="M8[D]"),
        "scalar": np.array(3), "records": np.zeros(2, dtype=[("a", "i4")]),
    }  # fmt: skip
    for name in members:
        for what, array in arrays.items():
            yield Case(
                "policy: array",
                f"{name} {what}",
                partial(lambda b, f: _load_policy(f, b), _zipped({**members, name: _npy(array)})),
            )
        less = {n: b for n, b in members.items() if n != name}
        expect = "anything said" if name.startswith("choice") else "refused"
        yield Case("policy: array gone", name, partial(lambda b, f: _load_policy(f, b), _zipped(less)), expect)
        lie = _npy(np.zeros(3, dtype=np.int64)).replace(b"(3,)", b"(9" + b"9" * 0 + b",)")
        yield Case(
            "policy: array lies", name, partial(lambda b, f: _load_policy(f, b), _zipped({**members, name: lie}))
        )
        torn = members[name][: len(members[name]) - 3]
        yield Case(
            "policy: array torn", name, partial(lambda b, f: _load_policy(f, b), _zipped({**members, name: torn}))
        )
    huge = (
        struct.pack("<6sBBH", b"\x93NUMPY", 1, 0, 118)
        + b"{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117)
        + b"\n"
    )
    whole_ = _zipped(members)
    odd = {
        "declares a terabyte": _zipped({**members, "prefix.npy": huge}), "compressed": _zipped(members, zipfile.ZIP_DEFLATED),
        "no archive": b"hello", "empty": b"", "empty archive": _zipped({}), "outside": _zipped({**members, "../x.npy": members["prefix.npy"]}),
        "no arrays": _zipped({"a.txt": b"x"}), "bomb": _zipped({**members, "z.npy": bytes(50_000_000)}, zipfile.ZIP_DEFLATED),
    }  # fmt: skip
    for what, body in odd.items():
        yield Case("policy: archive", what, partial(lambda b, f: _load_policy(f, b), body))
    rng = random.Random("policy")
    for cut in rng.sample(range(len(whole_)), 40):
        yield Case("policy: truncated", f"at {cut}", partial(lambda b, f: _load_policy(f, b), whole_[:cut]))
    for place in rng.sample(range(len(whole_) * 8), 150):
        flipped = bytearray(whole_)
        flipped[place // 8] ^= 1 << place % 8
        yield Case(
            "policy: bit flipped",
            f"bit {place}",
            partial(lambda b, f: _load_policy(f, b), bytes(flipped)),
            "anything said",
        )
    from keyshift.models.files.policy import PolicyHeader

    about = json.loads(str(np.load(__import__("io").BytesIO(members["about.npy"]), allow_pickle=False)))
    assert set(about) == set(PolicyHeader.model_fields)
    fine = {"version": whole(3, 1), "low": lambda v: type(v) in (int, float) and v <= about["high"], "unit": lambda v: number(v) and v > 0,
            "high": lambda v: type(v) in (int, float) and math.isfinite(v) and v >= about["low"], "discount": lambda v: number(v) and v < 1}  # fmt: skip
    for name in about:
        for what, value in [*WRONG.items(), ("gone", GONE)]:
            header = np.array(dump(changed(about, (name,), value)))
            ok = value is not GONE and value != "DEEP" and fine.get(name, never)(value)
            yield Case(
                "policy: header", f"{name} {what}", partial(lambda b, f: _load_policy(f, b), _zipped({**members, "about.npy": _npy(header)})),
                "anything said" if ok else "refused",
            )  # fmt: skip


def streams() -> Iterator[Case]:
    """Streams of keys."""
    rows = 4
    for what, make in TYPES.items():
        if what in ("text", "words", "minus", "far", "unsigned"):
            continue

        def made(folder: Path, make: Any = make) -> list[str]:
            pq.write_table(pa.table({"key": make(rows)}), folder / "s.parquet")
            return ["solve", "s.parquet", "-p", "key-splitting", "-m", "hash"]

        expect = "anything said" if what in ("flags",) else "refused"
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
    for part in (fields, texts, columns, damage, json_in_place, missing_parts, policies, streams):
        yield from part()
