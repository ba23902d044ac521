"""How large can it be? Every problem at growing sizes: time, memory, answers and bounds.

    python benchmarks/ladder.py [--quick] [--only ladder] [--problem TEXT] [--method NAME ...] [--size P ...] [--limit S ...] --out DIR

Loads are gamma-distributed, key groups run on random nodes, and a twentieth of them may move. Each row is a process of its own with a limit on memory; it is killed
if it runs far beyond its time limit. Rows on file are not run again. Budgets count processor seconds, since other processes use the same
two cores (with --wall, seconds of the clock). A run is late if it takes more than 1.1 times its limit and one second; it is large if its process needs, beyond its imports,
more than twelve times the arrays of the instance and 0.5 GB.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from limits import OnClock
from page import run

import keyshift as ks
import keyshift.models.answer
import keyshift.models.base.compiling
from keyshift.catalogue import find_method, formulation_of
from keyshift.papers.page import Page
from keyshift.solving import make_ready

NODES = {
    1_000: 20,
    7_000: 50,
    10_000: 60,
    20_000: 100,
    70_000: 150,
    100_000: 200,
    300_000: 500,
    1_000_000: 1_000,
    10_000_000: 10_000,
}
"""Nodes of each number of key groups."""
RUNGS = (1_000, 70_000, 100_000, 300_000, 1_000_000)
LIMITS = (1.0, 5.0, 20.0)
CAP = 10 * 2**30
"""Bytes of memory that a process may use before it is ended."""
PATIENCE = 240.0
"""Seconds beyond ten times the limit after which a process is killed."""
KEY = ["problem", "method", "key_groups", "nodes", "windows", "limit", "wall"]


def workload(nodes: int, p: int, windows: int = 1, traffic: int = 0, seed: int = 0) -> ks.Workload:
    """Gamma loads on random nodes, which fluctuate over windows; each key group sends to some others, most of them near."""
    rng = np.random.default_rng(seed)
    load = rng.gamma(2.0, 1.0, p) * rng.uniform(0.7, 1.3, (windows, p))
    pairs = None
    if traffic:
        to = (np.repeat(np.arange(p), traffic) + rng.geometric(0.02, p * traffic)) % p
        pairs = sp.csr_array((rng.gamma(2.0, 1.0, to.size), (np.repeat(np.arange(p), traffic), to)), shape=(p, p))
        pairs = [pairs] * windows if windows > 1 else pairs
    state = rng.gamma(2.0, 1.0, p)
    return ks.Workload(load=load, state=state, current=rng.integers(0, nodes, p), nodes=nodes, traffic=pairs)


def drained(nodes: int, p: int) -> ks.Workload:
    """Every tenth node drains, and one at least."""
    return workload(nodes, p).replace(draining=np.arange(nodes) % 10 == 0)


def tasks(nodes: int, p: int) -> ks.Workload:
    """Gamma loads on contiguous nodes of about the same load."""
    rng = np.random.default_rng(0)
    load = rng.gamma(2.0, 1.0, p)
    middle = (np.cumsum(load) - load / 2) / load.sum()
    return ks.Workload(load=load, state=rng.gamma(2.0, 1.0, p), current=(middle * nodes).astype(np.int64), nodes=nodes)


def within(w: ks.Workload, width: float) -> ks.MovementWithinLimits:
    mean = float(w.last_load.sum()) / w.nodes
    return ks.MovementWithinLimits(w, lower=(1 - width) * mean, upper=(1 + width) * mean, nodes_after=w.nodes)


def mclb(nodes: int, p: int, windows: int) -> ks.MCLB:
    w = workload(nodes, p, windows)
    return ks.MCLB(w, max_state_moved=0.05 * float(w.state.sum()))


def routing(nodes: int, p: int) -> ks.MixedRouting:
    w = workload(nodes, p)
    return ks.MixedRouting(w.replace(home=w.current), theta_max=0.02, max_table_size=p // 20)


def replicas(nodes: int, p: int) -> ks.ReplicatedAllocation:
    return ks.ReplicatedAllocation(workload(nodes, p), copies=p + p // 4, max_migrations=p // 20 + p // 4)


def policy(nodes: int, p: int) -> ks.MigrationPolicy:
    counts = [nodes, nodes + max(1, nodes // 10), nodes + max(2, nodes // 5)]
    rows = {n: {m: 0.5 for m in counts if m != n} for n in counts}
    return ks.MigrationPolicy(tasks(nodes, p), rows, 0.05, 0.8)


def stream(p: int) -> np.ndarray:
    return np.random.default_rng(0).zipf(1.2, 10 * p) % p


CASES: dict[tuple[str, int], Callable[[int, int], ks.Problem]] = {
    ("allocation", 1): lambda n, p: ks.KeyGroupAllocation(workload(n, p), max_migrations=p // 20),
    ("allocation", 6): lambda n, p: ks.KeyGroupAllocation(workload(n, p, 6), max_migrations=p // 20, windows=6),
    ("allocation, all may move", 1): lambda n, p: ks.KeyGroupAllocation(workload(n, p)),
    ("allocation, a tenth drains", 1): lambda n, p: ks.KeyGroupAllocation(drained(n, p), max_migrations=p // 20),
    ("allocation, a tenth drains, all may move", 1): lambda n, p: ks.KeyGroupAllocation(drained(n, p)),
    ("collocation, all may move", 1): lambda n, p: ks.CollocatedAllocation(workload(n, p, 1, 3)),
    ("collocation", 1): lambda n, p: ks.CollocatedAllocation(workload(n, p, 1, 3), max_migrations=p // 20),
    ("collocation", 6): lambda n, p: ks.CollocatedAllocation(workload(n, p, 6, 3), max_migrations=p // 20, windows=6),
    ("mclb", 1): lambda n, p: mclb(n, p, 1),
    ("mclb", 6): lambda n, p: mclb(n, p, 6),
    ("movement", 1): lambda n, p: within(workload(n, p), 0.02),
    ("routing", 1): routing,
    ("replicas", 1): replicas,
    ("splitting", 1): lambda n, p: ks.KeySplitting(stream(p), workers=n),
    ("placement", 1): lambda n, p: ks.KeyPlacement(stream(p), workers=n),
    ("step", 1): lambda n, p: ks.IntervalMigration(tasks(n, p), n + n // 10, 0.05),
    ("sequence", 1): lambda n, p: ks.MigrationSequence(tasks(n, p), [n + n // 10, n, n - n // 10, n], 0.05),
    ("policy", 1): policy,
}


# A row: a process of its own ------------------------------------------------------------------------------------------


def measure(row: dict[str, Any], cap: int) -> dict[str, Any]:
    """Solve in this process, which may take so many bytes of memory."""
    tiny = CASES[row["problem"], row["windows"]](4, 40)
    used = find_method(tiny, row["method"] or None)
    find_method(tiny, row["method"] or None).compile_ahead()
    for name in used.starts + used.rivals if not row["method"] else ():
        find_method(tiny, name).compile_ahead()
    if not row["wall"]:
        clock_of_processor()
    before = memory("VmRSS")
    resource.setrlimit(resource.RLIMIT_AS, (memory("VmSize") + cap, resource.RLIM_INFINITY))
    try:
        problem = CASES[row["problem"], row["windows"]](row["nodes"], row["key_groups"])
    except ks.InputError as error:
        return {"status": "refused", "message": str(error)[:200], "seconds": 0.0, "processor": 0.0, "elapsed": 0.0}
    make_ready(problem, find_method(problem, row["method"] or None), None)
    own = nbytes(problem, set())
    Path("/proc/self/clear_refs").write_text("5")
    began, clock = time.perf_counter(), OnClock()
    found: dict[str, Any] = {}
    try:
        s = ks.solve(problem, row["method"] or None, time_limit=row["limit"], gap=0.0)
        found = {"status": s.status, "objective": s.objective, "bound": s.bound, "message": s.message[:200]}
    except ks.InputError as error:
        found = {"status": "refused", "message": str(error)[:200]}
    except MemoryError as error:
        found = {"status": "crashed: MemoryError", "message": str(error)[:200]}
    wall, worked = time.perf_counter() - began, clock.seconds()
    return found | {"elapsed": wall, "processor": worked, "seconds": wall if row["wall"] else worked,
                    "memory": (memory("VmHWM") - before) / 2**30, "own": own / 2**30}  # fmt: skip


def clock_of_processor() -> None:
    """Let every budget count processor seconds; solvers have clocks of their own, which end them sooner."""
    for module in (keyshift.models.answer, keyshift.models.base.compiling):
        module.time = SimpleNamespace(monotonic=time.process_time)  # type: ignore[attr-defined]


def memory(what: str) -> int:
    """Bytes of this process: VmRSS now, VmHWM at most since the mark was cleared."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(what + ":"))
    return int(line.split()[1]) * 1024


