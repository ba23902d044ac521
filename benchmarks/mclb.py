"""MCLB measured: figures 2 to 6 of [Guo2018] on our streams, the front with its bounds, gaps, and large instances.

    python benchmarks/mclb.py [--quick] [--only PART ...] --out DIR

The word stream stands in for the paper's tweets; without the data folder the Zipf stream does. Latency and throughput are simulated,
and called so. Times are of a machine with two cores shared with other work.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
from page import Page, grid, lines, plots, run

import keyshift as ks
from keyshift.models.errors import InputError
from keyshift.models.families.mclb import section_5_stream, word_stream
from keyshift.models.families.real import data_file
from keyshift.models.mclb.simulation import pause_buffer_resume

HEURISTICS = ("elb", "clb", "clb-moment", "uhlb", "pkg")
BEST = "best found"
PERIOD = 24
"""Windows between two runs of CLB: five in 120 windows, as in the paper."""


def gaps(page: Page) -> None:
    """Gaps at p = 100, m = 120, no budget (60 s for n = 10, else 20 s)."""
    rows = []
    for keys in ("gaussian", "zipf"):
        for nodes in (10,) if page.quick else (5, 10, 15):
            p = ks.MCLB(section_5_stream(keys, nodes=nodes))
            s = ks.solve(p, time_limit=5 if page.quick else 60 if nodes == 10 else 20)
            plain = ks.solve(p, "sdp", triangles=False).bound
            greedy = ks.solve(p, "local-search", effort=0.0).objective
            rows.append({"keys": keys, "n": nodes, "best found": s.objective, "bound": s.bound, "gap, %": 100 * s.gap,
                         "Frieze-Jerrum, same placement, %": 100 * (1 - plain / s.objective),
                         "Frieze-Jerrum, one plain annealing, %": 100 * (1 - plain / greedy), "s": s.seconds})  # fmt: skip
    page.table(pd.DataFrame(rows), "gaps")


def fronts(page: Page) -> None:
    """The front at p = 100, n = 10, m = 120, and every heuristic's distance to it."""
    for keys in ("gaussian", "zipf"):
        p = ks.MCLB(section_5_stream(keys, nodes=10))
        others = [ks.solve(p, method) for method in HEURISTICS]
        points, seconds = (4, 20) if page.quick else (10, 200)
        front = ks.pareto(p, points, time_limit=seconds, workers=2, starts=others)
        total = float(p.workload.state.sum())
        rows = [{"state moved, %": 100 * s.metrics["state_moved"] / total, "imbalance h": s.objective, "bound": s.bound,
                 "gap, %": 100 * s.gap} for s in front]  # fmt: skip
        page.say(f"**{keys} keys**, {len(front)} points in at most {seconds} s:")
        page.table(pd.DataFrame(rows), f"front_{keys}")
        share = front.hypervolume((total, float(front.imbalance[0]))) / total / float(front.imbalance[0])
        page.say(f"Hypervolume up to (all state moved, h of staying put): {100 * share:.1f} % of the rectangle.")
        away = [(s, front.distance(s)) for s in others]
        rows = [{"method": s.method, "state moved, %": 100 * s.metrics["share_moved"], "h": s.objective,
                 "h behind the front": d.imbalance, "relative": d.relative,
                 "movement behind it, %": np.nan if d.state_moved is None else 100 * d.state_moved / total}
                for s, d in away]  # fmt: skip
        page.table(pd.DataFrame(rows), f"distance_{keys}")
        page.figure(front.plot(others=others), f"front_{keys}", f"The front, {keys} keys.")


def large(page: Page) -> None:
    """Large instances, m = 120, n = 100, 10 s."""
    rows = []
    for key_groups in (10_000,) if page.quick else (10_000, 100_000):
        for keys in ("gaussian", "zipf"):
            p = ks.MCLB(section_5_stream(keys, nodes=100, key_groups=key_groups))
            s = ks.solve(p, time_limit=10)
            rows.append({"keys": keys, "p": key_groups, "keyshift": s.objective, "bound": s.bound,
                         "LPT": p.objective(lpt(p.workload)), "ELB": ks.solve(p, "elb").objective,
                         "round-robin": p.objective(np.arange(key_groups) % 100), "s": s.seconds})  # fmt: skip
    page.table(pd.DataFrame(rows), "large")


