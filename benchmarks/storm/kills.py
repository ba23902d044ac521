"""Workers of the live topology that are killed, and what at-least-once delivery makes of it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
from cluster import running
from results import Kept
from streams import HASH, TASKS, Live, Table, drawn, zipf


def kills(out: Path, count: int) -> None:
    """Workers get kill -9 at random moments, half of them while state moves; the state is kept in files."""
    kept = Kept(out, "kills")
    while len(kept.rows) < count:
        with running() as storm:
            folder = storm.folder / "kept"
            folder.mkdir()
            live = Live(storm, kept=folder, timeout=15)
            killed_once(live, kept, min(5, count - len(kept.rows)))


def killed_once(live: Live, kept: Kept, times: int) -> None:
    """One stream with several kills."""
    keys, us, gap, rng = 1_000, 10_000, 25, np.random.default_rng(len(kept.rows))
    seconds = (times + 1) * gap
    stream = drawn([(seconds, 200.0, zipf(keys, 0.8))], seed=500 + len(kept.rows))
    start, told = live.begin(stream, "default", us, pad=200, pace=20_000), []
    for t in range(times):
        time.sleep(max(0.0, start + gap * (t + 1) - 8 + rng.uniform(0, 2) - time.monotonic()))
        if t % 2 == 0:
            live.switch(Table((HASH.groups + t // 2 + 1) % TASKS, {}), wait=None)
            time.sleep(rng.uniform(0, 2))
        port, process = sorted(live.storm.workers().items())[int(rng.integers(len(live.storm.workers())))]
        os.kill(process, 9)
        told.append(
            {
                "kill": len(kept.rows) + t,
                "while state moves": t % 2 == 0,
                "worker": port,
                "second": time.monotonic() - start,
            }
        )
        print(told[-1], flush=True)
    made = live.finish(start, stream, 300)
    time.sleep(4)  # states are written once a second
    live.until(lambda: live.switched(live.epoch) == TASKS, 60)
    counted = np.zeros(keys, dtype=int)
    for file in live.storm.out.glob("states-*"):
        for line in file.read_text().splitlines():
            counted[int(line.split()[0][1:])] += int(line.split()[1])
    came = np.bincount(stream.keys, minlength=keys)
    lost, twice = int(np.maximum(0, came - counted).sum()), int(np.maximum(0, counted - came).sum())
    served = len(made) - len(made.drop_duplicates(["source", "seq"]))
    kept.add(*({**one, "tuples": stream.keys.size if i == 0 else 0, "lost": lost if i == 0 else 0, "counted twice": twice if i == 0 else 0,
                "served twice": served if i == 0 else 0} for i, one in enumerate(told)))  # fmt: skip
