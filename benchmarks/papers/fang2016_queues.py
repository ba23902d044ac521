"""[Fang2016], figures 13 to 16, simulated."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

import keyshift as ks
from keyshift.generators.mclb import read_counts
from keyshift.generators.real import data_file
from keyshift.generators.routing import ZipfStream, consistent_hash
from keyshift.models.errors import InputError
from keyshift.papers.page import Page, each
from keyshift.papers.queues import BANDWIDTH, RATE, ROOM, ms

NODES, INTERVAL, REACTION = 10, 30, 5.0
"""Task instances; seconds between two changes of the frequencies, and until the controller reacts to one."""
TABLES = ("mixed", "min-table", "readj")
ROUTES = ("ideal", *TABLES, "pkg", "hash")
LIMIT = 3_000
MERGING = ks.simulation.Aggregation(0.01, 0.1 / RATE, 0.1 / RATE, 2)
"""What PKG needs besides: partial results every 10 ms, a tenth of a tuple's time each at both ends."""


def planned(problem: ks.MixedRouting, method: str) -> np.ndarray:
    """The plan, even where it misses a limit."""
    s = ks.solve(problem, method, time_limit=20)
    found = s.offered if s.assignment is None else s.assignment
    return problem.workload.current if found is None else found


def followed(method: str, stream: ZipfStream, intervals: int, theta: float, after: float, seconds: float) -> tuple[np.ndarray, list[Any]]:  # fmt: skip
    """Loads of the intervals, each as a share of all of it; and a table some seconds after each change of the frequencies."""
    loads, changes, at = [], [], stream.home
    for t in range(intervals):
        stream.advance()
        loads.append(stream.load / stream.load.sum())
        if method in TABLES:
            at = planned(ks.MixedRouting(stream.workload(at), theta_max=theta, max_table_size=LIMIT), method)
            changes.append((t * seconds + after, at))
    return np.array(loads), changes


def routed(method: str, stream: ZipfStream, made: tuple[np.ndarray, list[Any]], load: float = 1.0, queue: int | None = ROOM) -> ks.simulation.Simulation:  # fmt: skip
    """What comes is a share of what all instances can serve."""
    loads, changes = made[0] * load * NODES * RATE * INTERVAL, made[1]
    route = {"ideal": "shuffle", "pkg": ks.Partitioner("pkg", NODES).feed}.get(method, stream.home)
    second = MERGING if method == "pkg" else None
    how = ks.simulation.Migration(BANDWIDTH, loads) if changes else None
    return ks.simulate(loads, route, changes, service_rate=RATE, nodes=NODES, window_seconds=INTERVAL, queue=queue,
                       aggregation=second, migration=how)  # fmt: skip


def fluctuation(page: Page) -> pd.DataFrame:
    """Throughput and latency by f."""
    count, rows = 2 if page.quick else 8, []
    for f in (0.5, 1.0) if page.quick else (0.0, 0.5, 1.0, 1.5, 2.0):
        for method in ROUTES:
            stream = ZipfStream(nodes=NODES, fluctuation=f, seed=page.seed)
            made = followed(method, stream, count, 0.08, REACTION, INTERVAL)
            full, calm = routed(method, stream, made), routed(method, stream, made, 0.8, None)
            rows.append(
                {
                    "f": f,
                    "method": method,
                    "throughput": full.throughput,
                    **ms(calm),
                    "merged, ms": 1e3 * calm.merged_mean,
                }
            )
    return page.table(rows, "fang_f")