def lpt(w: ks.Workload) -> np.ndarray:
    """Longest processing time first on the total loads."""
    total, loads, placed = w.load.sum(axis=0), np.zeros(w.nodes), np.zeros(w.key_groups, dtype=np.int64)
    for k in np.argsort(-total, kind="stable"):
        placed[k] = int(loads.argmin())
        loads[placed[k]] += total[k]
    return placed


def replay(w: ks.Workload, method: str, **options: object) -> tuple[pd.DataFrame, np.ndarray]:
    """Rebalance window by window, each placed by what the ones before it showed: a row a window, and the placements."""
    rows, placements, current = [], [], w.current
    periodic = method.startswith("clb") or method == BEST
    for t in range(w.windows):
        placements.append(current)
        row = {"method": method, "window": t + 1, "variance": metrics_of(w, t, current).var(), "moved, %": np.nan}
        if not periodic or (t + 1) % PERIOD == 0:
            seen = w.load[t + 1 - PERIOD : t + 1] if periodic else w.load[t : t + 1]
            now = ks.MCLB(w.replace(load=seen, state=0.1 * w.load[t], current=current))
            s = (
                ks.solve(now, "local-search", effort=0.3)
                if method == BEST
                else ks.solve(now, method, seed=t, **options)
            )
            current, row["moved, %"] = s.assignment, 100 * s.metrics["share_moved"]
        rows.append(row)
    return pd.DataFrame(rows), np.array(placements)


def metrics_of(w: ks.Workload, window: int, placement: np.ndarray) -> np.ndarray:
    return np.bincount(placement, weights=w.load[window], minlength=w.nodes)


def over_time(page: Page) -> None:
    """Imbalance and movement over time (figures 2 to 4, Table 1)."""
    streams = {
        "gaussian": section_5_stream("gaussian", nodes=10), "zipf": section_5_stream("zipf", nodes=10),
        "drifting gaussian": section_5_stream("gaussian", nodes=10, drift=20), "words": words(nodes=10, rate=10_000.0),
    }  # fmt: skip
    rows = []
    for name, w in list(streams.items())[: 1 if page.quick else None]:
        frame = pd.concat([replay(w, method)[0] for method in (*HEURISTICS, BEST)])
        for method, part in frame[frame["window"] > PERIOD].groupby("method", sort=False):
            v, moved = part["variance"], frame.loc[frame["method"] == method, "moved, %"]
            rows.append({"stream": name, "method": method, "mean var(L_t)": v.mean(), "std": v.std(ddof=0),
                         "state moved a run, %": moved.mean(), "amortised over the windows, %": moved.sum() / w.windows,
                         "one node alone": np.mean([(x.sum() / w.nodes) ** 2 * (w.nodes - 1) for x in w.load])})  # fmt: skip
        figure, axes = grid(1, 2, (5, 4.2))
        lines(axes[0], frame.assign(variance=frame["variance"].clip(1.0)), "window", "variance", "method", marker="")
        lines(axes[1], frame.dropna(), "window", "moved, %", "method", marker=".", linewidth=0.6)
        axes[0].set(yscale="log", ylabel="variance of node loads (tuples squared)", title=name)
        axes[1].set_ylabel("state moved (% of all)")
        axes[1].legend(fontsize=8)
        page.figure(
            figure, f"over_time_{name.split()[0]}", f"{name}, n = 10: imbalance, and state moved, window by window."
        )
    page.say("CLB and the best found rebalance every 24 windows; means are over the windows after the first of these.")
    page.table(pd.DataFrame(rows), "over_time")


def words(**options: float) -> ks.Workload:
    try:
        return word_stream(data_file("count_1w.txt"), **options)  # type: ignore[arg-type]
    except InputError:
        return section_5_stream("zipf", **options)  # type: ignore[arg-type]


def clb_thresholds(page: Page) -> None:
    """Table 1's 2.09e10: CLB as printed, by threshold."""
    page.say(
        "CLB every 24 windows on n = 10 nodes, theta as a correlation; *share* is that of the fullest node. One node with all load: 3.24e10."
    )
    rows = []
    for keys in ("gaussian", "zipf"):
        w = section_5_stream(keys, nodes=10, windows=48 if page.quick else 120)
        for theta in (0.0, 0.5) if page.quick else (0.0, 0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.8):
            frame, placed = replay(w, "clb", theta=theta)
            v = frame["variance"][PERIOD:]
            share = [(x := metrics_of(w, t, placed[t])).max() / x.sum() for t in range(PERIOD, w.windows)]
            rows.append({"keys": keys, "theta": theta, "mean var(L_t)": v.mean(), "std": v.std(ddof=0),
                         "share": np.mean(share), "state moved a run, %": frame["moved, %"].mean()})  # fmt: skip
    page.table(pd.DataFrame(rows), "clb_thresholds")


