"""How long a method goes on after its time limit, or after Ctrl-C: every method of every problem, and the front.

    python benchmarks/limits.py [--quick] [--only limits cold ctrl_c] [--method TEXT] --out DIR

Each method runs in a process of its own. Nothing is compiled ahead; compiling and imports do not count. A time limit is kept if the processor
time is at most 1.5 times the limit and half a second, Ctrl-C if the answer is there within two seconds.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pandas as pd
from page import run

import keyshift as ks
from keyshift.catalogue import FORMULATIONS, find_method
from keyshift.models.base.compiling import COMPILING
from keyshift.papers.page import Page
from keyshift.solving import make_ready

HEARD, UNTIL_SIGNAL, GIVEN_UP = 2.0, 1.0, 180.0
"""Seconds within which Ctrl-C brings the best answer so far, before it is sent, and after which a method counts as hung."""

LIMITS = (0.01, 0.1, 1.0)


class Drawn(NamedTuple):
    """Instances of a problem: the size where limits are to be kept, the one for Ctrl-C (0: none), and how they are drawn by size."""

    problem: str
    large: int
    middle: int
    family: str
    parameters: Callable[[int], dict[str, Any]]
    priorities: tuple[str, ...] = ()


ALLOCATION = (
    "key-group-allocation",
    4000,
    400,
    "madsen-allocation",
    lambda p: {"nodes": p // 80, "key_groups": p, "max_migrations": p // 10},
)
TALKING = (
    "collocated-allocation",
    2000,
    400,
    "madsen-collocation",
    lambda p: {"nodes": p // 50, "key_groups": p, "max_migrations": p // 4},
)
ROUTING = (
    "mixed-routing",
    5000,
    400,
    "fang-routing",
    lambda p: {"nodes": p // 100, "keys": p, "max_table_size": p // 4},
)
CASES: dict[str, Drawn] = {
    "allocation": Drawn(*ALLOCATION),
    "allocation, windows": Drawn("key-group-allocation", 2000, 200, "madsen-windows", lambda p: {"nodes": p // 50, "key_groups": p, "max_migrations": p // 10}),
    "allocation, worst window": Drawn("key-group-allocation", 2000, 0, "madsen-windows", lambda p: {"nodes": p // 50, "key_groups": p, "max_migrations": p // 10, "over": "max"}),
    "allocation, scaling in": Drawn("key-group-allocation", 3000, 0, "madsen-scale-in", lambda p: {"nodes": p // 50, "key_groups": p, "max_migrations": p // 10}),
    "allocation, priorities": Drawn(*ALLOCATION, ("load_distance", "state_moved", "migrations")),
    "collocation": Drawn(*TALKING),
    "collocation, windows": Drawn("collocated-allocation", 1000, 200, "madsen-collocation-windows", lambda p: {"nodes": p // 40, "key_groups": p, "max_migrations": p // 4}),
    "collocation, worst window": Drawn("collocated-allocation", 1000, 0, "madsen-collocation-windows", lambda p: {"nodes": p // 40, "key_groups": p, "max_migrations": p // 4, "over": "max"}),
    "collocation, priorities": Drawn(*TALKING, ("remote_traffic", "load_distance", "state_moved")),
    "balance": Drawn("mclb", 2000, 120, "guo-mclb", lambda p: {"nodes": max(2, p // 50), "key_groups": p, "windows": 4, "share_moved": 0.2}),
    "balance, windows": Drawn("mclb", 600, 0, "guo-mclb", lambda p: {"nodes": max(2, p // 50), "key_groups": p, "share_moved": 0.2, "drift": 0.1}),
    "movement": Drawn("movement-within-limits", 2000, 200, "guo-movement", lambda p: {"nodes": p // 50, "key_groups": p, "width": 0.1}),
    "movement, ties": Drawn("movement-within-limits", 2000, 0, "hard-movement", lambda p: {"kind": "boundary", "nodes": p // 50, "key_groups": p}),
    "splitting": Drawn("key-splitting", 5000, 2000, "nasir-splitting", lambda p: {"messages": 20 * p, "keys": p, "exponent": 1.2, "workers": p // 100}),
    "splitting, weights": Drawn("key-splitting", 5000, 0, "hard-splitting", lambda p: {"kind": "two-scales", "messages": 10 * p, "workers": p // 100}),
    "placement": Drawn("key-placement", 5000, 2000, "nasir-placement", lambda p: {"messages": 20 * p, "keys": p, "exponent": 1.2, "workers": p // 100}),
    "routing": Drawn(*ROUTING),
    "routing, priorities": Drawn(*ROUTING, ("table_size", "state_moved")),
    "a step": Drawn("interval-migration", 3000, 120, "ding-step", lambda p: {"tasks": p, "nodes": p // 90, "nodes_after": max(9, p // 75), "tau": 0.3}),
    "a sequence": Drawn("migration-sequence", 100, 60, "ding-sequence", lambda p: {"tasks": p, "changes": 4}),
    "a long sequence": Drawn("migration-sequence", 2000, 0, "ding-sequence", lambda p: {"tasks": p, "changes": 12}),
    "two changes": Drawn("migration-sequence", 300, 0, "ding-sequence", lambda p: {"tasks": p, "changes": 2}),
    "a policy": Drawn("migration-policy", 26, 22, "ding-policy", lambda p: {"tasks": p, "tau": 0.4, "discount": 0.99}),
    "a large policy": Drawn("migration-policy", 1000, 0, "ding-policy", lambda p: {"tasks": p, "tau": 0.4, "discount": 0.99}),
}  # fmt: skip
MORE = (("collocation", 1000, "milp-plain", 10.0), ("balance", 400, "scip", 5.0))
"""Methods that need seconds before their solver starts."""
FRONTS = ((200, 500, 3.0), (200, 2000, 3.0), (400, 10000, 3.0))
"""Key groups, points, limit."""


def drawn(case: str, size: int) -> ks.Problem:
    given = CASES[case]
    problem = next(iter(ks.family(given.family, **given.parameters(size))))[1]
    return replace(problem, priorities=given.priorities) if given.priorities else problem


def solved(case: str, size: int, method: str, limit: float | None) -> list[dict[str, Any]]:
    """One method: until its limit, or until a Ctrl-C where it has none. A limit of 0 stands for each of `LIMITS`."""
    problem = drawn(case, size)
    make_ready(problem, find_method(problem, method), None)  # as `solve` does before its clock starts
    limits = LIMITS if limit == 0 else (limit,)
    return [timed(lambda at=at: ks.solve(problem, method, time_limit=at, gap=0.0), at) for at in limits]


def all_solved(case: str, size: int, methods: str, limit: float | None) -> list[dict[str, Any]]:
    """All methods, one after another in one process: what one has compiled the next one finds."""
    return [{"method": method} | row for method in methods.split() for row in solved(case, size, method, limit)]


def traced(case: str, size: int, method: str, limit: float | None) -> list[dict[str, Any]]:
    """One front."""
    problem = drawn(case, size)
    return [timed(lambda: ks.pareto(problem, int(method.split()[1]), time_limit=limit), limit)]


def timed(work: Callable[[], Any], limit: float | None) -> dict[str, Any]:
    """Seconds by the clock, of the processor without what compiles, and those after the signal."""
    sent: list[float] = []

    def interrupt() -> None:
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(UNTIL_SIGNAL, interrupt)
    timer.daemon = True
    if limit is None:
        signal.signal(signal.SIGINT, lambda *_: None)  # where it comes after the end
        timer.start()
    began, clock = time.perf_counter(), OnClock()
    answer = work()
    ended, worked = time.perf_counter(), clock.seconds()
    timer.cancel()
    wall, delay = ended - began, ended - sent[0] if sent and ended > sent[0] else None
    kept = worked <= 1.5 * limit + 0.5 if limit is not None else delay is None or delay <= HEARD
    return {"limit": limit, "wall": wall, "processor": worked, "delay": delay, "ended": getattr(answer, "termination", ""),
            "found": getattr(answer, "assignment", True) is not None, "kept": kept}  # fmt: skip


class OnClock:
    """Processor seconds since now, without those in which the clocks of budgets stand still."""

    def __init__(self) -> None:
        self.began, self.still = time.process_time(), 0.0
        self.paused: float | None = None  # a run that was left behind may be compiling already
        COMPILING.pause, COMPILING.resume = self.pause, self.resume

    def pause(self) -> None:
        self.paused = time.process_time()

    def resume(self) -> None:
        self.still += time.process_time() - (self.began if self.paused is None else self.paused)

    def seconds(self) -> float:
        COMPILING.pause = COMPILING.resume = None
        return time.process_time() - self.began - self.still


def apart(function: Callable[..., list[dict[str, Any]]], *arguments: Any) -> list[dict[str, Any]]:
    """Run it in a process of its own."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_serve, args=(theirs, function, arguments))
    child.start()
    theirs.close()
    row = dict(zip(("case", "size", "method", "limit"), arguments, strict=True))
    patience = GIVEN_UP * len(row["method"].split())
    try:
        return [row | made for made in (mine.recv() if mine.poll(patience) else [{"ended": "hung", "kept": False}])]
    except EOFError:
        return [row | {"ended": "died", "kept": False}]
    finally:
        child.join(10)
        if child.is_alive():
            child.kill()


