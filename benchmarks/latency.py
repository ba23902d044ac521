"""Latency and throughput, SIMULATED: the papers' figures on queues, since there is no cluster here.

    python benchmarks/latency.py [--quick] [--only PART ...] --out DIR

All of this page is a simulation (`ks.simulate`), and none of it a measurement: it knows queues, held key groups and transfers
of state, and nothing of a cluster's network, threads or garbage collector. Tuples come at random (Poisson) and take their
time exactly, unless said otherwise. Nodes serve 1,000 tuples a second. What the papers do not give is called ours. What they
print beside it, and why the two differ, is in [The papers, figure by figure](../papers.md).
"""

from __future__ import annotations

import time
from itertools import pairwise, product
from typing import Any

import numpy as np
import pandas as pd
from collocation_streams import edits
from key_splitting import HEADS, with_head
from latency_intervals import ding, ding_waiting, ding_windows
from latency_routing import fang, fang_dynamics
from latency_setting import BANDWIDTH, RATE, ROOM, ms
from mclb import BEST, replay, words
from page import Page, run

import keyshift as ks
from keyshift.models.errors import InputError

METHODS = ("elb", "clb-moment", "uhlb", "pkg", BEST, "clb")


def theory(page: Page) -> None:
    """What queueing theory says, and how fast the simulator is.

    One node, Poisson arrivals: the mean time in the system, in service times, over four runs of ten million tuples each,
    and its standard error. *s*: of processor time, the least of the runs, compiled, drawing the tuples included, on one core of
    a machine shared with other work. Then a server that stands still for two seconds (D), even arrivals.
    """
    rows, tuples = [], 1e6 if page.quick else 1e7
    for rho, (queue, service, factor) in product(
        (0.5, 0.8, 0.95), (("M/D/1", "deterministic", 0.5), ("M/M/1", "exponential", 1.0))
    ):
        found, took = [], []
        for seed in range(4):
            began = time.process_time()
            found.append(RATE * ks.simulate([tuples], [0], service_rate=RATE, window_seconds=tuples / RATE / rho, service=service, seed=seed).latency_mean)  # type: ignore[arg-type]  # fmt: skip
            took.append(time.process_time() - began)
        theirs = 1 + factor * rho / (1 - rho)
        rows.append({"queue": queue, "utilisation": rho, "simulated": np.mean(found), "theory": theirs, "off by, %": 100 * (np.mean(found) / theirs - 1),
                     "standard error, %": 100 * np.std(found, ddof=1) / 2 / theirs, "s": min(took), "million tuples a minute": 6e-5 * tuples / min(took)})  # fmt: skip
    page.table(rows, "theory")
    rows = []
    for rate in (200, 500, 800):
        for method in ("fluid", "events"):
            found = ks.simulate([60 * rate], [0], [(10, [1])], service_rate=RATE, window_seconds=60, arrivals="even", method=method,
                                migration=ks.simulation.Migration(bandwidth=0.5), spans=6000)  # fmt: skip
            rows.append({"arrivals/s": rate, "by": method, "largest backlog": found.largest_backlog, "theory: rate D": rate * 2,
                         "largest latency, s": found.latency_max, "theory: D": 2.0,
                         "all served after, s": found.times[found.latency > 0.0025].max() - 10,
                         "theory: D + rate D / (1000 - rate)": 2 + rate * 2 / (RATE - rate)})  # fmt: skip
    page.table(rows, "paused")


