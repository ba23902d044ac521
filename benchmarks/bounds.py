"""Where bounds or speed were weak: every part measured by the version before and by this one, one after the other.

    python benchmarks/bounds.py [--quick] [--only PART ...] [--beside PYTHON] --out DIR

`--beside` names the interpreter of an environment with the version before. Seconds are of the processor, not of the clock.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pandas as pd
from page import run

import keyshift as ks
from keyshift.papers.page import Page

Row = dict[str, Any]


def spent(work: Callable[..., Any], *given: Any) -> tuple[float, Any]:
    """Processor seconds, and the result."""
    began = time.process_time()
    result = work(*given)
    return time.process_time() - began, result


# What is measured, by whichever version runs this: labels, then figures -----------------------------------------------


def stream_of(law: float, messages: int) -> np.ndarray:
    from keyshift.generators.splitting import draw_keys, zipf_shares

    return draw_keys(np.random.default_rng(0), zipf_shares(10**6, law), messages)


def send(scheme: str, sources: int, keys: np.ndarray, out: np.ndarray) -> Any:
    partitioner = ks.Partitioner(scheme, 100, sources=sources)
    for begin in range(0, keys.size, 1 << 18):
        partitioner.feed(keys[begin : begin + (1 << 18)], out=out[begin : begin + (1 << 18)])
    return partitioner


def measured_messages(quick: bool) -> Iterator[Row]:
    m = 2_000_000 if quick else 10_000_000
    out = np.empty(m, dtype=np.int32)
    for law in (0.0, 0.8, 1.2):
        keys = stream_of(law, m)
        for scheme in ("pkg", "d-choices", "w-choices"):
            for sources in (1, 5):
                send(scheme, sources, keys[: 1 << 20], out)
                count = min(spent(np.bincount, keys)[0] for _ in range(5))
                runs = [spent(send, scheme, sources, keys, out) for _ in range(5)]
                took, partitioner = min(runs, key=lambda each: each[0])
                yield {"Zipf's exponent": law, "scheme": scheme, "sources": sources, "M messages/s": m / took / 1e6,
                       "share of bincount": count / took, "average imbalance": partitioner.average_imbalance}  # fmt: skip


def measured_policies(quick: bool) -> Iterator[Row]:
    from keyshift.models import Budget
    from keyshift.models.base.compiling import COMPILING
    from keyshift.models.intervals.policy.transitions import transition_matrix
    from keyshift.papers import ding2015

    w, _ = ding2015.start(Page("start", Path(mkdtemp()), quick=quick, say=str))
    chances = transition_matrix(ding2015.histories()[0])
    for tau, discount in [("0.2", 0.8)] if quick else [("0.2", 0.8), ("0.2", 0.95), ("0.21", 0.8), ("0.22", 0.8)]:
        iteration = ding2015.PolicyIteration(ks.MigrationPolicy(w, chances, tau, discount))
        with COMPILING.at_once():
            iteration.ruler.sweep(*small(iteration))
            seconds, _ = spent(iteration.run, Budget(None), 1e-7)
        values = sum(float(v.sum()) for v in iteration.value.values())
        yield {"tau": tau, "discount": discount, "partitions": sum(iteration.sizes().values()), "rounds": iteration.rounds,
               "seconds": seconds, "sum of values": values, "certain to": iteration.gap / w.state.sum()}  # fmt: skip


def small(iteration: Any) -> tuple[Any, ...]:
    """A sweep that compiles."""
    least = min(iteration.classes.values(), key=lambda each: each.size)
    return least, least.rows, np.zeros(least.size, dtype=np.int64)


# Both versions beside each other ---------------------------------------------------------------------------------------


def beside(page: Page, part: str, labels: list[str]) -> pd.DataFrame:
    """The rows of a part by both versions, joined by their labels."""
    found = {}
    for version, python in (("before", page.given.beside), ("now", sys.executable)):
        if python:
            command = [python, __file__, "--measure", part, *["--quick"] * page.quick]
            said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            found[version] = pd.DataFrame(map(json.loads, said.splitlines())).set_index(labels)
    both = pd.concat(found, axis=1).swaplevel(axis=1)
    figures = list(dict.fromkeys(both.columns.get_level_values(0)))
    both = both[[(figure, version) for figure in figures for version in found]]
    both.columns = [f"{figure}, {version}" for figure, version in both.columns]
    return page.table(both.reset_index(), part)


def messages(page: Page) -> None:
    """Message routing.

    A million keys, 100 workers; `np.bincount` over the same keys counts as 1. Best of five.
    """
    beside(page, "messages", ["Zipf's exponent", "scheme", "sources"])


def policies(page: Page) -> None:
    """Policies.

    Policy iteration over all partitions of [Ding2015]'s stream, from 8 to 16 nodes, to a ten-millionth of all the state.
    """
    beside(page, "policies", ["tau", "discount"])


PARTS = (messages, policies)

if __name__ == "__main__":
    if "--measure" in sys.argv:
        for row in globals()["measured_" + sys.argv[2]]("--quick" in sys.argv):
            print(json.dumps(row), flush=True)
    else:
        run(
            "bounds",
            "Where the bounds are weak",
            __doc__,
            PARTS,
            beside={"help": "an interpreter of the version before"},
        )
