"""Malformed policies: archives that are torn, that lie, or that hold what no policy holds."""

from __future__ import annotations

import io
import json
import math
import random
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import keyshift as ks
from hostile.files import GONE, WRONG, changed, dump, put
from hostile.legal import never, number, whole
from hostile.refusals import Case


@lru_cache
def _policy() -> dict[str, bytes]:
    """The members of a policy's archive."""

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
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression) as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    return made.getvalue()


def _npy(array: np.ndarray) -> bytes:
    made = io.BytesIO()
    np.save(made, array, allow_pickle=True)
    return made.getvalue()


def _case(what: str, name: str, body: bytes, expect: str = "refused") -> Case:
    """One policy's file, and what must become of it."""
    return Case(f"policy: {what}", name, partial(lambda b, f: _load_policy(f, b), body), expect)


def cases() -> Iterator[Case]:
    """Policies: every array of every wrong type, shape and value; archives that are none."""
    members = _policy()
    for part in (_arrays, _archives, _damaged, _headers):
        yield from part(members)


def _arrays(members: dict[str, bytes]) -> Iterator[Case]:
    """Every array replaced by a wrong one, left out, cut short, or said to be longer than it is."""
    arrays = {
        "text": np.array("x"), "floats": np.array([0.5, 1.5]), "nan": np.array([np.nan] * 3), "none": np.empty(0, dtype=np.int64),
        "minus": np.array([-1, -2, -3]), "far": np.array([10**9] * 3), "cube": np.zeros((2, 2, 2), dtype=np.int64),
        "pickle": np.array([{"a": 1}], dtype=object), "complex": np.array([1j]), "time": np.array(["2020-01-01"], dtype="M8[D]"),
        "scalar": np.array(3), "records": np.zeros(2, dtype=[("a", "i4")]),
    }  # fmt: skip
    for name in members:
        for what, array in arrays.items():
            yield _case("array", f"{name} {what}", _zipped({**members, name: _npy(array)}))
        less = {n: b for n, b in members.items() if n != name}
        yield _case("array gone", name, _zipped(less), "anything said" if name.startswith("choice") else "refused")
        lie = _npy(np.zeros(3, dtype=np.int64)).replace(b"(3,)", b"(9" + b"9" * 0 + b",)")
        yield _case("array lies", name, _zipped({**members, name: lie}))
        yield _case("array torn", name, _zipped({**members, name: members[name][: len(members[name]) - 3]}))


def _archives(members: dict[str, bytes]) -> Iterator[Case]:
    """Archives that are none, or hold what they should not."""
    huge = (
        struct.pack("<6sBBH", b"\x93NUMPY", 1, 0, 118)
        + b"{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117)
        + b"\n"
    )
    odd = {
        "declares a terabyte": _zipped({**members, "prefix.npy": huge}), "compressed": _zipped(members, zipfile.ZIP_DEFLATED),
        "no archive": b"hello", "empty": b"", "empty archive": _zipped({}), "outside": _zipped({**members, "../x.npy": members["prefix.npy"]}),
        "no arrays": _zipped({"a.txt": b"x"}), "bomb": _zipped({**members, "z.npy": bytes(50_000_000)}, zipfile.ZIP_DEFLATED),
    }  # fmt: skip
    for what, body in odd.items():
        yield _case("archive", what, body)


def _damaged(members: dict[str, bytes]) -> Iterator[Case]:
    """A good archive cut short, and with one bit flipped."""
    body, rng = _zipped(members), random.Random("policy")
    for cut in rng.sample(range(len(body)), 40):
        yield _case("truncated", f"at {cut}", body[:cut])
    for place in rng.sample(range(len(body) * 8), 150):
        flipped = bytearray(body)
        flipped[place // 8] ^= 1 << place % 8
        yield _case("bit flipped", f"bit {place}", bytes(flipped), "anything said")


def _headers(members: dict[str, bytes]) -> Iterator[Case]:
    """Every field of the header gone, or of every wrong type and value."""
    from keyshift.solvers.intervals.policy.saved_policy import PolicyHeader

    about = json.loads(str(np.load(io.BytesIO(members["about.npy"]), allow_pickle=False)))
    assert set(about) == set(PolicyHeader.model_fields)
    fine = {"version": whole(3, 1), "low": lambda v: type(v) in (int, float) and v <= about["high"], "unit": lambda v: number(v) and v > 0,
            "high": lambda v: type(v) in (int, float) and math.isfinite(v) and v >= about["low"], "discount": lambda v: number(v) and v < 1}  # fmt: skip
    for name in about:
        for what, value in [*WRONG.items(), ("gone", GONE)]:
            header = np.array(dump(changed(about, (name,), value)))
            ok = value is not GONE and value != "DEEP" and fine.get(name, never)(value)
            body = _zipped({**members, "about.npy": _npy(header)})
            yield _case("header", f"{name} {what}", body, "anything said" if ok else "refused")