def guo(page: Page) -> None:
    """[Guo2018], Table 2, Figures 5 and 6: rebalancing every minute.

    Words, one node more at a time; every node that sends or receives state stands still until it has, and tuples are
    buffered. CLB and the best found rebalance every third window, the others in each. Figure 5: the mean latency on one node
    over that on n; 80 % of what the nodes can serve comes (CLB as printed is not drawn: its queues grow without end). Figure
    6: 100 % comes, the source stops where 1,000 tuples are at a node. The state is a tenth of a window's tuples, as in the paper.
    """
    rows, windows = [], 4 if page.quick else 10
    for nodes in (1, 4) if page.quick else (1, 2, 3, 4, 6, 8, 10, 12, 15):
        for share in (0.5, 0.8, 1.0) if nodes == 15 else (0.8, 1.0):
            w = words(nodes=nodes, windows=windows, rate=share * RATE * nodes)
            how = ks.simulation.Migration(BANDWIDTH, 0.1 * w.load[:-1], pause="nodes")
            for method in METHODS:
                found = ks.simulate(w, replay(w, method, period=3)[1], service_rate=RATE, window_seconds=60, migration=how,
                                    queue=ROOM if share == 1 else None)  # fmt: skip
                rows.append(
                    {"method": method, "nodes": nodes, "load": share, **ms(found), "throughput": found.throughput}
                )
    frame = pd.DataFrame(rows)
    frame["speed-up"] = frame["throughput"] / frame.groupby(["method", "load"])["throughput"].transform("first")
    frame["ratio"] = frame.groupby(["method", "load"])["mean, ms"].transform("first") / frame["mean, ms"]
    page.keep(frame, "guo")
    most = frame["nodes"].max()
    page.say(f"Table 2, {most} nodes:")
    page.table(
        frame[(frame["nodes"] == most) & (frame["load"] < 1)].drop(columns=["speed-up", "ratio", "throughput", "nodes"])
    )
    full, busy = (frame[frame["load"] == load] for load in (1.0, 0.8))
    page.draw("guo", "As Figures 5 and 6 of [Guo2018], simulated.",
              {"frame": busy[busy["method"] != "clb"], "x": "nodes", "y": "ratio", "by": "method", "title": "Figure 5, at 80 % of the capacity", "yscale": "log",
               "ylabel": "mean latency: one node / n nodes"},
              {"frame": full, "x": "nodes", "y": "speed-up", "by": "method", "title": "Figure 6, at 100 %, back-pressure",
               "ylabel": "throughput: n nodes / one node"}, size=(5, 3.8))  # fmt: skip
    page.table(full.pivot(index="method", columns="nodes", values="speed-up"))


def madsen(page: Page) -> None:
    """[Madsen2016], Figure 9: what migrations cost in latency.

    Real Job 1 on Wikipedia's edits, 20 nodes at 70 % of their capacity in the mean, periods of five minutes, 2.5 s a key
    group as in the paper; as a fluid. The program sees a period and places the next one. *paused*: seconds that key groups were
    held, summed, a period.
    """
    periods, rows, over_time = 4 if page.quick else 12, [], []
    try:
        stream = list(edits(periods))
    except InputError as no_data:
        page.say(f"Left out: {no_data}.")
        return
    load = np.array([w.last_load for w in stream])
    load *= 0.7 * RATE * stream[0].nodes * 300 / load.sum(axis=1).mean()
    for most in (0, 10, 13, 20, None):
        at = [stream[0].current]
        for w in stream[:-1]:
            problem = ks.KeyGroupAllocation(w.replace(current=at[-1]), max_migrations=most)
            at.append(ks.solve(problem, time_limit=2).assignment)
        moved = [int((a != b).sum()) for a, b in pairwise(at)]
        found = ks.simulate(load, np.array(at), service_rate=RATE, nodes=stream[0].nodes, window_seconds=300, method="fluid",
                            migration=ks.simulation.Migration(seconds=2.5))  # fmt: skip
        label = "none" if most == 0 else str(most or "all")
        over_time += [{"limit": label, "period": t + 1, "paused, s": 2.5 * count} for t, count in enumerate(moved)]
        rows.append({"limit": label, "moved a period": np.mean(moved), "paused, s a period": found.paused / (periods - 1),
                     "share of their time, %": 100 * found.paused / (periods - 1) / load.shape[1] / 300, **ms(found)})  # fmt: skip
    page.table(rows, "madsen")
    page.draw("madsen", "As Figure 9 of [Madsen2016], simulated: time that key groups are held, summed.",
              {"frame": pd.DataFrame(over_time), "x": "period", "y": "paused, s", "by": "limit", "yscale": "symlog"}, size=(6, 3.6))  # fmt: skip


