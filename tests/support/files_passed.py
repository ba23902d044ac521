"""How many files a warm solve, `keyshift plan` and a period of a replay pass, and over how many arrows from file to file.

    python tests/support/files_passed.py [--list]

Of an allocation of 400 key groups on 20 nodes. An arrow is a pair of files of which one calls into the other.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import keyshift as ks
from keyshift.cli import main

ROOT = Path(__file__).resolve().parents[2]
FLOORS = ("interface", "models", "solvers", "heuristics", "spark_stats")


class Passed:
    """The files that calls pass while it listens, and the arrows between them."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.arrows: set[tuple[str, str]] = set()

    def __enter__(self) -> Passed:
        sys.setprofile(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _call(self, frame, event: str, _: object) -> None:
        here = _ours(frame.f_code.co_filename) if event == "call" else None
        if here is None:
            return
        self.files.add(here)
        there = None if frame.f_back is None else _ours(frame.f_back.f_code.co_filename)
        if there is not None and there != here:
            self.arrows.add((there, here))


def _ours(file: str) -> str | None:
    path = Path(file)
    inside = path.relative_to(ROOT) if path.is_relative_to(ROOT) else None
    return str(inside) if inside is not None and inside.parts[0] in FLOORS else None


def drawn(seed: int) -> ks.Workload:
    rng = np.random.default_rng(seed)
    load, state = rng.gamma(2.0, 1.0, (2, 400))
    return ks.Workload(load=load, state=state, current=rng.integers(0, 20, 400), nodes=20)


def twice(run: Callable[[], object]) -> Passed:
    """What the second of two runs passes: the first one loads."""
    run()
    with Passed() as passed:
        run()
    return passed


def period() -> Passed:
    """What the third of four periods passes."""
    first = drawn(1)
    passed = Passed()

    def windows() -> Iterator[ks.Workload]:
        for number in range(4):
            sys.setprofile(passed._call if number == 2 else None)
            yield first.replace(load=drawn(number).load)
        sys.setprofile(None)

    ks.replay(windows(), "milp", problem="key-group-allocation", max_migrations=13, time_limit=5)
    return passed


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        workload = Path(folder, "w.json")
        ks.write_workload(drawn(1), workload)
        line = ["plan", str(workload), "--max-migrations", "13", "--out", str(Path(folder, "plan.json"))]
        problem = ks.KeyGroupAllocation(drawn(1), max_migrations=13)
        with contextlib.redirect_stdout(io.StringIO()):
            found = {
                "solve": twice(lambda: ks.solve(problem)),
                "keyshift plan": twice(lambda: main(line)),
                "a period": period(),
            }
    for name, passed in found.items():
        print(f"{name:<14} {len(passed.files):3} files {len(passed.arrows):4} arrows")
        if "--list" in sys.argv:
            print(*(f"    {file}" for file in sorted(passed.files)), sep="\n")
