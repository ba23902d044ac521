"""Malformed files beyond workloads: scenarios, tables of best known answers, study folders, answers, plans, proofs, REST."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from support.raw_server import MALFORMED, OK, serving

import keyshift as ks
from hostile.archives import _npy
from hostile.files import DEEP, GONE, ODD, WRONG, changed, dump, paths, put, workload
from hostile.refusals import Case
from keyshift.engines import flink_rest

TEXTS = {
    "empty": b"", "blank": b" ", "null": b"null", "number": b"3", "list": b"[]", "text": b'"x"', "object": b"{}",
    "deep list": DEEP.encode(), "half deep": b"[" * 200_000, "latin": b'{"l\xe9": 1}', "zeros": bytes(100), "comma": b"1,2\n3",
    "lone surrogate": b'["\\ud800"]', "words": b"a,b\nc,d\n", "half a row": b"1,2\n3,", "30 digits": b"[[" + b"1" * 30 + b"]]",
    "nan": b"nan,nan\n", "infinity": b"[[Infinity]]", "texts": b'[["1", "2"]]', "flags": b"[[true]]", "ragged": b"[[1], [1, 2]]",
    "5000 digits": b"[[" + b"9" * 5000 + b"]]", "many lists": b"[" + b"[]," * 4_000_000 + b"[]]", "pickle": b"\x80\x04]\x94.",
    "half an npy": b"\x93NUMPY\x01\x00", "a lie of an npy": b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f8', 'fortran_order': False, "
    b"'shape': (1000000000, 6), }".ljust(117) + b"\n",
}  # fmt: skip
ALLOCATION = ["-p", "key-group-allocation", "-m", "flux"]


@lru_cache
def good() -> dict[str, bytes]:
    """Files as the library writes them, by what they are called here."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        solution = ks.solve(ks.KeyGroupAllocation(workload(), max_migrations=2))
        solution.save(folder / "solution.json")
        ks.plan(solution.problem, solution).save(folder / "plan.json")
        ks.certify(solution, folder / "certificate.json", time_limit=1)
        study = ks.study({"a": solution.problem}, ["flux"], out=folder / "study")
        study.update_best(folder / "best.csv")
        result = next((folder / "study" / "results").iterdir())
        made = {f: (folder / f).read_bytes() for f in ("solution.json", "plan.json", "certificate.json", "best.csv")}
        made |= {"best.answers.json": (folder / "best.answers.json").read_bytes()}
        return {**made, "study.json": (folder / "study/study.json").read_bytes(), result.name: result.read_bytes()}


def result_name() -> str:
    return next(name for name in good() if len(name) == 37)


def reads(file: str, folder: Path) -> list[str] | Callable[[], Any]:
    """Put the good files beside a bad one; what reads them."""
    for name, text in good().items():
        place = {"study.json": "study/study.json", result_name(): f"study/results/{name}"}.get(name, name)
        if not (folder / place).exists() and not (folder / place).is_symlink() and place != file:
            put(folder, place, text)
    if file.startswith("scenarios"):
        ks.write_workload(workload(), folder / "w.json")
        return ["solve", "w.json", *ALLOCATION, "--scenarios", file, "--over", "max"]
    if file == "solution.json":
        return partial(ks.read_solution, folder / file)
    if file == "plan.json":
        return ["diff", file, file]
    if file == "certificate.json":
        return ["verify", file]
    if file.startswith("best"):
        from keyshift.studies.tables import BestKnown

        return lambda: BestKnown.read(folder / "best.csv").contradictions([])
    problem = ks.KeyGroupAllocation(workload(), max_migrations=2)
    return lambda: ks.study({"a": problem}, ["flux"], out=folder / "study").to_frame()


def case(kind: str, name: str, file: str, text: bytes, expect: str = "anything said") -> Case:
    def make(folder: Path) -> Any:
        put(folder, file, text)
        return reads(file, folder)

    return Case(f"{kind}", name, make, expect)


