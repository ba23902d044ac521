"""[Fang2016], Figures 13 to 16, on the engine: mixed routing when frequencies change, as far as two cores carry it.

One keyed operator of eight tasks. The paper's PKG merges partial results and its Q5 has three joins in a chain; neither is here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from bench import KEYS, Bench, latencies, numbers, ratio
from results import Kept
from streams import GROUPS, HASH, TASKS, Stream, Table, drawn, predicted

import keyshift as ks
from keyshift.generators.routing import ZipfStream
from keyshift.papers.fang2016_queues import LIMIT
from keyshift.papers.fang2016_queues import planned as solved

TABLED = ("mixed", "readj")
SEVEN = Table(np.where(HASH.groups < TASKS - 1, HASH.groups, np.arange(GROUPS) // TASKS % (TASKS - 1)), {})
"""The hash of seven tasks: an eighth takes key groups from all of them."""


class Setting(NamedTuple):
    """What comes from the start on, the table in force, and the one that follows."""

    figure: int
    setting: str
    method: str
    shares: np.ndarray
    before: Table = HASH
    after: Table | None = None


def changing(keys: int, skew: float, f: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Shares of the keys before and after a change of the frequencies."""
    stream = ZipfStream(keys, TASKS, skew, f, seed=seed)
    stream.home = HASH.nodes(keys)
    before = stream._weight.copy()
    stream.advance()
    return before, stream._weight


def planned(method: str, shares: np.ndarray, before: Table, theta: float, home: Table = HASH) -> Table:
    """A new table; where it misses the tolerance, the method's best."""
    tasks, loads = int(home.groups.max()) + 1, 1e6 * shares
    w = ks.Workload(load=loads, state=np.maximum(loads, 1e-3), current=before.nodes(shares.size),
                    home=home.nodes(shares.size), nodes=tasks)  # fmt: skip
    nodes = solved(ks.MixedRouting(w, theta_max=theta, max_table_size=LIMIT), method)
    return Table(home.groups, {f"k{k}": [int(nodes[k])] for k in np.flatnonzero(nodes != w.home)})


def settings(run: int) -> Iterator[Setting]:
    """The settings of the four figures."""

    def both(figure: int, setting: str, method: str, shares: tuple[np.ndarray, np.ndarray], theta: float) -> Setting:
        before = planned(method, shares[0], HASH, theta)
        return Setting(figure, setting, method, shares[1], before, planned(method, shares[1], before, theta))

    for f in (0.5, 1.0, 2.0):
        shares = changing(KEYS, 0.85, f, run)
        yield from (Setting(13, f"f = {f:g}", method, shares[1]) for method in ("fields", "shuffle", "pkg"))
        yield from (both(13, f"f = {f:g}", method, shares, 0.08) for method in TABLED)
    shares = changing(1_036, 0.85, 1.0, run)
    yield from (Setting(14, "any", method, shares[1]) for method in ("fields", "pkg"))
    yield from (both(14, f"theta {theta:g}", method, shares, theta) for theta in (0.02, 0.08, 0.3) for method in TABLED)
    even = changing(KEYS, 0.85, 0.0, run)[0]
    seven = planned("mixed", even, SEVEN, 0.1, SEVEN)
    yield Setting(15, "no eighth", "mixed", even, seven, seven)
    yield from (Setting(15, "an eighth", m, even, seven, planned(m, even, seven, 0.1)) for m in TABLED)
    shares = changing(KEYS, 0.8, 1.0, 50 + run)
    yield Setting(16, "any", "fields", shares[1])
    yield from (
        both(16, f"theta {theta:g}", m, shares, theta)
        for m, theta in (("mixed", 0.02), ("mixed", 0.2), ("readj", 0.02))
    )


def way_of(bench: Bench, method: str) -> str:
    """The stream of the topology for a method."""
    return "default" if method in TABLED else bench.live.fresh() if method == "pkg" else method


def carried(bench: Bench, s: Setting, way: str, stream: Stream, when: float, us: int, pending: int = 0) -> tuple[pd.DataFrame, dict[str, float]]:  # fmt: skip
    """Send a stream, by the second table from a time on: what was served, and Storm's share of the machine."""
    live = bench.live
    if s.method in TABLED and s.before is not live.table:
        live.switch(s.before)

    def act() -> pd.DataFrame:
        start = live.begin(stream, way, us, pending=pending)
        if s.after is not None:
            time.sleep(max(0.0, start + when - time.monotonic()))
            live.switch(s.after, wait=None)
        return live.finish(start, stream, way=way)

    return bench.measured(act)


