"""Malformed files: every field with every wrong type, every column, truncations, bit flips, huge sizes, odd things in place.

What is legal is said here a second time, value by value, and shares no code with the library.
"""

from __future__ import annotations

import copy
import json
import math
import os
import random
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import keyshift as ks
from hostile.legal import LEGAL, MAY_GO, never
from hostile.refusals import Case

WRONG: dict[str, Any] = {
    "null": None, "true": True, "minus": -1, "half": 1.5, "word": "x", "digits": "1", "blank": "", "empty list": [],
    "empty object": {}, "nested": [[1]], "object": {"a": 1}, "30 digits": 10**30, "nan": math.nan, "infinity": math.inf,
    "huge": 1e308, "minus half": -0.5, "far": 99_999, "path": "../../etc/passwd", "deep": "DEEP",
}  # fmt: skip
DEEP = "[" * 100_000 + "]" * 100_000
GONE = object()


def workload() -> ks.Workload:
    """A workload with everything in it."""
    return ks.Workload(
        load=[[4, 3, 2, 1, 0, 5], [1, 2, 3, 4, 5, 6]], state=[3, 1, 4, 1, 5, 9], current=[0, 0, 1, 1, 2, 2],
        nodes=[1, 2, 1.25], draining=[False, False, True], traffic=[[0, 1, 0, 0, 0, 2]] * 6, operator=[0, 0, 0, 1, 1, 1],
        home=[0, 1, 2, 0, 1, 2], resources={"memory": [1, 2, 3, 1, 2, 3]}, keys=list("abcdef"),
    )  # fmt: skip


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


ODD: dict[str, Callable[[Path], Any]] = {
    "missing": lambda path: None,
    "a folder": lambda path: path.mkdir(),
    "a pipe": lambda path: os.mkfifo(path),
    "a dangling link": lambda path: path.symlink_to("nowhere"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "an endless device": lambda path: path.symlink_to("/dev/zero"),
    "nothing in it": lambda path: path.write_bytes(b""),
}


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

            fresh = what == "missing" and file in ("front", "period", "replay")
            yield Case(f"{file}: odd thing in its place", what, make, "anything said" if fresh else "refused")


def cases() -> Iterator[Case]:
    """All of them, those of Parquet files, folders and archives too."""
    from hostile import archives, folders, parquet_files

    for part in (fields, texts, json_in_place, parquet_files.cases, folders.cases, archives.cases):
        yield from part()