def by_fluctuation(page: Page) -> None:
    """[Fang2016], Figure 13: throughput and latency by fluctuation.

    10 instances, z = 0.85, K = 10,000, N_A = 3,000, theta_max = 0.08, as in the paper. Throughput: as much comes as all
    instances together can serve, and the source stops where 1,000 tuples are at one. Latency: 80 % of that comes, and queues have no end. Ours:
    frequencies change every 30 s, tables 5 s later, 8 times; moved keys are held while their state (an interval's tuples) travels. PKG
    merges every 10 ms, as in the paper; a partial result takes a tenth of a tuple's time at both ends; *merged* is the mean time until an
    aggregator has it. *ideal* shuffles, *hash* is Storm.
    """
    count, frame, rows = 2 if page.quick else 8, fluctuation(page), []
    for after in (0.0, 1.0, 5.0):
        made = followed("mixed", stream := ZipfStream(nodes=NODES, seed=1 + page.seed), count, 0.08, after, INTERVAL)
        rows.append({"reaction": after, "throughput": routed("mixed", stream, made).throughput,
                     **ms(routed("mixed", stream, made, 0.8, None))})  # fmt: skip
    page.say("Mixed at f = 1, one stream, by how long the controller takes to react, in seconds:")
    page.table(rows, "fang_reaction")
    page.draw("fang_f", "As Figure 13 of [Fang2016], simulated.",
              {"frame": frame, "x": "f", "y": "throughput", "by": "method", "title": "throughput", "ylabel": "tuples a second"},
              {"frame": frame, "x": "f", "y": "mean, ms", "by": "method", "yscale": "log", "title": "latency", "ylabel": "mean latency, ms"},
              size=(5, 3.6))  # fmt: skip


def by_tolerance(page: Page) -> None:
    """[Fang2016], Figure 14: throughput by tolerance.

    As Figure 13; words, without the 2,000 most frequent, stand in for the microblog, 1,036 Zipf keys for the stocks.
    """
    count, rows = 2 if page.quick else 8, []
    try:
        words = np.sort(read_counts(data_file("count_1w.txt"))[1])[::-1][2_000:182_000]
    except InputError:
        words = 1e9 / np.arange(2_000, 182_000)
    streams = {"words": partial(ZipfStream, frequencies=words, nodes=NODES, tuples=300_000, fluctuation=0.3),
               "1,036 keys": partial(ZipfStream, 1036, NODES, 0.85, 1.0, tuples=300_000)}  # fmt: skip
    for (name, draw), theta in product(streams.items(), (0.02, 0.3) if page.quick else (0.02, 0.08, 0.15, 0.3)):
        for method in ROUTES if theta == 0.02 else TABLES:
            made = followed(method, drawn := draw(seed=2 + page.seed), count, theta, REACTION, INTERVAL)
            rows.append({"stream": name, "theta_max": theta, "method": method, "throughput": routed(method, drawn, made).throughput})  # fmt: skip
    thetas = page.keep(rows, "fang_theta")
    page.table(thetas.pivot(index=["stream", "method"], columns="theta_max", values="throughput"))
    flat = thetas[~thetas["method"].isin(TABLES)]
    page.draw("fang_theta", "As Figure 14 of [Fang2016], simulated.", *each(
        pd.concat([thetas, flat.assign(theta_max=0.3)]), "stream", x="theta_max", y="throughput", by="method",
        ylabel="tuples a second"), size=(5, 3.6))  # fmt: skip


