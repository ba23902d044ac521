"""The first answer in a process: cold, warm on the shell, and of `keyshift stats`; beside an older tree, in pairs.

    python benchmarks/first_answer.py [--only cold warm stats] [--before TREE] [--runs 3] --out DIR

Processor seconds (user and system) of fresh processes and of all they start, Java and Spark's Python workers included. Each runs on a copy of the
package that has compiled nothing; *cold* with an empty cache every time, *warm* after two runs with the same one. TREE
is a checkout with its own .venv; its runs alternate with ours, so that both meet the same neighbours on the machine.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from page import run

import keyshift as ks
from keyshift.papers.page import Page

HERE = Path(__file__).resolve().parents[1]
FLOORS = ("models", "solvers", "heuristics", "spark_stats")
PREPARED = """\
import numpy as np, keyshift as ks
rng = np.random.default_rng(3)
def workload(m, n, windows=0, **more):
    load = rng.random((windows, m)) if windows else np.round(1 + 99 * rng.random(m) ** 4, 2)
    return ks.Workload(load=load, state=np.round(1 + 9 * rng.random(m), 1), current=rng.integers(0, n, m), nodes=n, **more)
def ring(m):
    traffic = np.zeros((m, m)); i = np.arange(m // 2)
    traffic[i, m // 2 + i * 7 % (m // 2)] = rng.random(m // 2) * 5; traffic[i, m // 2 + (i * 3 + 1) % (m // 2)] += rng.random(m // 2)
    return traffic
def sorted_to(n, m=24):
    return ks.Workload(load=rng.random(m) + .2, state=rng.random(m), current=np.sort(rng.integers(0, n, m)), nodes=n)
"""
CASES = {
    "four key groups": "ks.KeyGroupAllocation(ks.Workload(load=[4, 3, 2, 1], state=[1, 1, 1, 1], current=[0, 0, 0, 0], nodes=2), max_migrations=2)",
    "5 nodes, 50 key groups": "ks.KeyGroupAllocation(workload(50, 5), max_migrations=5)",
    "20 nodes, 400 key groups": "ks.KeyGroupAllocation(workload(400, 20), max_migrations=13)",
    "24 key groups, collocated": "ks.CollocatedAllocation(workload(24, 4, traffic=ring(24)), max_load_distance=30.0)",
    "MCLB": "ks.MCLB(workload(16, 3, 4), max_state_moved=20.0)",
    "movement within limits": "ks.MovementWithinLimits(workload(16, 3, 3), lower=2, upper=3.5, nodes_after=3)",
    "mixed routing": "ks.MixedRouting(workload(60, 4, home=rng.integers(0, 4, 60)), theta_max=0.1, max_table_size=25)",
    "key splitting": "ks.KeySplitting(rng.zipf(1.5, 2000) % 100, workers=5)",
    "key placement": "ks.KeyPlacement(rng.zipf(1.5, 2000) % 100, workers=5)",
    "intervals": "ks.IntervalMigration(sorted_to(4), 5, 0.4)",
    "a sequence of steps": "ks.MigrationSequence(sorted_to(3, 12), (2, 4, 3), 0.4)",
    "a policy": "ks.MigrationPolicy(sorted_to(3, 12), {2: {2: .3, 3: .6, 4: .1}, 3: {2: .3, 3: .4, 4: .3}, 4: {2: .1, 3: .5, 4: .4}}, 0.4, 0.8)",
}  # fmt: skip
ASKED = """
import json; found = ks.solve(%s, time_limit=30)
print(json.dumps([found.seconds, found.status, found.objective]))
"""
CALLS = {
    "allocation by milp": "solve {} --max-migrations 13 --json",
    "allocation by flux": "solve {} --max-migrations 13 -m flux --json",
    "methods": "methods",
    "--help": "--help",
}
TOPOLOGY = "operators:\n  - {name: first, key: tail}\n  - {name: second, key: tail, filter: delay IS NOT NULL}\nedges:\n  - [first, second]\n"
ROWS = 28_000


class Tree:
    """A copy of a checkout's package in which nothing has been compiled, and its interpreter."""

    def __init__(self, name: str, root: Path, scratch: Path) -> None:
        self.name, self.python, self.lines = name, root / ".venv/bin/python", scratch / name
        without = shutil.ignore_patterns("*.nb[ic]")
        shutil.copytree(root / "interface", self.lines / "keyshift", ignore=without)
        for floor in FLOORS:
            shutil.copytree(root / floor, self.lines / "keyshift" / floor, ignore=without)
        self.answer(
            "four key groups", Path(tempfile.mkdtemp(dir=scratch))
        )  # Python's own byte code is there from now on
        for compiled in self.lines.rglob("*.nb[ic]"):
            compiled.unlink()

    def ran(self, arguments: list[str], cache: Path) -> tuple[float, str]:
        """Processor seconds of a process and of all it left behind, and what it printed."""
        given = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "PYTHONPATH": str(self.lines), "NUMBA_CACHE_DIR": str(cache)}  # fmt: skip
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with spark_workers() as workers:
            done = subprocess.run([str(self.python), *arguments], env=given, cwd=cache, capture_output=True, text=True, check=False)  # fmt: skip
        try:
            while True:
                os.wait()  # a Java that outlived its parent is ours: see `reaping`
        except ChildProcessError:
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise RuntimeError(f"{self.name}: {' '.join(arguments)}: {done.stderr[-2000:]}")
        took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return took + sum(workers.values()), done.stdout

    def answer(self, case: str, cache: Path) -> dict[str, Any]:
        took, said = self.ran(["-c", PREPARED + ASKED % CASES[case]], cache)
        seconds, status, objective = json.loads(said.splitlines()[-1])
        return {f"{self.name}, s": took, f"{self.name}, seconds": seconds, f"{self.name}, files": len(list(cache.rglob("*.nbc"))), f"{self.name}, status": status, f"{self.name}, objective": objective}  # fmt: skip


@contextmanager
def reaping() -> Iterator[None]:
    """Processes whose parent ends become ours, so that their time is counted (Linux)."""
    ctypes.CDLL(None).prctl(36, 1)
    yield
    ctypes.CDLL(None).prctl(36, 0)


@contextmanager
def spark_workers() -> Iterator[dict[int, float]]:
    """Processor seconds of each of Spark's Python workers that are seen within the block (Linux).

    Their parent, PySpark's daemon, ignores how its children end, so that the system counts them nowhere.
    """
    found: dict[int, float] = {}
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.05):
            ours = {}
            for folder in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    if b"pyspark.daemon" in (folder / "cmdline").read_bytes():
                        state = (folder / "stat").read_text().rpartition(")")[2].split()
                        ours[int(folder.name)] = int(state[1]), int(state[11]) + int(state[12])
            found.update(
                {pid: ticks / os.sysconf("SC_CLK_TCK") for pid, (parent, ticks) in ours.items() if parent in ours}
            )

    watching = threading.Thread(target=look)
    watching.start()
    try:
        yield found
    finally:
        over.set()
        watching.join()


