"""How fast key splitting is: every scheme in millions of messages a second, and the optimum by flows.

    python benchmarks/key_splitting_speed.py [--quick] [--only PART ...] --out DIR

One core. The machine is shared by other work: by the wall clock that work counts too, by processor time it does not.
"""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pandas as pd
from key_splitting import fed, optimum
from page import Page, run

import keyshift as ks
from keyshift.models.families.splitting import draw_keys, zipf_shares
from keyshift.models.splitting.stream import CHUNK


def partitioners(page: Page) -> None:
    """Partitioners."""
    m = 5_000_000 if page.quick else 20_000_000
    rng, out, rows = np.random.default_rng(0), np.empty(m, dtype=np.int32), []

    def rate(work, messages: int = m, repeats: int = 7) -> np.ndarray:
        """Best of a few runs in millions of messages a second: by the wall clock, and by processor time."""
        took = []
        for _ in range(repeats):
            wall, processor = time.perf_counter(), time.process_time()
            work()
            took.append((time.perf_counter() - wall, time.process_time() - processor))
        return messages / np.min(took, axis=0) / 1e6

    def feed(scheme: str, messages: int = m, **options: object) -> None:
        partitioner = ks.Partitioner(scheme, 100, **options)
        for begin in range(0, messages, CHUNK):
            end = min(begin + CHUNK, messages)
            partitioner.feed(keys[begin:end], out=out[begin:end])

    streams = {
        "uniform, 100k keys": (100_000, 0.0),
        "Zipf 0.8, 100k keys": (100_000, 0.8),
        "Zipf 1.2, 1M keys": (10**6, 1.2),
    }
    for name, law in streams.items():
        keys = draw_keys(rng, zipf_shares(*law), m)
        ks.Partitioner("pkg", 100).feed(keys[:10])
        pkg, counting = rate(lambda: feed("pkg")), rate(lambda: np.bincount(keys))  # noqa: B023
        rows.append({"stream": name, "PKG, wall": pkg[0], "PKG, processor": pkg[1], "bincount, wall": counting[0],
                     "bincount, processor": counting[1], "ratio, wall": pkg[0] / counting[0], "ratio, processor": pkg[1] / counting[1]})  # fmt: skip
    page.say(f"PKG, 2 choices, 1 source, 100 workers, one core, {m / 1e6:.0f} M messages: hashing, decision, answer written, average imbalance",
             "tracked. Best of seven, and so for `np.bincount` over the same array; in M messages a second. The machine is shared by other",
             "work: by the wall clock that work counts too, by processor time it does not.")  # fmt: skip
    page.table(pd.DataFrame(rows), "speed")
    rows = []
    for scheme in ("hash", "shuffle", "greedy-d", "potc", "on-greedy", "d-choices", "w-choices"):
        options = {"choices": 5} if scheme == "greedy-d" else {}
        fed(scheme, keys[:1000], 100, **options)
        per_second = rate(lambda: feed(scheme, m // 4, **options), m // 4, 1)[0]  # noqa: B023
        rows.append({"scheme (last stream)": f"{scheme} {options or ''}".strip(), "M messages/s": per_second})
    page.table(pd.DataFrame(rows))
    partitioner, peaks = ks.Partitioner("pkg", 100, sources=5), []
    for rounds in (4, 40):
        tracemalloc.start()
        for _ in range(rounds):
            partitioner.feed(keys[:CHUNK])
        peaks.append(tracemalloc.get_traced_memory()[1] / 1e6)
        tracemalloc.stop()
    page.say(f"Memory at its peak: {peaks[0]:.1f} MB feeding 4 chunks, {peaks[1]:.1f} MB feeding 40.", "")


def flows(page: Page) -> None:
    """The optimum by flows."""
    rng, rows, k = np.random.default_rng(0), [], 100_000 if page.quick else 1_000_000
    page.say("100 workers (whole call: histogram, flows, answer, check):")
    for d in (2, 3):
        keys = np.concatenate([np.arange(k), draw_keys(rng, zipf_shares(k, 0.9), 2 * k)])
        problem = ks.KeySplitting(keys, workers=100, choices=d)
        began = time.perf_counter()
        answer = optimum(keys, 100, d)
        rows.append({"d": d, "keys": k, "messages": keys.size, "seconds": time.perf_counter() - began,
                     "flows": answer.details["rounds"], "optimum": answer.objective,
                     "universal bound": ks.solve(problem, "universal").bound, "greedy-d": ks.solve(problem, "greedy-d").objective})  # fmt: skip
        assert rows[-1]["greedy-d"] >= answer.objective
    page.table(pd.DataFrame(rows))


if __name__ == "__main__":
    run("key_splitting_speed", "Key splitting: speed", __doc__, (partitioners, flows))
