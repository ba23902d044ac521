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


def cases() -> Iterator[Case]:
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

    about = json.loads(str(np.load(io.BytesIO(members["about.npy"]), allow_pickle=False)))
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