def _serve(pipe: Any, function: Callable[..., list[dict[str, Any]]], arguments: tuple[Any, ...]) -> None:
    pipe.send(function(*arguments))


def runs(page: Page, limited: bool) -> Iterator[dict[str, Any]]:
    """All of them; with --quick the front of 500 points, and one method of each problem."""
    text = page.given.method or ""
    for case, (problem, large, middle, *_) in CASES.items():
        for method in FORMULATIONS[problem].methods[: 1 if page.quick else None]:
            if text in f"{case}: {method.name}" and (limited or middle):
                yield from apart(solved, case, large if limited else middle, method.name, 0.0 if limited else None)
    for case, size, name, limit in MORE if limited and not page.quick else ():
        if text in f"{case}: {name}":
            yield from apart(solved, case, size, name, limit)
    for size, points, limit in FRONTS[: 1 if page.quick else None]:
        if text in "pareto":
            yield from apart(traced, "balance", size, f"pareto {points} points", limit if limited else None)


def limits(page: Page) -> None:
    """Time limits: 0.01, 0.1 and 1 s."""
    _limited(page, "limits", runs(page, limited=True))


def cold(page: Page) -> None:
    """The same with nothing compiled before, one process for all methods of a problem."""
    _limited(page, "cold", _cold(page))


