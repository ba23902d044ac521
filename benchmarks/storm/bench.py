"""What the parts of the live runs share: the topology with the tables in force, and a tuple's way through it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from streams import HASH, TASKS, Live, Stream, Table, drawn, zipf
from tables import allocation_plan, copies_plan

KEYS = 10_000


class Bench:
    """The live topology, and where rows go."""

    def __init__(self, live: Live, out: Path, runs: int, quick: bool) -> None:
        self.live, self.out, self.runs, self.quick = live, out, runs, quick
        self.made: dict[tuple[str, float], Table] = {}

    def table(self, grouping: str, skew: float) -> Table:
        """The plan for a grouping, made from the shares of the keys."""
        if grouping not in ("table", "split"):
            return HASH
        if (grouping, skew) not in self.made:
            shares = zipf(KEYS, skew)
            self.made[grouping, skew] = allocation_plan(shares, HASH) if grouping == "table" else copies_plan(shares)
        return self.made[grouping, skew]

    def route(self, grouping: str, skew: float) -> tuple[str, Table]:
        """The stream of the topology for a grouping, with its table in force."""
        table = self.table(grouping, skew)
        if grouping in ("table", "split") and table is not self.live.table:
            self.live.switch(table)
        if grouping == "pkg, used":  # what it counted of other keys stays
            self.live.run(drawn([(6, 1e3, zipf(KEYS, 1.4))], seed=8), self.live.fresh(), 5_000, pending=400)
            return f"pkg{self.live.partial}", table
        way = self.live.fresh() if grouping == "pkg" else grouping
        return ("default" if grouping in ("table", "split") else way), table

    def measured(self, act: Callable[[], pd.DataFrame]) -> tuple[pd.DataFrame, dict[str, float]]:
        """What was served, and how much of the machine Storm and all others had meanwhile."""
        mine, every, clock = self.live.storm.cpu()
        made = act()
        mine2, every2, clock2 = self.live.storm.cpu()
        cores = (mine2 - mine) / (clock2 - clock)
        others = (every2 - every) / (clock2 - clock) - cores
        late = made["end"] - made["begin"]
        return made, {"service ms": 1e3 * late.mean(), "cores": cores, "other cores": max(0.0, others)}


def ratio(tasks: np.ndarray) -> float:
    """The largest load of a task over the mean."""
    loads = np.bincount(tasks, minlength=TASKS)
    return float(loads.max() / loads.mean())


def numbers(stream: Stream, made: pd.DataFrame) -> np.ndarray:
    """The position in the stream of each tuple that was served."""
    order = np.argsort(stream.source, kind="stable")
    first = np.searchsorted(stream.source[order], np.arange(stream.source.max() + 1))
    return order[first[made["source"]] + made["seq"].to_numpy()]


def latencies(stream: Stream, nodes: np.ndarray, us: int) -> np.ndarray:
    """Latency of each tuple by Lindley's recursion, as `ks.simulate` has it; it reports means and tails, and no median."""
    free, found = np.zeros(TASKS), np.empty(nodes.size)
    for at, (due, node) in enumerate(zip(stream.due, nodes.tolist(), strict=True)):
        free[node] = max(free[node], due) + us / 1e6
        found[at] = free[node] - due
    return found
