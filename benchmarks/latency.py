"""Latency and throughput, SIMULATED: the papers' figures on queues, since there is no cluster here.

    python benchmarks/latency.py [--quick] [--only PART ...] --out DIR

All of this page is a simulation (`ks.simulate`), and none of it a measurement: it knows queues, held key groups and transfers
of state, and nothing of a cluster's network, threads or garbage collector. Tuples come at random (Poisson) and take their
time exactly, unless said otherwise. Nodes serve 1,000 tuples a second. What the papers do not give is called ours. What they
print beside it, and why the two differ, is in [The papers, figure by figure](../papers.md).
"""

from __future__ import annotations

import time
from itertools import product

import numpy as np
from page import run

import keyshift as ks
from keyshift.papers import ding2015_queues, fang2016_q5, fang2016_queues, guo2018, madsen2016, nasir2015
from keyshift.papers.page import Page
from keyshift.papers.queues import RATE


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
    guo2018.queues(page)


def madsen(page: Page) -> None:
    madsen2016.queues(page)


def nasir(page: Page) -> None:
    nasir2015.queues(page)
    nasir2015.aggregation(page, "WP")
    nasir2015.aggregation(page, "TW")


for part, of in ((guo, guo2018.queues), (madsen, madsen2016.queues), (nasir, nasir2015.queues)):
    part.__doc__ = of.__doc__

if __name__ == "__main__":
    parts = (theory, guo, madsen, nasir, fang2016_queues.by_fluctuation, fang2016_queues.by_tolerance,
             fang2016_queues.one_more, fang2016_q5.q5, ding2015_queues.ding, ding2015_queues.ding_windows, ding2015_queues.ding_waiting)  # fmt: skip
    run("latency", "Latency and throughput, simulated", __doc__, parts)
