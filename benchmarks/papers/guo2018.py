"""[Guo2018]: CLB by its threshold, imbalance and state moved over time, and latency and throughput on queues (simulated).

The word stream stands in for the paper's tweets; without the folder of data the Zipf stream does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product

import numpy as np
import pandas as pd

import keyshift as ks
from keyshift.generators.mclb import section_5_stream, word_stream
from keyshift.generators.real import data_file
from keyshift.models.errors import InputError
from keyshift.papers.page import Page
from keyshift.papers.queues import BANDWIDTH, RATE, ROOM, ms

KEYS = ["gaussian", "zipf"]
HEURISTICS = ("elb", "clb", "clb-moment", "uhlb", "pkg")
BEST = "best found"
METHODS = ("elb", "clb-moment", "uhlb", "pkg", "clb")
PERIOD = 24
"""Windows between two runs of CLB: five in 120 windows, as in the paper."""
STATE = 0.1 / 60
"""The state over the tuples of a window, a minute: a tenth of the rate, psi(o) = r(o) / 10 (figure 1)."""


def greedy(load: np.ndarray, candidates: np.ndarray, nodes: int = 10) -> np.ndarray:
    """Greatest first, each key group on the least loaded of its candidates."""
    loads, at = np.zeros(nodes), np.zeros(load.size, dtype=np.int64)
    for k in np.argsort(-load, kind="stable"):
        at[k] = candidates[loads[candidates[:, k]].argmin(), k]
        loads[at[k]] += load[k]
    return at


def replay(w: ks.Workload, method: str, period: int = PERIOD, **options: object) -> tuple[pd.DataFrame, np.ndarray]:
    """Rebalance window by window, each placed by what the ones before it showed: a row a window, and the placements."""
    every = period if method.startswith("clb") or method == BEST else 1
    options = {"method": "local-search", "effort": 0.3} if method == BEST else {"method": method, **options}
    moved, at = np.full(w.windows, np.nan), np.tile(w.current, (w.windows + 1, 1))
    for t in range(every - 1, w.windows, every):
        now = ks.MCLB(w.replace(load=w.load[t + 1 - every : t + 1], state=0.1 * w.load[t], current=at[t]))
        s = ks.solve(now, seed=0 if method == BEST else t, **options)  # type: ignore[arg-type]
        at[t + 1 :], moved[t] = s.assignment, 100 * s.metrics["share_moved"]
    loads = np.array([np.bincount(a, load, w.nodes) for a, load in zip(at, w.load, strict=False)])
    rows = {"method": method, "window": np.arange(w.windows) + 1, "variance": loads.var(axis=1), "moved, %": moved,
            "share": loads.max(axis=1) / loads.sum(axis=1)}  # fmt: skip
    return pd.DataFrame(rows), at[:-1]


def over_time(page: Page, streams: Sequence[str] = ("gaussian", "zipf", "drifting gaussian", "words")) -> None:
    """Imbalance and movement over time (figures 2 to 4, Table 1).

    CLB and the best found rebalance every 24 windows; means are over the windows after the first of these.
    """
    drawn = {
        "gaussian": partial(section_5_stream, "gaussian"), "zipf": partial(section_5_stream, "zipf"),
        "drifting gaussian": partial(section_5_stream, "gaussian", drift=20), "words": partial(words, rate=10_000.0),
    }  # fmt: skip
    rows = []
    for name in streams[: 1 if page.quick else None]:
        w = drawn[name](nodes=10, seed=page.seed)
        frame = pd.concat([replay(w, method)[0] for method in (*HEURISTICS, BEST)])
        alone = np.mean((w.load.sum(axis=1) / w.nodes) ** 2 * (w.nodes - 1))
        for method, part in frame.groupby("method", sort=False):
            v, moved = part["variance"][PERIOD:], part["moved, %"]
            rows.append({"stream": name, "method": method, "mean var(L_t)": v.mean(), "std": v.std(ddof=0),
                         "moved a run, %": moved.mean(), "amortised, %": moved.sum() / w.windows,
                         "one node alone": alone})  # fmt: skip
        page.draw(
            f"over_time_{name.split()[0]}", f"{name}, n = 10: imbalance, and state moved, window by window.",
            {"frame": frame.assign(variance=frame["variance"].clip(1.0)), "x": "window", "y": "variance", "by": "method",
             "style": {"marker": ""}, "yscale": "log", "ylabel": "variance of node loads (tuples squared)", "title": name},
            {"frame": frame.dropna(), "x": "window", "y": "moved, %", "by": "method",
             "style": {"marker": ".", "linewidth": 0.6}, "ylabel": "state moved (% of all)"}, size=(5, 4.2),
        )  # fmt: skip
    page.table(rows, "over_time")


def words(**options: float) -> ks.Workload:
    try:
        return word_stream(data_file("count_1w.txt"), **options)  # type: ignore[arg-type]
    except InputError:
        return section_5_stream("zipf", **options)  # type: ignore[arg-type]


def clb_thresholds(page: Page) -> None:
    """Table 1's 2.09e10: CLB as printed, by threshold.

    CLB every 24 windows on n = 10 nodes, theta as a correlation; *share* is that of the fullest node. One node with all load: 3.24e10.
    """
    rows = []
    for keys in KEYS:
        w = section_5_stream(keys, nodes=10, windows=48 if page.quick else 120, seed=page.seed)
        for theta in (0.0, 0.5) if page.quick else (0.0, 0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.8):
            frame = replay(w, "clb", theta=theta)[0]
            v, share = frame["variance"][PERIOD:], frame["share"][PERIOD:]
            rows.append({"keys": keys, "theta": theta, "mean var(L_t)": v.mean(), "std": v.std(ddof=0), "share": share.mean(),
                         "state moved a run, %": frame["moved, %"].mean()})  # fmt: skip
    page.table(rows, "clb_thresholds")


def kept_hashes(page: Page) -> None:
    """State moved by UHLB, PKG and ELB (figure 4).

    What moves from window to window where both candidates of a key group stay what they are, and only the less loaded one
    changes - each window on its own loads, greatest first - against two fresh hashes a window, and one. n = 10. Below: what ELB
    moves where the words' frequencies drift more (standard deviation of their logarithms over the windows).
    """
    rows, rng, seed = [], np.random.default_rng(page.seed), page.seed
    for name, w in {
        **{keys: section_5_stream(keys, seed=seed) for keys in KEYS},
        "words": words(nodes=10, seed=seed),
    }.items():
        hashes = partial(rng.integers, 0, 10)
        kept, p = hashes((2, w.key_groups)), w.key_groups
        for way, at in {
            "two kept hashes": [greedy(load, kept) for load in w.load],
            "two fresh hashes": [greedy(load, hashes((2, p))) for load in w.load],
            "a fresh hash": [hashes(p) for _ in w.load],
        }.items():
            moved = [100 * w.load[t][at[t] != at[t - 1]].sum() / w.load[t].sum() for t in range(1, w.windows)]
            rows.append({"stream": name, "way": way, "state moved a window, %": np.mean(moved)})
    page.table(rows, "kept_hashes")
    drifts = (0.3,) if page.quick else (0.3, 1.0, 3.0, 10.0)
    frames = {drift: replay(words(nodes=10, windows=40, drift=drift, seed=seed), "elb")[0] for drift in drifts}
    means = pd.concat(frames, names=["drift"]).groupby("drift")[["moved, %", "variance"]].mean()
    page.table(means.set_axis(["state moved a window, %", "mean var(L_t)"], axis=1), "elb_drift")


def queues(page: Page) -> None:
    """[Guo2018], Table 2, Figures 5 and 6: rebalancing every minute.

    Words, one node more at a time; every node that sends or receives state stands still until it has, and tuples are
    buffered. CLB rebalances every third window, the others in each. Figure 5: the mean latency on one node
    over that on n; 80 % of what the nodes can serve comes. Figure 6: 100 % comes, the source stops where 1,000 tuples are at a node. The
    state is a tenth of the rate, as in the paper: of the tuples of a second. All is measured after three windows, since in the first one
    key groups lie as they were dealt.
    """
    rows, windows, before = [], 7 if page.quick else 13, 3
    for nodes in (1, 4) if page.quick else (1, 2, 3, 4, 6, 8, 12, 15):
        for share in (0.5, 0.8, 1.0) if nodes == (4 if page.quick else 15) else (0.8, 1.0):
            w = words(nodes=nodes, windows=windows, rate=share * RATE * nodes, seed=page.seed)
            how = ks.simulation.Migration(BANDWIDTH, STATE * w.load[before:-1], pause="nodes")
            for method in METHODS:
                made = replay(w, method, period=before)[1][before:]
                found = ks.simulate(w.replace(load=w.load[before:]), made, service_rate=RATE, window_seconds=60, migration=how,
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
              {"frame": busy, "x": "nodes", "y": "ratio", "by": "method", "title": "Figure 5, at 80 % of the capacity", "yscale": "log",
               "ylabel": "mean latency: one node / n nodes"},
              {"frame": full, "x": "nodes", "y": "speed-up", "by": "method", "title": "Figure 6, at 100 %, back-pressure",
               "ylabel": "throughput: n nodes / one node"}, size=(5, 3.8))  # fmt: skip
    page.table(full.pivot(index="method", columns="nodes", values="speed-up"))


def frequencies(page: Page) -> None:
    """[Guo2018], the frequency f of load balancing, which it calls very important and does not vary.

    Words, CLB (corrected and as printed) every so many minutes. On 10 nodes and 120 windows, imbalance, state moved at a time, and amortised
    over the windows. On 15 nodes and 24 windows, 100 % of their capacity: throughput, simulated, as a share of what comes.
    """
    w, rows = words(nodes=10, windows=48 if page.quick else 120, rate=10_000.0, seed=page.seed), []
    busy = words(nodes=15, windows=8 if page.quick else 24, rate=15 * RATE, seed=page.seed)
    how = ks.simulation.Migration(BANDWIDTH, STATE * busy.load[:-1], pause="nodes")
    for method, every in product(("clb-moment", "clb"), (4, 24) if page.quick else (1, 4, 12, 24, 60)):
        frame = replay(w, method, period=every)[0]
        v, moved = frame["variance"][every:], frame["moved, %"]
        found = {"method": method, "every": every, "mean var(L_t)": v.mean(), "moved a run, %": moved.mean(), "amortised, %": moved.sum() / w.windows}  # fmt: skip
        if every < busy.windows:
            made = replay(busy, method, period=every)[1]
            queue = ks.simulate(busy, made, service_rate=RATE, window_seconds=60, migration=how, queue=ROOM)
            found["throughput, %"] = 100 * queue.throughput / (15 * RATE)
        rows.append(found)
    frame = page.table(rows, "frequencies")
    page.draw("frequencies", "Imbalance, state moved and throughput (simulated) by the windows between two runs of CLB.", *(
        {"frame": frame.dropna(subset=[y]), "x": "every", "xlabel": "windows between two runs", "y": y, "by": "method", "xscale": "log",
         "yscale": scale} for y, scale in (("mean var(L_t)", "log"), ("amortised, %", "log"), ("throughput, %", "linear"))))  # fmt: skip


def equivalence(page: Page) -> None:
    """[Guo2018], equations 3 to 5: least variance of each node's load over time, and least imbalance.

    Eight key groups of constant load on four nodes.
    """
    w, rows = ks.Workload(load=np.tile(np.arange(1.0, 9), (12, 1)), state=np.ones(8), current=[0] * 8, nodes=4), []
    for placed, at in {"one node": np.zeros(8, dtype=int), "round robin": np.arange(8) % 4}.items():
        loads = np.array([np.bincount(at, load, 4) for load in w.load])
        rows.append(
            {"placed": placed, "sum of var(N_i)": loads.var(axis=0).sum(), "imbalance h": ks.MCLB(w).objective(at)}
        )
    page.table(rows, "equivalence")