def trees(page: Page, scratch: Path) -> list[Tree]:
    before = page.given.before
    return [Tree("now", HERE, scratch), *([Tree("before", before.resolve(), scratch)] if before else [])]


def cold(page: Page) -> None:
    """The first answer of each problem, cold.

    *s*: the processor's seconds from the start of Python to the answer; *seconds*: what the answer says; *files*: kernels compiled.
    """
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        compared = trees(page, scratch)
        rows = []
        for case in CASES:
            runs = [{key: value for tree in compared for key, value in tree.answer(case, Path(tempfile.mkdtemp(dir=scratch))).items()} for _ in range(page.given.runs)]  # fmt: skip
            rows.append({"problem": case, **least(runs)})
            print(rows[-1], flush=True)
        page.table(rows, "cold", pd.DataFrame(rows).round(2))


def warm(page: Page) -> None:
    """A call on the shell, warm.

    The third run with one cache and those after it, on 20 nodes and 400 key groups, in processor seconds; *beyond*: without what the
    answer calls its seconds, which other work on the machine makes more: the least of them.
    """
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        ks.write_workload(drawn(), scratch / "w")
        compared, rows = trees(page, scratch), []
        caches = {tree.name: Path(tempfile.mkdtemp(dir=scratch)) for tree in compared}
        for call, line in CALLS.items():
            runs = []
            for number in range(page.given.runs + 2):
                run_now = {}
                for tree in compared:
                    took, said = tree.ran(["-m", "keyshift", *line.format(scratch / "w").split()], caches[tree.name])
                    run_now[f"{tree.name}, s"] = took
                    if "--json" in line:
                        run_now[f"{tree.name}, seconds"] = json.loads(said)["seconds"]
                runs += [run_now] if number > 1 else []
            found = least(runs)
            beyond = {
                f"{t.name}, beyond": found[f"{t.name}, s"] - found[f"{t.name}, seconds"]
                for t in compared
                if "--json" in line
            }
            rows.append({"call": call, **found, **beyond})
        page.table(rows, "warm", pd.DataFrame(rows).round(2))