def fields() -> Iterator[Case]:
    """Every field of what is JSON with every wrong type, or without it."""
    for file, name in {"solution.json": "solution", "plan.json": "plan", "certificate.json": "certificate"}.items():
        content = json.loads(good()[file])
        for at in paths(content):
            some = random.Random(f"{name} {at}").sample([*WRONG.items(), ("gone", GONE)], 5)
            for what, value in [*some, ("fraction", {"fraction": "1e99999999"})]:
                text = dump(changed(content, at, value)).encode()
                yield case(f"{name}: field", f"{'.'.join(map(str, at))} {what}", file, text)
    for file in ("study.json", result_name()):
        content = json.loads(good()[file])
        for at in content:
            text = dump(changed(content, (at,), GONE)).encode()
            yield case("study folder: field", f"{file[:5]} {at} gone", _there(file), text, "refused")
            text = dump(changed(content, (at,), "DEEP")).encode()
            yield case("study folder: field", f"{file[:5]} {at} deep", _there(file), text, "refused")


def _there(file: str) -> str:
    return "study/study.json" if file == "study.json" else f"study/results/{file}"


def texts() -> Iterator[Case]:
    """Whole files that are something else, and good ones with a bit flipped or cut short."""
    table = np.arange(12.0).reshape(2, 6) + 1
    bodies = {"scenarios.npy": _npy(table), "scenarios.json": json.dumps(table.tolist()).encode(),
              "scenarios.csv": "\n".join(",".join(map(str, row)) for row in table).encode()}  # fmt: skip
    bodies |= {name: good()[name] for name in ("solution.json", "plan.json", "certificate.json")}
    bodies |= {name: good()[name] for name in ("best.csv", "best.answers.json")}
    bodies |= {_there(name): good()[name] for name in ("study.json", result_name())}
    for file, body in bodies.items():
        kind = file.split("/")[0]
        for what, text in TEXTS.items():
            strict = kind in ("study", "solution.json", "plan.json", "scenarios.npy")
            yield case(
                f"{kind}: no such file", f"{file[:20]} {what}", file, text, "refused" if strict else "anything said"
            )
        rng = random.Random(f"{file.split('/')[-1][:5]} bits")
        size = min(len(body), 128) if file.endswith(".npy") else len(body)
        for place in rng.sample(range(size * 8), min(60, size * 8)):
            flipped = bytearray(body)
            flipped[place // 8] ^= 1 << place % 8
            yield case(f"{kind}: bit flipped", f"{file[:20]} bit {place}", file, bytes(flipped))
        for cut in rng.sample(range(1, len(body) - 1), 10):
            yield case(f"{kind}: truncated", f"{file[:20]} at {cut}", file, body[:cut])
        for what, write in ODD.items():
            yield Case(f"{kind}: odd thing in its place", f"{file[:20]} {what}", partial(_odd, file, write),
                       "anything said" if what in ("missing", "nothing in it") else "refused")  # fmt: skip


def _odd(file: str, write: Callable[[Path], Any], folder: Path) -> Any:
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    write(folder / file)
    return reads(file, folder)


def rest() -> Iterator[Case]:
    """Servers that are no Flink, and answers that are none of a job."""
    for name, answer in MALFORMED.items():
        yield Case("REST: no Flink", name, lambda folder, a=answer: partial(_imported, a, folder))
    for name, text in TEXTS.items():
        head = OK + f"Content-Length: {len(text)}\r\n\r\n".encode()
        yield Case("REST: no job", name, lambda folder, a=head + text: partial(_imported, a, folder))


def _imported(answer: bytes, folder: Path) -> None:
    with serving(answer) as url:
        flink_rest.read_rest(url, "a" * 32)


def cases() -> Iterator[Case]:
    """All of them."""
    for part in (fields, texts, rest):
        yield from part()
