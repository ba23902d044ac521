"""How fast key splitting is: every scheme in millions of messages a second, and the optimum by flows.

    python benchmarks/key_splitting_speed.py [--quick] [--only PART ...] --out DIR

One core. The machine is shared by other work: by the wall clock that work counts too, by processor time it does not.
"""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
from page import run

import keyshift as ks
from keyshift.generators.splitting import draw_keys, zipf_shares
from keyshift.models.splitting.stream import CHUNK
from keyshift.papers.page import Page, best_of

LAWS = {"uniform, 100k keys": (100_000, 0.0), "Zipf 0.8, 100k keys": (100_000, 0.8), "Zipf 1.2, 1M keys": (10**6, 1.2)}
SCHEMES = ("hash", "shuffle", "greedy-d", "potc", "on-greedy", "d-choices", "w-choices")


def feed(scheme: str, keys: np.ndarray, out: np.ndarray, **options: object) -> None:
    partitioner = ks.Partitioner(scheme, 100, **options)
    for begin in range(0, keys.size, CHUNK):
        partitioner.feed(keys[begin : begin + CHUNK], out=out[begin : min(begin + CHUNK, keys.size)])


def partitioners(page: Page) -> None:
    """Partitioners.

    PKG, 2 choices, 1 source, 100 workers, one core, 20 M messages (5 M in a quick run): hashing, decision, answer written, average
    imbalance tracked. Best of seven, and so for `np.bincount` over the same array; in M messages a second.
    """
    m = 5_000_000 if page.quick else 20_000_000
    rng, out, rows = np.random.default_rng(0), np.empty(m, dtype=np.int32), {}
    for name, law in LAWS.items():
        keys = draw_keys(rng, zipf_shares(*law), m)
        feed("pkg", keys[:10], out)
        for what, took in {
            "PKG": best_of(7, feed, "pkg", keys, out),
            "bincount": best_of(7, np.bincount, keys),
        }.items():
            rows |= {(what, "wall", name): m / took[0] / 1e6, (what, "processor", name): m / took[1] / 1e6}
    rows |= {("ratio", *of): value / rows["bincount", *of] for (what, *of), value in rows.items() if what == "PKG"}
    table = pd.Series(rows).unstack(2).T.rename_axis("stream")
    page.table(table.set_axis([", ".join(column) for column in table], axis=1), "speed")
    schemes = []
    for scheme in SCHEMES:
        options = {"choices": 5} if scheme == "greedy-d" else {}
        feed(scheme, keys[:1000], out, **options)
        took = best_of(1, feed, scheme, keys[: m // 4], out, **options)[0]
        schemes.append({"scheme (last stream)": f"{scheme} {options or ''}".strip(), "M messages/s": m / 4e6 / took})
    page.table(schemes)
    partitioner, peaks = ks.Partitioner("pkg", 100, sources=5), []
    for rounds in (4, 40):
        tracemalloc.start()
        for _ in range(rounds):
            partitioner.feed(keys[:CHUNK])
        peaks.append(tracemalloc.get_traced_memory()[1] / 1e6)
        tracemalloc.stop()
    page.say(f"Memory at its peak: {peaks[0]:.1f} MB feeding 4 chunks, {peaks[1]:.1f} MB feeding 40.", "")


def flows(page: Page) -> None:
    """The optimum by flows: 100 workers (whole call: histogram, flows, answer, check)."""
    rng, rows, k = np.random.default_rng(0), [], 100_000 if page.quick else 1_000_000
    for d in (2, 3):
        keys = np.concatenate([np.arange(k), draw_keys(rng, zipf_shares(k, 0.9), 2 * k)])
        problem = ks.KeySplitting(keys, workers=100, choices=d)
        seconds, _, best = best_of(1, ks.solve, problem)
        universal, greedy = (ks.solve(problem, method) for method in ("universal", "greedy-d"))
        assert best.status == "optimal"
        assert best.objective <= greedy.objective
        rows.append({"d": d, "keys": k, "messages": keys.size, "seconds": seconds, "flows": best.details["rounds"],
                     "optimum": best.objective, "universal bound": universal.bound, "greedy-d": greedy.objective})  # fmt: skip
    page.table(rows)


if __name__ == "__main__":
    run("key_splitting_speed", "Key splitting: speed", __doc__, (partitioners, flows))