def nbytes(value: Any, seen: set[int]) -> int:
    """Bytes of all arrays that an object has."""
    if id(value) in seen:
        return 0
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        base = value.base if isinstance(value.base, np.ndarray) else value
        if base is not value and id(base) in seen:
            return 0
        seen.add(id(base))
        return int(base.nbytes)
    if isinstance(value, sp.csr_array):
        return sum(nbytes(each, seen) for each in (value.data, value.indices, value.indptr))
    if isinstance(value, (tuple, list)) and len(value) < 1000:
        return sum(nbytes(each, seen) for each in value)
    if hasattr(value, "__dict__") and type(value).__module__.startswith("keyshift"):
        return sum(nbytes(each, seen) for each in vars(value).values())
    return 0


def apart(row: dict[str, Any]) -> dict[str, Any]:
    """The row, measured in a process that is killed if it does not come back."""
    command = [sys.executable, __file__, "--row", json.dumps(row)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=10 * row["limit"] + PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return row | {"status": "killed"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        return row | {"status": f"crashed: {last[:200] or done.returncode}"}
    return row | json.loads(done.stdout.strip().splitlines()[-1])


# The table ------------------------------------------------------------------------------------------------------------


def asked(page: Page) -> Iterator[dict[str, Any]]:
    """Every row that is wanted: the default of each problem, or the methods that are named ("all": each of them)."""
    given = page.given
    for (name, windows), case in CASES.items():
        if given.problem and given.problem not in (name, f"{name}/{windows}"):
            continue
        methods = given.method or [""]
        if methods == ["all"]:
            methods = ["", *(m.name for m in formulation_of(case(4, 40)).methods[1:])]
        for p in given.size or (RUNGS[:1] if page.quick else RUNGS):
            for limit in given.limit or (LIMITS[:1] if page.quick else LIMITS):
                for method in methods:
                    yield {"problem": name, "method": method, "key_groups": p, "nodes": NODES[p], "windows": windows, "limit": limit, "wall": given.wall}  # fmt: skip


def ladder(page: Page) -> None:
    """Sizes."""
    path = page.csv("rows")
    rows = pd.read_csv(path, keep_default_na=False).to_dict("records") if path.exists() else []
    done = {tuple(row[key] for key in KEY) for row in rows}
    for row in asked(page):
        if tuple(row[key] for key in KEY) not in done:
            found = apart(row)
            rows.append(found)
            page.keep(rows, "rows")
            print(*(found.get(c) for c in ("problem", "method", "key_groups", "windows", "limit", "status", "elapsed", "processor", "memory", "own", "objective", "bound", "message")), flush=True)  # fmt: skip
    frame = judged(pd.DataFrame(rows))
    page.say(f"Of {len(frame)} runs {frame['crashed'].sum()} crashed or were killed, {frame['late'].sum()} broke their limit, {frame['large'].sum()} the memory.")  # fmt: skip
    page.keep(frame.drop(columns=["crashed", "late", "large"]), "rows")
    page.table(shown(frame), "table")
    page.table(fitted(frame), "exponents")


def judged(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with what went wrong: a crash, a limit broken, too much memory."""
    numbers = ["objective", "bound", "elapsed", "processor", "seconds", "memory", "own"]
    for name in numbers:
        frame[name] = pd.to_numeric(frame.get(name, np.nan), errors="coerce")
    frame["crashed"] = frame["status"].str.startswith(("crashed", "killed"))
    frame["late"] = frame["seconds"] > 1.1 * frame["limit"] + 1
    frame["large"] = frame["memory"] > 12 * frame["own"] + 0.5
    return frame


def shown(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns that a reader looks for, in few digits."""
    short = frame.sort_values(["problem", "windows", "method", "key_groups", "limit"])
    wrong = short[["crashed", "late", "large"]].apply(lambda row: ", ".join(row.index[row]), axis=1)
    texts = {c: short[c].map(lambda v: "" if pd.isna(v) else f"{v:.3g}") for c in ("seconds", "memory", "own")}
    values = {c: short[c].map(lambda v: "" if pd.isna(v) else f"{v:.6g}") for c in ("objective", "bound")}
    return short[["problem", "windows", "key_groups", "nodes", "limit"]].assign(
        **texts, status=short["status"].str[:20], **values, broken=wrong
    )


def fitted(frame: pd.DataFrame) -> pd.DataFrame:
    """For each problem and method at the longest limit: the exponents by which time and memory grow with key groups from 70,000 on."""
    rows = []
    for names, part in frame[frame["key_groups"] >= 70_000].groupby(["problem", "windows", "method"], sort=False):
        part = part[part["limit"] == part["limit"].max()].dropna(subset=["seconds", "memory"])
        if len(part) > 1:
            slopes = {c: np.polyfit(np.log(part["key_groups"]), np.log(part[c].clip(lower=1e-3)), 1)[0] for c in ("seconds", "memory")}  # fmt: skip
            rows.append(dict(zip(("problem", "windows", "method"), names, strict=True)) | slopes)
    return pd.DataFrame(rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--row"]:
        print(json.dumps(measure(json.loads(sys.argv[2]), CAP)))
    elif sys.argv[1:2] == ["--rungs"]:  # every default, one after another
        for name, windows in CASES:
            row = {"problem": name, "windows": windows, "method": "", "wall": False, **json.loads(sys.argv[2])}
            print(json.dumps(row | measure(row, 2**29)), flush=True)
    else:
        run(
            "ladder", "How large can it be?", __doc__, (ladder,), problem={"default": "", "help": "this one, or with its windows: allocation/6"},
            method={"nargs": "+", "default": [], "help": "these methods; all: each of them"}, size={"nargs": "+", "type": int}, limit={"nargs": "+", "type": float}, wall={"action": "store_true", "help": "limits in seconds of the clock"},
        )  # fmt: skip