def scale_out(page: Page) -> pd.DataFrame:
    """Throughput over time where an eleventh instance comes at 60 s."""
    stream, rows, table = ZipfStream(nodes=NODES, fluctuation=0.0, seed=3 + page.seed), [], []
    load, home = stream.load * (11 * RATE * 180 / stream.load.sum()), consistent_hash(np.arange(stream.keys), 11)
    before = planned(ks.MixedRouting(stream.workload(), theta_max=0.1), "mixed")
    grown = ks.Workload(load=stream.load, state=stream.load, current=before, home=home, nodes=11)
    for method in (*TABLES, "hash", "no eleventh", "pkg"):
        if method == "pkg":  # its eleventh worker is there from one message to the next, and no state moves
            of = [ks.simulate(load, ks.Partitioner("pkg", nodes).feed, service_rate=RATE, nodes=nodes, window_seconds=180, queue=ROOM, spans=36,
                              aggregation=MERGING).to_frame() for nodes in (NODES, 11)]  # fmt: skip
            spans, moved, held = (
                pd.concat([of[0][of[0]["seconds"] <= 60], of[1][of[1]["seconds"] > 60]], ignore_index=True),
                0.0,
                0.0,
            )
        else:
            fixed = {"hash": home, "no eleventh": before}.get(method)
            after = planned(ks.MixedRouting(grown, theta_max=0.1), method) if fixed is None else fixed
            found = ks.simulate(load, before, [(60, after)], service_rate=RATE, nodes=11, window_seconds=180, queue=ROOM, spans=36,
                                migration=ks.simulation.Migration(BANDWIDTH, load * INTERVAL / 180))  # fmt: skip
            spans, moved, held = found.to_frame(), load[after != before].sum(), found.paused
        rows += [
            {"method": method, "seconds": t, "throughput": done} for t, done in spans[["seconds", "done"]].to_numpy()
        ]
        table.append({"method": method, "state moved, %": 100 * moved / load.sum(), "held, s": held,
                      **{f"{a} to {b} s": spans["done"][a // 5 : b // 5].mean() for a, b in ((30, 60), (60, 90), (120, 180))}})  # fmt: skip
    page.say("Figure 15, tuples a second in some spans of time:")
    page.table(table, "fang_scale_out")
    return pd.DataFrame(rows)


def one_more(page: Page) -> None:
    """[Fang2016], Figure 15: an instance more.

    Ten instances, balanced, get what eleven can serve; the eleventh comes at 60 s, and its keys are planned at once
    (theta_max = 0.1, as in the paper); the source stops where 1,000 tuples are at one.
    """
    page.draw("fang_scale_out", "As Figure 15 of [Fang2016], simulated: an instance more at 60 s.",
              {"frame": scale_out(page), "x": "seconds", "y": "throughput", "by": "method", "ylabel": "tuples a second"}, size=(5.5, 3.8))  # fmt: skip


def split(load: np.ndarray, tuples: np.ndarray, broadcast: bool) -> np.ndarray:
    """Loads of the nodes under PKG; to broadcast, a tuple is looked up on both workers of its key."""
    pkg, loads, rng = ks.Partitioner("pkg", NODES), [], np.random.default_rng(6)
    for now, count in zip(load, tuples, strict=True):
        messages = rng.permutation(np.repeat(np.arange(count.size), count.astype(int)))
        stored = np.zeros((count.size, NODES))
        np.add.at(stored, (messages, pkg.feed(messages)), 1.0)
        share = stored / np.maximum(stored.sum(axis=1, keepdims=True), 1.0)
        twice = count if broadcast else np.zeros_like(count)
        loads.append((share * (now - twice)[:, None] + (share > 0) * twice[:, None]).sum(axis=0))
    return np.array(loads)


def joins(page: Page) -> None:
    """[Fang2016], Figures 2(b) and 14: a join where keys are whole, and where they are split.

    A join over a window of a stream with itself (the stocks): a tuple is stored once and meets, by a hash, what is stored of its key. Where a key
    is split over its two workers (PKG), a tuple is stored at one and looked up at both, as Figure 2(b) broadcasts it. Storing and looking up
    cost one unit each, and every match a tenth. *sustained*: what the fullest instance lets through, in percent of an even spread of the
    work that whole keys need. The joins of TPC-H's Q5 are fang2016:16.
    """
    stream = ZipfStream(1_036, NODES, 0.8, 0.5, tuples=50_000 if page.quick else 500_000, seed=5 + page.seed)
    stream.advance()
    count = np.rint(stream.load)
    work = 2.0 * count + 0.1 * np.minimum(count - 1, 100) * count / 2  # a window holds a hundred of a key, at most
    w = ks.Workload(load=work, state=count, current=stream.home, home=stream.home, nodes=NODES)
    mixed = planned(ks.MixedRouting(w, theta_max=0.05), "mixed")
    nodes = {"hash": np.bincount(stream.home, work, NODES), "mixed": np.bincount(mixed, work, NODES),
             "pkg": split(work[None], count[None], broadcast=True)[0]}  # fmt: skip
    page.table([{"join": "self-join, 1,036 stocks", "method": method, "work over whole keys'": float(at.sum() / work.sum()),
                 "fullest over the mean": float(at.max() / at.mean()), "sustained, %": 10 * work.sum() / at.max()}
                for method, at in nodes.items()], "joins")  # fmt: skip