def _cold(page: Page) -> Iterator[dict[str, Any]]:
    for case, (problem, large, *_) in CASES.items():
        methods = [m.name for m in FORMULATIONS[problem].methods if (page.given.method or "") in f"{case}: {m.name}"]
        with tempfile.TemporaryDirectory() as os.environ["NUMBA_CACHE_DIR"]:
            if methods:
                yield from apart(all_solved, case, large, " ".join(methods[: 1 if page.quick else None]), 0.0)
        del os.environ["NUMBA_CACHE_DIR"]


def _limited(page: Page, name: str, rows: Iterator[dict[str, Any]]) -> None:
    frame = pd.DataFrame(rows)
    page.say(f"Of {len(frame)} runs {frame['kept'].sum()} keep their limit; shown: those that took more than it, or did not.")  # fmt: skip
    page.table(frame, name, frame[(frame["processor"] > frame["limit"] + 0.1) | ~frame["kept"]])


def ctrl_c(page: Page) -> None:
    """Ctrl-C a second after the start."""
    frame = pd.DataFrame(runs(page, limited=False)).drop(columns="limit")
    heard = frame["delay"].notna() | ~frame["kept"]
    page.say(f"Seconds until the best answer so far is there; the other {(~heard).sum()} runs end by themselves before.")  # fmt: skip
    page.table(frame, "ctrl_c", frame[heard])


if __name__ == "__main__":
    run("limits", "Limits and Ctrl-C", __doc__, (limits, cold, ctrl_c), method={"default": "", "help": "what contains this text"})  # fmt: skip
