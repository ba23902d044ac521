"""MCLB measured: figures 2 to 4 of [Guo2018] on our streams, the front with its bounds, gaps, and large instances.

    python benchmarks/mclb.py [--quick] [--only PART ...] --out DIR

The word stream stands in for the paper's tweets; without the data folder the Zipf stream does. Times are of a machine with two
cores shared with other work. What it does to latency is simulated, in latency.py.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from page import run

import keyshift as ks
from keyshift.generators.mclb import section_5_stream
from keyshift.papers.guo2018 import HEURISTICS, KEYS, clb_thresholds, greedy, kept_hashes, over_time
from keyshift.papers.page import Page, by_method, cases, studied


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


if __name__ == "__main__":
    run("mclb", "MCLB, measured", __doc__, (gaps, fronts, large, over_time, clb_thresholds, kept_hashes))
