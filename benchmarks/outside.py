"""Benchmarks that others wrote, mapped to keyshift's problems.

    python benchmarks/outside.py [--quick] [--only PART ...] --out DIR

The instances are read where they lie (the folder that `KEYSHIFT_TEST_DATA` names); without them, instances of the same classes are drawn.
"""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from page import Page, run

import keyshift as ks
from keyshift.models.families.real import DATA
from keyshift.solvers.splitting.makespan import longest_first, lower_bound, multifit

SIZES = [(10, 5), *((n, m) for n in (50, 100, 500, 1000) for m in (5, 10, 25))]
RANGES = {"1": 100, "2": 1000, "3": 10_000}
Named = tuple[str, int, list[int]]


def franca(quick: bool) -> Iterator[Named]:
    """Name, machines, times: class U, uniform, or NU, where 98 % are between 0.9 and 1 of the longest, by range and size."""
    file = Path(os.environ.get(DATA, ".")) / "pcmax-franca.json.gz"
    if file.is_file():
        read = json.loads(gzip.decompress(file.read_bytes()))
        yield from ((name, one["machines"], one["times"]) for name, one in list(read.items())[:: 10 if quick else 1])
        return
    rng = np.random.default_rng(1994)
    for kind in ("NU", "U"):
        for label, longest in RANGES.items():
            for n, m in SIZES:
                for number in range(1 if quick else 5):
                    times = rng.integers(1, longest + 1, n)
                    if kind == "NU":
                        long = rng.integers(int(0.9 * longest), longest + 1, n)
                        times = np.where(rng.random(n) < 0.98, long, rng.integers(1, int(0.2 * longest), n))
                    yield f"{kind}_{label}_{n:04}_{m:02}_{number}", m, times.tolist()


def makespan(page: Page) -> None:
    """Makespan on identical machines, P || Cmax

    The classes of {ref}`[Franca1994] <franca1994>` as `KeyPlacement(range(n), workers=m, choices=None, weights=times)`; 10 seconds each.
    `n` times on `m` machines; *excess*, *LPT* and *MultiFit* are means of what an answer lies above the proven bound, *beaten* counts
    instances where one of the two did better. Seconds are a processor's.
    """
    rows = []
    for name, machines, times in franca(page.quick):
        problem = ks.KeyPlacement(range(len(times)), workers=machines, choices=None, weights=times)
        began = time.process_time()
        found = ks.solve(problem, time_limit=10.0, gap=0.0)
        seconds, loads = time.process_time() - began, sorted(times, reverse=True)
        lpt = max(map(sum, longest_first(loads, machines)))
        fit = max(map(sum, multifit(loads, machines, lower_bound(loads, machines), lpt) or [[lpt]]))
        kind, label, size, *_ = name.split("_")
        above = {
            f"{who}, %": 100 * (value - found.bound) / found.bound
            for who, value in {"excess": found.objective, "LPT": lpt, "MultiFit": fit}.items()
        }
        measured = {
            "proven": found.status == "optimal",
            "seconds": seconds,
            **above,
            "beaten": found.objective > min(lpt, fit),
        }
        rows.append({"class": f"{kind}, {RANGES[label]:,}", "n": int(size), "m": machines, "instances": 1, **measured})
    frame = page.keep(rows, "makespan")
    how = {
        column: "sum" if column in ("instances", "proven", "beaten") else "mean" for column in ["instances", *measured]
    }
    page.table(frame.groupby(["class", "n", "m"], as_index=False).agg(how).round(4))
    whole = frame.agg(how)
    page.say(
        f"{whole['proven']:.0f} of {whole['instances']:.0f} proven, mean excess {whole['excess, %']:.5f} %, "
        f"{whole['beaten']:.0f} beaten; {frame['seconds'].sum():.0f} seconds of a processor, {frame['seconds'].max():.1f} at most."
    )


if __name__ == "__main__":
    run("outside", "Benchmarks that others wrote", __doc__, [makespan])
