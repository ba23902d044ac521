"""[Nasir2015] on a real Flink: hash, shuffle, PKG and D-Choices, with delays and workers as in figure 10 and table III."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from runs import RATE, Live, draw, row, zipf

import keyshift as ks
from keyshift.engines import flink as ours

SCHEMES = ("hash", "shuffle", "pkg", "d-choices")
SETTINGS = (("zipf", 5, 1), ("zipf", 20, 4), ("words", 10, 2), ("zipf", 5, 0.1), ("zipf", 5, 0.5))
"""Stream, workers, milliseconds of delay: at the rate offered 80 % of what all workers can do; with 0.1 ms 8 %, with 0.5 ms 40 %."""


@cache
def word_counts() -> np.ndarray | None:
    """Counts of English words; None where the family's data is not there."""
    try:
        return next(iter(ks.family("words-routing")))[1].workload.last_load
    except ks.InputError:
        return None


def streams() -> dict[str, np.ndarray]:
    """Shares of the words: of English where the counts are there, else of a Zipf law."""
    english = word_counts()
    return {"zipf": zipf(10_000, 1.2), "words": zipf(50_000, 1.0) if english is None else english}


def named(stream: str) -> str:
    """What a stream is drawn from."""
    return "Zipf 1.2" if stream == "zipf" else "Zipf 1.0" if word_counts() is None else "English words"


def schemes(live: Live) -> list[dict[str, Any]]:
    """Figure 10(a) and the left half of table III."""
    rows, shares = [], streams()
    for stream, workers, delay in SETTINGS:
        words = draw(shares[stream], live.count, seed=1)
        for scheme in SCHEMES:
            path = live.folder / f"{scheme}.json"
            ours.write_routing(scheme, path)
            runs = [live.run(words, path, workers, delay / 1000) for _ in range(live.runs)]
            rows.append(
                {
                    "stream": named(stream),
                    "workers": workers,
                    "delay ms": delay * live.slow,
                    "scheme": scheme,
                    **row(runs),
                }
            )
            print(*rows[-1].values(), sep=" | ", flush=True)
    return rows


def aggregation(live: Live) -> list[dict[str, Any]]:
    """Figure 10(b) and the right half of table III: 8 workers and 2 aggregators, or 10 workers that hold each key once."""
    period = live.period
    rows, words = [], draw(streams()["words"], int(RATE / live.slow * (period + 2)) // 8 * 8, seed=2)
    for scheme in SCHEMES:
        path = live.folder / f"{scheme}.json"
        ours.write_routing(scheme, path)
        more = {} if scheme == "hash" else {"period": period, "aggregators": 2}
        workers = 8 if more else 10
        runs = [live.run(words, path, workers, 0.0016, **more) for _ in range(live.runs)]
        label = {"scheme": scheme, "workers": f"{workers} + 2" if more else workers, "T s": period if more else "-"}
        handed = runs[0].figures["handed on"] / period
        rows.append({**label, **row(runs), "counts handed on a second": round(handed)})
        print(*rows[-1].values(), sep=" | ", flush=True)
    return rows
