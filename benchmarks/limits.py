"""How long a method goes on after its time limit, or after Ctrl-C: every method of every problem, and the front."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markdown_table import markdown

import keyshift as ks
from keyshift.catalogue import FORMULATIONS, find_method
from keyshift.solving import make_ready

ALLOWED = "1.5 x limit + 0.5 s"
HEARD = 2.0
"""Seconds within which Ctrl-C has to bring the best answer so far."""
UNTIL_SIGNAL = 1.0
GIVEN_UP = 180.0
"""Seconds after which a method is ended, and counts as hung."""


def workload(key_groups: int, nodes: int, windows: int = 1, pairs: int = 0) -> ks.Workload:
    """Random loads and states; with pairs, so many edges of traffic."""
    rng = np.random.default_rng(13)
    traffic = None
    if pairs:
        first, second = rng.integers(0, key_groups, (2, pairs))
        traffic = np.zeros((key_groups, key_groups))
        traffic[first, second] = rng.integers(1, 100, pairs)
    return ks.Workload(
        load=rng.pareto(2.0, (windows, key_groups)) + 0.1, state=rng.pareto(1.5, key_groups) + 0.1,
        current=np.sort(rng.integers(0, nodes, key_groups)), nodes=nodes, traffic=traffic,
    )  # fmt: skip


def allocation(p: int) -> ks.Problem:
    return ks.KeyGroupAllocation(workload(p, max(2, p // 50)), max_migrations=p // 10)


def collocation(p: int) -> ks.Problem:
    return ks.CollocatedAllocation(
        workload(p, max(2, p // 40), pairs=8 * p), max_load_distance=10, max_migrations=p // 4
    )


def mclb(p: int) -> ks.Problem:
    w = workload(p, max(2, p // 40), windows=4)
    return ks.MCLB(w, max_state_moved=0.2 * float(w.state.sum()))


def movement(p: int) -> ks.Problem:
    w = workload(p, max(2, p // 40))
    mean = float(w.last_load.sum()) / w.nodes
    return ks.MovementWithinLimits(w, lower=0.9 * mean, upper=1.1 * mean)


def stream(p: int) -> np.ndarray:
    return np.random.default_rng(13).zipf(1.2, 20 * p) % p


def splitting(p: int) -> ks.Problem:
    return ks.KeySplitting(stream(p), workers=max(2, p // 100))


def placement(p: int) -> ks.Problem:
    return ks.KeyPlacement(stream(p), workers=max(2, p // 100))


def routing(p: int) -> ks.Problem:
    w = workload(p, max(2, p // 50))
    home = np.random.default_rng(14).integers(0, w.nodes, p)
    return ks.MixedRouting(w.replace(home=home), theta_max=0.08, max_table_size=p // 4)


def interval_workload(p: int, nodes: int) -> ks.Workload:
    rng = np.random.default_rng(13)
    return ks.Workload(
        load=rng.random(p) + 0.2, state=rng.pareto(1.5, p) + 0.1, current=np.arange(p) * nodes // p, nodes=nodes
    )


def interval(p: int) -> ks.Problem:
    return ks.IntervalMigration(interval_workload(p, 8), 9, 0.3)


def sequence(p: int) -> ks.Problem:
    return ks.MigrationSequence(interval_workload(p, 4), [5, 6, 4, 5], 0.4)


def policy(p: int) -> ks.Problem:
    return ks.MigrationPolicy(interval_workload(p, 3), {3: {3: 0.4, 4: 0.6}, 4: {3: 0.5, 5: 0.5}, 5: {4: 1}}, 0.4, 0.99)


MAKERS: dict[str, Callable[[int], ks.Problem]] = {
    "key-group-allocation": allocation,
    "collocated-allocation": collocation,
    "mclb": mclb,
    "movement-within-limits": movement,
    "key-splitting": splitting,
    "key-placement": placement,
    "mixed-routing": routing,
    "interval-migration": interval,
    "migration-sequence": sequence,
    "migration-policy": policy,
}
LARGE = {
    "key-group-allocation": (2000, 0.5), "collocated-allocation": (1000, 1.0), "mclb": (400, 0.5),
    "movement-within-limits": (400, 0.5), "key-splitting": (5000, 0.5), "key-placement": (5000, 0.5),
    "mixed-routing": (2000, 0.5), "interval-migration": (300, 0.5), "migration-sequence": (100, 0.5),
    "migration-policy": (26, 0.5),
}  # fmt: skip
"""Key groups (keys, tasks) of each problem where a limit is to be kept, and the limit in seconds."""
MORE = (("collocated-allocation", 1000, "milp-plain", 10.0), ("mclb", 400, "scip", 5.0))
MIDDLE = {
    "key-group-allocation": 400, "collocated-allocation": 400, "mclb": 120, "movement-within-limits": 200,
    "key-splitting": 2000, "key-placement": 2000, "mixed-routing": 400, "interval-migration": 120,
    "migration-sequence": 60, "migration-policy": 22,
}  # fmt: skip
FRONTS = ((200, 500, 3.0), (200, 2000, 3.0), (400, 10000, 3.0))
"""Key groups, points, limit."""


def solved(name: str, size: int, method: str, limit: float | None) -> dict[str, Any]:
    """One run: until its limit, or until a Ctrl-C where it has none."""
    problem = MAKERS[name](size)
    make_ready(problem, find_method(problem, method), None)
    row: dict[str, Any] = {"problem": name, "size": size, "method": method, "limit": limit}
    return row | timed(lambda: ks.solve(problem, method, time_limit=limit), limit)


def traced(size: int, points: int, limit: float | None) -> dict[str, Any]:
    """One front."""
    problem = MAKERS["mclb"](size)
    for method in FORMULATIONS["mclb"].methods:
        method.make_ready()
    row: dict[str, Any] = {"problem": "mclb", "size": size, "method": f"pareto, {points:,} points", "limit": limit}
    return row | timed(lambda: ks.pareto(problem, points, time_limit=limit), limit)


def timed(run: Callable[[], Any], limit: float | None) -> dict[str, Any]:
    """Seconds by the clock, and those after the signal."""
    sent: list[float] = []

    def interrupt() -> None:
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(UNTIL_SIGNAL, interrupt)
    timer.daemon = True
    if limit is None:
        signal.signal(signal.SIGINT, lambda *_: None)  # where it comes after the end
        timer.start()
    began = time.perf_counter()
    answer = run()
    ended = time.perf_counter()
    timer.cancel()
    return {
        "wall": ended - began,
        "delay": ended - sent[0] if sent and ended > sent[0] else None,
        "ended": getattr(answer, "termination", ""),
        "found": getattr(answer, "assignment", True) is not None,
    }


def apart(function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Run it in a process of its own, so that nothing that was left behind disturbs the next."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_serve, args=(theirs, function, arguments))
    child.start()
    theirs.close()
    said = "hung"
    try:
        if mine.poll(GIVEN_UP):
            return dict(mine.recv())
    except EOFError:
        said = "died"
    finally:
        child.join(10)
        if child.is_alive():
            child.kill()
    return {"problem": str(arguments[0]), "size": arguments[-3], "method": str(arguments[-2]), "limit": arguments[-1],
            "ended": said}  # fmt: skip


def _serve(pipe: Any, function: Callable[..., dict[str, Any]], arguments: tuple[Any, ...]) -> None:
    pipe.send(function(*arguments))


def runs(only: str | None, limits: bool) -> Iterator[dict[str, Any]]:
    """All of them."""
    for name, (size, limit) in LARGE.items():
        for method in FORMULATIONS[name].methods:
            if only is None or only in f"{name} {method.name}":
                yield apart(solved, name, size if limits else MIDDLE[name], method.name, limit if limits else None)
    for name, size, method_name, limit in MORE if limits else ():
        if only is None or only in f"{name} {method_name}":
            yield apart(solved, name, size, method_name, limit)
    for size, points, limit in FRONTS:
        if only is None or only in "pareto":
            yield apart(traced, size, points, limit if limits else None)


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only the front")
    parser.add_argument("--only", help="what contains this text")
    parser.add_argument("--what", choices=["limits", "ctrl-c"], action="append")
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    for what in asked.what or ["limits", "ctrl-c"]:
        rows = []
        for row in runs("pareto" if asked.quick else asked.only, what == "limits"):
            row["kept"] = kept(row)
            rows.append(row)
            print(row, flush=True)
        frame = pd.DataFrame(rows)
        frame.round(3).to_csv(asked.out / f"{what}.csv", index=False)
        (asked.out / f"{what}.md").write_text(markdown(frame) + "\n")


def kept(row: dict[str, Any]) -> bool:
    """Whether it ended in time."""
    if "wall" not in row:
        return False
    if row["limit"] is None:
        return row["delay"] is None or row["delay"] <= HEARD
    return bool(row["wall"] <= 1.5 * row["limit"] + 0.5)


if __name__ == "__main__":
    main()
