"""Certificates: what verify.py proves of the benchmarks' answers, how large the files are, and the seconds to make and to check them.

    python benchmarks/certificates.py --out DIR [--only PART ...] [--share 0.1] [--seconds 60]

Every answer is solved within `--seconds`; a proof is looked for within as long again; verify.py runs as a program of its own, `python -I -S`.
`--share` takes only so much of each part's instances, evenly. A row is written as soon as it is known: run it again to go on.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp

import keyshift as ks
from keyshift.certificates import verify
from keyshift.generators.allocation import madsen_allocation
from keyshift.generators.intervals import ding_policy, ding_sequence, ding_step, task_workload
from keyshift.generators.mclb import guo_mclb
from keyshift.generators.real import flights
from keyshift.generators.routing import fang_routing
from keyshift.generators.splitting import nasir_splitting
from keyshift.papers import madsen2016_streams as streams
from keyshift.papers.markdown_table import markdown

Drawn = Iterator[tuple[str, Callable[[], ks.Problem]]]
PROVEN = Path(__file__).parent.parent / "docs" / "benchmarks" / "0.1.0" / "allocation.csv"


def allocation() -> Drawn:
    """The 85 allocations that the benchmark proved, figures 2 to 4 of [Madsen2016]."""
    known = pd.read_csv(PROVEN)
    known = known[(known["method"] == "milp") & (known["proven"] == True)]  # noqa: E712  # text elsewhere
    for r in known.sort_values("seconds", kind="stable").itertuples():  # what was proven soonest first
        given = {"nodes": r.nodes, "key_groups": r.key_groups, "varies": r.varies, "max_migrations": r.limit}
        yield (
            f"{r.nodes}/{r.key_groups} {r.varies} {r.limit} {r.seed}",
            partial(madsen_allocation, seed=r.seed, **given),
        )


def routing() -> Drawn:
    """200 of [Fang2016]'s, to 10,000 keys."""
    for seed, keys, theta in product(range(20), (100, 300, 1000, 3000, 10_000), (0.02, 0.08)):
        given = {"keys": keys, "nodes": 5, "theta_max": theta, "max_table_size": keys // 3}
        yield f"{keys} {theta} {seed}", partial(fang_routing, seed=seed, **given)


def routing_million() -> Drawn:
    """A million keys on ten nodes."""
    yield "1000000", partial(fang_routing, keys=1_000_000, nodes=10, theta_max=0.02, max_table_size=100_000)


def flows() -> Drawn:
    """200 key splittings of [Nasir2015]'s streams."""
    for seed, workers, exponent in product(range(20), (5, 10), (0.8, 1.0, 1.2, 1.4, 1.6)):
        given = {"messages": 10_000, "keys": 1000, "workers": workers, "exponent": exponent}
        yield f"{workers} {exponent} {seed}", partial(nasir_splitting, seed=seed, **given)


def flows_million() -> Drawn:
    """A stream of two million messages with a million keys."""
    yield "1000000", partial(nasir_splitting, messages=2_000_000, keys=1_000_000, workers=10, exponent=0.8)


def steps() -> Drawn:
    """500 steps of [Ding2015]'s tasks."""
    for seed, tasks, after in product(range(50), (32, 64, 128, 256, 512), (6, 10)):
        yield f"{tasks} {after} {seed}", partial(ding_step, seed=seed, tasks=tasks, nodes_after=after)


def step_large() -> Drawn:
    """100,000 tasks from 100 to 120 nodes."""
    yield "100000", lambda: ks.IntervalMigration(task_workload(100_000, 100, 0), 120, 0.2)


def sequences() -> Drawn:
    """Sequences of [Ding2015]'s tasks."""
    for seed, tasks, changes in product(range(20), (24, 32), (2, 5)):
        yield f"{tasks} {changes} {seed}", partial(ding_sequence, seed=seed, tasks=tasks, changes=changes)


def policies() -> Drawn:
    """Policies of [Ding2015]'s tasks."""
    for seed, tasks, discount in product(range(10), (12, 16), (0.8, 0.95)):
        yield f"{tasks} {discount} {seed}", partial(ding_policy, seed=seed, tasks=tasks, discount=discount)


def policy_large() -> Drawn:
    """64 tasks that are all alike, 8 to 16 nodes."""
    chain = {n: dict.fromkeys(range(8, 17), 1 / 9) for n in range(8, 17)}
    w = ks.Workload(load=[1.0] * 64, state=[1.0] * 64, current=[k // 8 for k in range(64)], nodes=8)
    yield "64", lambda: ks.MigrationPolicy(w, chain, 0.4, 0.8)


def mclb() -> Drawn:
    """Bounds at 100 key groups."""
    for seed, keys, moved in product(range(2), ("gaussian", "zipf"), (None, 0.2)):
        yield f"{keys} {moved} {seed}", partial(guo_mclb, seed=seed, keys=keys, share_moved=moved)


def job2() -> Drawn:
    """Real Job 2: flights of New York, 20 nodes, 200 key groups, ten moves a day, each from ALBIC's answer before."""
    stream, model = streams.in_points(by_aeroplane(10))
    place = None
    for day, drawn in enumerate(stream):
        w = model.measured(drawn if place is None else drawn.replace(current=place))
        problem = ks.CollocatedAllocation(w, max_migrations=10, max_load_distance=10.0, distance_unit="load")
        yield f"day {day}", partial(lambda p: p, problem)
        answer = ks.solve(problem, "albic", seed=day)
        place = w.current if answer.assignment is None else answer.assignment


def by_aeroplane(periods: int) -> Iterator[ks.Workload]:
    """`streams.flights(2, periods)`, counted without Spark: both operators are keyed by aeroplane, one to one."""
    log = flights().dropna(subset=["tailnum"])
    group = log["tailnum"].map(lambda tail: zlib.crc32(tail.encode()) % streams.GROUPS)
    counts = pd.crosstab((log["ts"] - log["ts"].min().floor("D")).dt.days, group).to_numpy()
    tails = log.assign(group=group).groupby("group")["tailnum"].nunique().to_numpy() + 1.0
    k = np.arange(streams.GROUPS)
    for day in range(periods):
        load = counts[day : day + 7].sum(axis=0).astype(float)
        traffic = sp.csr_array((load, (k, k + k.size)), shape=(2 * k.size, 2 * k.size))
        place = np.concatenate([k % streams.NODES, (k + 1) % streams.NODES])
        state = np.concatenate([np.ones(k.size), tails])
        yield ks.Workload(load=np.tile(load, 2), state=state, current=place, nodes=streams.NODES, traffic=traffic)


PARTS = (allocation, routing, routing_million, flows, flows_million, steps, step_large, sequences, policies, policy_large, mclb, job2)  # fmt: skip


def row(problem: ks.Problem, file: Path, seconds: float) -> dict[str, object]:
    """One answer, its certificate, and what the checker says of the file."""
    solution = ks.solve(problem, time_limit=seconds)
    if solution.assignment is None and isinstance(problem, ks.MigrationPolicy):  # too many partitions to list
        solution = ks.solve(problem, "mtm-restricted", time_limit=seconds)
    began = time.perf_counter()
    certificate = ks.certify(solution, file, time_limit=seconds)
    made = time.perf_counter()
    run = subprocess.run([sys.executable, "-I", "-S", verify.__file__, file], capture_output=True, check=False)
    bound, value = float(certificate.bound or 0), float(certificate.value or 0)
    return {
        "status": solution.status, "verified": run.returncode == 0, "complete": certificate.complete,
        "tight": certificate.value == certificate.bound, "value": value, "bound": bound, "claimed": solution.bound,
        "bytes": file.stat().st_size, "make": made - began, "verify": time.perf_counter() - made,
    }  # fmt: skip


def taken(part: Callable[[], Drawn], share: float) -> Drawn:
    """Every so many-th instance."""
    for number, drawn in enumerate(part()):
        if int((number + 1) * share) > int(number * share) or share == 1 or number == 0:
            yield drawn


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Sums and medians for each part."""
    frame = frame.assign(
        optimal=frame["status"] == "optimal", lost=(frame["claimed"] - frame["bound"]) / frame["value"]
    )
    by = frame.groupby("part", sort=False)
    table = pd.DataFrame({"instances": by.size()}).join(by[["optimal", "verified", "complete", "tight"]].sum())
    table["largest loss, %"] = (100 * by["lost"].max()).clip(lower=0)
    for name in ("bytes", "make", "verify"):
        table[f"{name}, median"], table[f"{name}, most"] = by[name].median(), by[name].max()
    return table.round(3).reset_index()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", choices=[part.__name__ for part in PARTS])
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    table = given.out / "certificates.csv"
    rows = pd.read_csv(table).to_dict("records") if table.exists() else []
    known = {(r["part"], str(r["instance"])) for r in rows}
    with tempfile.TemporaryDirectory() as folder:
        for part in PARTS:
            if given.only and part.__name__ not in given.only:
                continue
            for name, drawn in taken(part, given.share):
                if (part.__name__, name) not in known:
                    made = row(drawn(), Path(folder) / "c.json", given.seconds)
                    rows.append({"part": part.__name__, "instance": name, **made})
                    pd.DataFrame(rows).to_csv(table, index=False, float_format="%.9g", lineterminator="\n")
    print(markdown(summary(pd.DataFrame(rows))))


if __name__ == "__main__":
    main()