def throughput_of_tables(bench: Bench, run: int) -> None:
    """As fast as 200 tuples that are not acknowledged yet allow, from a change of the frequencies on; four seconds later a new table."""
    kept, us, when, seconds, pending = Kept(bench.out, "figures"), 5_000, 4, 12, 200
    rate = 1.3 * TASKS * 1e6 / us
    for s in settings(run):
        named: dict[str, Any] = {"figure": s.figure, "setting": s.setting, "method": s.method, "run": run}
        if kept.has(**named):
            continue
        stream = drawn([(seconds, rate, s.shares)], seed=800 + run, even=True)
        closed = stream._replace(due=np.arange(stream.due.size) / rate)
        way = way_of(bench, s.method)
        first = last = bench.live.sent(stream, s.method, s.before)
        if s.after is None:
            said = predicted(closed, first, us, queue=pending, spans=seconds)
        else:
            first, last = (table.nodes(s.shares.size) for table in (s.before, s.after))
            said = ks.simulate((closed.due, stream.keys), first, [(when, last)], service_rate=1e6 / us, nodes=TASKS,
                               queue=pending, spans=seconds)  # fmt: skip
            first, last = first[stream.keys], last[stream.keys]
        made, share = carried(bench, s, way, stream, when, us, pending)
        at, done, entries = numbers(stream, made), said.to_frame()["done"], len((s.after or s.before).entries)
        for period, low, high, nodes in (("changed", 1, when, first), ("planned", when + 3, seconds, last)):
            there = made["emitted"].between(low, high).to_numpy()
            kept.add({**named, "period": period, "throughput predicted": done.iloc[low:high].mean(),
                      "throughput measured": made["end"].between(low, high).sum() / (high - low),
                      "ratio predicted": ratio(nodes[at[there]]), "ratio measured": ratio(made["task"].to_numpy()[there]),
                      "table": entries, **share})  # fmt: skip


def routing(bench: Bench, run: int) -> None:
    """Frequencies change at 7 s; four seconds later mixed routing has a new table. 75 % of what all tasks can serve."""
    kept, us, change, reaction, end = Kept(bench.out, "routing"), 10_000, 7, 11, 22
    rate = 0.75 * TASKS * 1e6 / us
    for f in (0.5, 1.0):
        first, second = changing(KEYS, 0.85, f, run)
        stream = drawn([(change, rate, first), (end - change, rate, second)], seed=200 + run, even=True)
        for method in ("fields", "shuffle", "pkg", "mixed"):
            if kept.has(f=f, method=method, run=run):
                continue
            before = planned(method, first, HASH, 0.08) if method == "mixed" else HASH
            after = planned(method, second, before, 0.08) if method == "mixed" else None
            way = way_of(bench, method)
            nodes = bench.live.sent(stream, method, before)
            if after is not None:
                nodes = np.where(stream.due >= reaction, after.nodes(KEYS)[stream.keys], nodes)
            said, each = predicted(stream, nodes, us), latencies(stream, nodes, us)
            assert abs(said.latency_mean - each.mean()) < 1e-6  # the same recursion
            made, share = carried(bench, Setting(13, "", method, second, before, after), way, stream, reaction, us)
            due, took, ended = made["due"], made["end"] - made["due"], stream.due + each
            for period, low, high in (("before", 2, change), ("changed", change, reaction), ("planned", 14, end)):
                inside, there = due.between(low, high), (stream.due >= low) & (stream.due < high)
                kept.add({"f": f, "method": method, "run": run, "period": period,
                          "throughput predicted": ((ended >= low) & (ended < high)).sum() / (high - low),
                          "throughput measured": made["end"].between(low, high).sum() / (high - low),
                          "median predicted": 1e3 * np.median(each[there]), "median measured": 1e3 * took[inside].median(),
                          "mean predicted": 1e3 * each[there].mean(), "mean measured": 1e3 * took[inside].mean(),
                          "p99 predicted": 1e3 * np.quantile(each[there], 0.99), "p99 measured": 1e3 * took[inside].quantile(0.99),
                          "table": len((after or before).entries), **share})  # fmt: skip
