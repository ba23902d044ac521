"""MCLB measured: figures 2 to 4 of [Guo2018] on our streams, the front with its bounds, gaps, and large instances.

    python benchmarks/mclb.py [--quick] [--only PART ...] --out DIR

The word stream stands in for the paper's tweets; without the data folder the Zipf stream does. Times are of a machine with two
cores shared with other work. What it does to latency is simulated, in latency.py.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
from page import Page, by_method, cases, run, studied

import keyshift as ks
from keyshift.models.errors import InputError
from keyshift.models.families.mclb import section_5_stream, word_stream
from keyshift.models.families.real import data_file

KEYS = ["gaussian", "zipf"]
HEURISTICS = ("elb", "clb", "clb-moment", "uhlb", "pkg")
BEST = "best found"
PERIOD = 24
"""Windows between two runs of CLB: five in 120 windows, as in the paper."""


def gaps(page: Page) -> None:
    """Gaps at p = 100, m = 120, no budget (60 s for n = 10, else 20 s)."""
    frames = []
    for nodes in [10] if page.quick else [5, 10, 15]:
        drawn = list(cases("guo-mclb", keys=KEYS, nodes=[nodes]))
        frames.append(studied(drawn, ["branch-and-bound"], time_limit=5 if page.quick else 60 if nodes == 10 else 20))
        frames.append(studied(drawn, ["sdp", "local-search"], triangles=False, effort=0.0))
    best, plain, greedy = by_method(pd.concat(frames), "keys", "nodes").values()
    page.table({"best found": best["objective"], "bound": best["bound"], "gap, %": 100 * (1 - best["bound"] / best["objective"]),
                "Frieze-Jerrum, same placement, %": 100 * (1 - plain["bound"] / best["objective"]),
                "Frieze-Jerrum, one plain annealing, %": 100 * (1 - plain["bound"] / greedy["objective"]), "s": best["seconds"]}, "gaps")  # fmt: skip


def fronts(page: Page) -> None:
    """The front at p = 100, n = 10, m = 120, and every heuristic's distance to it."""
    points, seconds = (4, 20) if page.quick else (10, 200)
    for keys in KEYS:
        p = ks.MCLB(section_5_stream(keys, nodes=10))
        others = [ks.solve(p, method) for method in HEURISTICS]
        front, total = ks.pareto(p, points, time_limit=seconds, workers=2, starts=others), float(p.workload.state.sum())
        page.say(f"**{keys} keys**, {len(front)} points in at most {seconds} s:")
        page.table([{"state moved, %": 100 * s.metrics["state_moved"] / total, "imbalance h": s.objective, "bound": s.bound,
                     "gap, %": 100 * s.gap} for s in front], f"front_{keys}")  # fmt: skip
        share = front.hypervolume((total, float(front.imbalance[0]))) / total / float(front.imbalance[0])
        page.say(f"Hypervolume up to (all state moved, h of staying put): {100 * share:.1f} % of the rectangle.")
        page.table([{"method": s.method, "state moved, %": 100 * s.metrics["share_moved"], "h": s.objective,
                     "h behind the front": d.imbalance, "relative": d.relative,
                     "movement behind it, %": np.nan if d.state_moved is None else 100 * d.state_moved / total}
                    for s, d in ((s, front.distance(s)) for s in others)], f"distance_{keys}")  # fmt: skip
        page.figure(front.plot(others=others), f"front_{keys}", f"The front, {keys} keys.")


def large(page: Page) -> None:
    """Large instances, m = 120, n = 100, 10 s."""
    drawn = list(cases("guo-mclb", nodes=100, key_groups=[10_000] if page.quick else [10_000, 100_000], keys=KEYS))
    ours, elb = by_method(studied(drawn, ["branch-and-bound", "elb"], time_limit=10), "key_groups", "keys").values()
    others = {tuple(said.values()): {"LPT": p.objective(lpt(p.workload)), "round-robin": p.objective(np.arange(p.workload.key_groups) % 100)}
              for said, p in drawn}  # fmt: skip
    table = pd.DataFrame({"keyshift": ours["objective"], "bound": ours["bound"], "ELB": elb["objective"], "s": ours["seconds"]})  # fmt: skip
    page.table(table.join(pd.DataFrame(others).T.rename_axis(table.index.names)), "large")


def lpt(w: ks.Workload) -> np.ndarray:
    """Longest processing time first on the total loads."""
    return greedy(w.load.sum(axis=0), np.tile(np.arange(w.nodes)[:, None], w.key_groups), w.nodes)


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


def over_time(page: Page) -> None:
    """Imbalance and movement over time (figures 2 to 4, Table 1).

    CLB and the best found rebalance every 24 windows; means are over the windows after the first of these.
    """
    streams = {
        "gaussian": section_5_stream("gaussian", nodes=10), "zipf": section_5_stream("zipf", nodes=10),
        "drifting gaussian": section_5_stream("gaussian", nodes=10, drift=20), "words": words(nodes=10, rate=10_000.0),
    }  # fmt: skip
    rows = []
    for name, w in list(streams.items())[: 1 if page.quick else None]:
        frame = pd.concat([replay(w, method)[0] for method in (*HEURISTICS, BEST)])
        alone = np.mean((w.load.sum(axis=1) / w.nodes) ** 2 * (w.nodes - 1))
        for method, part in frame.groupby("method", sort=False):
            v, moved = part["variance"][PERIOD:], part["moved, %"]
            rows.append({"stream": name, "method": method, "mean var(L_t)": v.mean(), "std": v.std(ddof=0),
                         "state moved a run, %": moved.mean(), "amortised over the windows, %": moved.sum() / w.windows,
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
        w = section_5_stream(keys, nodes=10, windows=48 if page.quick else 120)
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
    rows, rng = [], np.random.default_rng(0)
    for name, w in {**{keys: section_5_stream(keys) for keys in KEYS}, "words": words(nodes=10)}.items():
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
    frames = {drift: replay(words(nodes=10, windows=40, drift=drift), "elb")[0] for drift in drifts}
    means = pd.concat(frames, names=["drift"]).groupby("drift")[["moved, %", "variance"]].mean()
    page.table(means.set_axis(["state moved a window, %", "mean var(L_t)"], axis=1), "elb_drift")


if __name__ == "__main__":
    run("mclb", "MCLB, measured", __doc__, (gaps, fronts, large, over_time, clb_thresholds, kept_hashes))