def kept_hashes(page: Page) -> None:
    """State moved by UHLB, PKG and ELB (figure 4)."""
    page.say(
        "What moves from window to window where both candidates of a key group stay what they are, and only the less loaded one"
    )
    page.say(
        "changes - each window on its own loads, greatest first - against two fresh hashes a window, and one. n = 10."
    )
    rows, rng = [], np.random.default_rng(0)
    for name, w in {
        "gaussian": section_5_stream("gaussian"),
        "zipf": section_5_stream("zipf"),
        "words": words(nodes=10),
    }.items():
        place = {"two kept hashes": partial(two_choices, rng.integers(0, 10, (2, w.key_groups))),
                 "two fresh hashes": lambda load, k=w.key_groups: two_choices(rng.integers(0, 10, (2, k)), load),
                 "a fresh hash": lambda load: rng.integers(0, 10, load.size)}  # fmt: skip
        for way, make in place.items():
            at = [make(load) for load in w.load]
            moved = [100 * w.load[t][at[t] != at[t - 1]].sum() / w.load[t].sum() for t in range(1, w.windows)]
            rows.append({"stream": name, "way": way, "state moved a window, %": np.mean(moved)})
    page.table(pd.DataFrame(rows), "kept_hashes")
    page.say(
        "What ELB moves where the words' frequencies drift more (standard deviation of their logarithms over the windows):"
    )
    drifts = [
        (d, replay(words(nodes=10, windows=40, drift=d), "elb")[0])
        for d in ((0.3,) if page.quick else (0.3, 1.0, 3.0, 10.0))
    ]
    rows = [
        {"drift": d, "state moved a window, %": f["moved, %"].mean(), "mean var(L_t)": f["variance"].mean()}
        for d, f in drifts
    ]
    page.table(pd.DataFrame(rows), "elb_drift")


def two_choices(candidates: np.ndarray, load: np.ndarray) -> np.ndarray:
    loads, at = np.zeros(10), np.zeros(load.size, dtype=int)
    for k in np.argsort(-load, kind="stable"):
        at[k] = min(candidates[:, k], key=lambda i: loads[i])
        loads[at[k]] += load[k]
    return at


def simulated(page: Page) -> None:
    """Latency and throughput, SIMULATED (figures 5 and 6)."""
    page.say("A fluid simulation of pause, buffer, resume. The paper's constants: 1,000 tuples/s a node, windows of a minute, the state a tenth",
             "of the rate, one node more at a time. Ours: nodes at 80 % of their capacity, 10,000 tuples/s of state transfer.")  # fmt: skip
    rows = []
    for nodes in (1, 4, 8) if page.quick else (1, 2, 3, 4, 6, 8, 10, 12, 15):
        w = words(nodes=nodes, windows=10 if page.quick else 30, rate=800.0 * nodes)
        for method in (*HEURISTICS, BEST):
            state = 0.1 * np.vstack([w.load[:1], w.load[:-1]])
            found = pause_buffer_resume(w.load, replay(w, method)[1], state, nodes)
            rows.append(
                {
                    "method": method,
                    "nodes": nodes,
                    "mean latency, s": found.mean,
                    "p95, s": found.p95,
                    "throughput": found.throughput,
                }
            )
    frame = pd.DataFrame(rows)
    frame["speed-up"] = frame["throughput"] / frame.groupby("method")["throughput"].transform("first")
    long = frame.melt(["method", "nodes"], ["mean latency, s", "speed-up"], "figure", "simulated")
    page.figure(
        plots(long, "nodes", "simulated", "method", "figure", scale="y"), "simulated", "Simulated latency and speed-up."
    )
    page.table(frame, "simulated", frame.pivot(index="method", columns="nodes", values="mean latency, s").reset_index())
    page.table(frame.pivot(index="method", columns="nodes", values="speed-up").reset_index())


if __name__ == "__main__":
    run("mclb", "MCLB, measured", __doc__, (gaps, fronts, large, over_time, clb_thresholds, kept_hashes, simulated))