def drawn() -> ks.Workload:
    rng = np.random.default_rng(3)
    load, state = np.round(1 + 99 * rng.random(400) ** 4, 2), np.round(1 + 9 * rng.random(400), 1)
    return ks.Workload(load=load, state=state, current=rng.integers(0, 20, 400), nodes=20)


def stats(page: Page) -> None:
    """Statistics of 28,000 rows.

    `keyshift stats`, two operators, one week's windows: processor seconds with Java's; *warmed up* after `keyshift warm-up stats`.
    """
    rng = np.random.default_rng(3)
    with tempfile.TemporaryDirectory() as folder, reaping():
        scratch = Path(folder)
        when = pd.Timestamp("2013-01-01") + pd.to_timedelta(np.sort(rng.integers(0, 31 * 86400, ROWS)), unit="s")
        log = {"ts": when, "tail": [f"N{k}" for k in rng.zipf(1.3, ROWS) % 4000], "delay": np.where(rng.random(ROWS) < 0.03, np.nan, rng.normal(0, 30, ROWS))}  # fmt: skip
        pd.DataFrame(log).to_parquet(scratch / "log.parquet", index=False, coerce_timestamps="us")
        (scratch / "topology.yaml").write_text(TOPOLOGY)
        compared, runs, cache = trees(page, scratch), [], scratch / "cache"
        cache.mkdir()
        for number in range(page.given.runs):
            line = (
                f"stats {scratch}/log.parquet --topology {scratch}/topology.yaml --time ts --nodes 20 --key-groups 100"
            )
            asked = ["-m", "keyshift", *line.split(), "--window", "1 week", "--out"]
            runs.append({f"{tree.name}, s": tree.ran([*asked, f"{scratch}/{tree.name}{number}"], cache)[0] for tree in compared})  # fmt: skip
            if number == 0:
                warm = scratch / "warm"
                warm.mkdir()
                compared[0].ran(["-m", "keyshift", "warm-up", "stats"], warm)
            runs[-1]["warmed up, s"] = compared[0].ran([*asked, f"{scratch}/warm{number}"], warm)[0]
        page.table([least(runs)], "stats", pd.DataFrame([least(runs)]).round(2))


def least(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The least of each figure over the runs: what neighbours on the machine did not add to."""
    return {key: min((one[key] for one in runs), key=lambda value: (value is None, value)) for key in runs[0]}


if __name__ == "__main__":
    run(
        "first_answer", "The first answer", __doc__ or "", [cold, warm, stats],
        before={"type": Path, "default": None, "help": "a checkout with its own .venv"}, runs={"type": int, "default": 2},
    )  # fmt: skip