def nasir(page: Page) -> None:
    """[Nasir2015], Figure 10 and Table III: hashing, PKG and shuffling.

    A Zipf stream with WP's first key (9.32 %), 8 sources; 10 workers for hashing, 8 and 2 aggregators for the others, as in
    the paper. A message takes the worker the delay. Ours: the sources send 12,500 messages a second and stop where 100 are at
    a worker. Table III: 90 % of what hashing can serve, endless queues. Aggregation: delay 0.4 ms, sources without limit; a
    counter takes a worker 0.1 ms and an aggregator 0.05 ms.
    """
    keys = with_head(np.random.default_rng(10), 200_000 if page.quick else 4_000_000, HEADS["WP"])
    schemes = {"hash": 10, "pkg": 8, "shuffle": 8}

    def deployed(scheme: str, rate: float, delay: float, **options: Any) -> ks.simulation.Simulation:
        feed, times = ks.Partitioner(scheme, schemes[scheme], sources=8).feed, np.cumsum(rng.standard_exponential(keys.size)) / rate  # type: ignore[arg-type]  # fmt: skip
        return ks.simulate((times, keys), feed, service_rate=1e3 / delay, nodes=schemes[scheme], **options)

    rng, rows = np.random.default_rng(0), []
    sent = ks.Partitioner("hash", 10, sources=8).feed(keys)
    hottest = np.bincount(sent).max() / keys.size
    for scheme in schemes:
        for delay in (0.1, 0.2, 0.4, 0.6, 0.8, 1.0):
            full, calm = deployed(scheme, 12_500, delay, queue=100), deployed(scheme, 0.9e3 / delay / hottest, delay)
            rows.append({"scheme": scheme, "delay": delay, "throughput": full.throughput, **ms(calm)})
    frame = pd.DataFrame(rows)
    page.keep(frame, "nasir")
    page.say(f"Hashing's hottest worker has {100 * hottest:.1f} % of the messages. Throughput, messages a second, by delay in ms; then mean latency, ms:")  # fmt: skip
    for values, digits in (("throughput", 0), ("mean, ms", 2)):
        page.table(frame.pivot(index="scheme", columns="delay", values=values).map(f"{{:.{digits}f}}".format))
    rows = []
    for scheme in schemes:
        for period in (10, 30, 60):
            second = None if scheme == "hash" else ks.simulation.Aggregation(period, flush=1e-4, merge=5e-5, nodes=2)
            found = deployed(scheme, 25_000, 0.4, queue=100, aggregation=second)
            rows.append({"scheme": scheme, "period": period, "throughput": found.throughput,
                         "counters a period": found.counters / np.ceil(found.drained / period)})  # fmt: skip
    second = page.table(rows, "nasir_aggregation")
    page.draw("nasir", "As Figure 10 of [Nasir2015], simulated.",
              {"frame": frame, "x": "delay", "xlabel": "delay, ms", "y": "throughput", "by": "scheme", "title": "(a) the delay", "ylim": (0, None)},
              {"frame": second, "x": "period", "xlabel": "period, s", "y": "throughput", "by": "scheme", "title": "(b) the aggregation period", "ylim": (0, None)},
              {"frame": frame, "x": "delay", "xlabel": "delay, ms", "y": "mean, ms", "by": "scheme", "title": "Table III: 90 % of hashing's capacity", "ylim": (0, None)},
              size=(4.2, 3.4))  # fmt: skip


if __name__ == "__main__":
    run(
        "latency",
        "Latency and throughput, simulated",
        __doc__,
        (theory, guo, madsen, nasir, fang, fang_dynamics, ding, ding_windows, ding_waiting),
    )
