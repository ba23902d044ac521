"""How long a method goes on after its time limit, or after Ctrl-C: every method of every problem, and the front.

    python benchmarks/limits.py [--quick] [--only limits cold ctrl_c] [--method TEXT] --out DIR

One process for each method, so that nothing left behind by one disturbs the next; what compiles and what is imported comes before the clock.
A time limit is kept when the processor time stays within 1.5 times the limit and half a second, Ctrl-C when the answer is there within two.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
from page import Page, run

import keyshift as ks
from keyshift.catalogue import FORMULATIONS, find_method
from keyshift.models.compiling import COMPILING

HEARD, UNTIL_SIGNAL, GIVEN_UP = 2.0, 1.0, 180.0
"""Seconds within which Ctrl-C brings the best answer so far, before it is sent, and after which a method counts as hung."""

LIMITS = (0.01, 0.1, 1.0)

PROBLEMS: dict[str, tuple[int, int, str, Callable[[int], dict[str, Any]]]] = {
    "key-group-allocation": (2000, 400, "madsen-allocation", lambda p: {"nodes": p // 50, "key_groups": p, "max_migrations": p // 10}),
    "collocated-allocation": (1000, 400, "madsen-collocation", lambda p: {"nodes": p // 40, "key_groups": p, "max_migrations": p // 4}),
    "mclb": (400, 120, "guo-mclb", lambda p: {"nodes": max(2, p // 40), "key_groups": p, "windows": 4, "share_moved": 0.2}),
    "movement-within-limits": (400, 200, "guo-movement", lambda p: {"nodes": p // 40, "key_groups": p, "width": 0.1}),
    "key-splitting": (5000, 2000, "nasir-splitting", lambda p: {"messages": 20 * p, "keys": p, "exponent": 1.2, "workers": p // 100}),
    "key-placement": (5000, 2000, "nasir-placement", lambda p: {"messages": 20 * p, "keys": p, "exponent": 1.2, "workers": p // 100}),
    "mixed-routing": (2000, 400, "fang-routing", lambda p: {"nodes": p // 50, "keys": p, "max_table_size": p // 4}),
    "interval-migration": (3000, 120, "ding-step", lambda p: {"tasks": p, "nodes_after": max(9, p // 85), "tau": 0.3}),
    "migration-sequence": (100, 60, "ding-sequence", lambda p: {"tasks": p, "changes": 4}),
    "migration-policy": (26, 22, "ding-policy", lambda p: {"tasks": p, "tau": 0.4, "discount": 0.99}),
}  # fmt: skip
"""Size where a limit is to be kept, size for Ctrl-C, the family and its parameters by size."""
MORE = (("collocated-allocation", 1000, "milp-plain", 10.0), ("mclb", 400, "scip", 5.0))
FRONTS = ((200, 500, 3.0), (200, 2000, 3.0), (400, 10000, 3.0))
"""Key groups, points, limit."""


def drawn(name: str, size: int) -> ks.Problem:
    family, parameters = PROBLEMS[name][2:]
    return next(iter(ks.family(family, **parameters(size))))[1]


def solved(name: str, size: int, method: str, limit: float | None) -> list[dict[str, Any]]:
    """One method: until its limit, or until a Ctrl-C where it has none. A limit of 0 stands for each of `LIMITS`."""
    problem = drawn(name, size)
    find_method(problem, method).compile_ahead()
    limits = LIMITS if limit == 0 else (limit,)
    return [timed(lambda at=at: ks.solve(problem, method, time_limit=at, gap=0.0), at) for at in limits]


def traced(name: str, size: int, method: str, limit: float | None) -> list[dict[str, Any]]:
    """One front."""
    problem = drawn(name, size)
    for known in FORMULATIONS[name].methods:
        known.compile_ahead()
    return [timed(lambda: ks.pareto(problem, int(method.split()[1]), time_limit=limit), limit)]


def timed(work: Callable[[], Any], limit: float | None) -> dict[str, Any]:
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
    began, worked = time.perf_counter(), time.process_time() - COMPILING.seconds
    answer = work()
    ended, worked = time.perf_counter(), time.process_time() - COMPILING.seconds - worked
    timer.cancel()
    wall, delay = ended - began, ended - sent[0] if sent and ended > sent[0] else None
    kept = worked <= 1.5 * limit + 0.5 if limit is not None else delay is None or delay <= HEARD
    return {"limit": limit, "wall": wall, "processor": worked, "delay": delay, "ended": getattr(answer, "termination", ""),
            "found": getattr(answer, "assignment", True) is not None, "kept": kept}  # fmt: skip


def apart(function: Callable[..., list[dict[str, Any]]], *arguments: Any) -> list[dict[str, Any]]:
    """Run it in a process of its own."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_serve, args=(theirs, function, arguments))
    child.start()
    theirs.close()
    row = dict(zip(("problem", "size", "method", "limit"), arguments, strict=True))
    try:
        return [row | made for made in (mine.recv() if mine.poll(GIVEN_UP) else [{"ended": "hung", "kept": False}])]
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
    for name, (large, middle, *_) in PROBLEMS.items():
        for method in FORMULATIONS[name].methods[: 1 if page.quick else None]:
            if text in f"{name} {method.name}":
                yield from apart(solved, name, large if limited else middle, method.name, 0.0 if limited else None)
    for name, size, method_name, limit in MORE if limited and not page.quick else ():
        if text in f"{name} {method_name}":
            yield from apart(solved, name, size, method_name, limit)
    for size, points, limit in FRONTS[: 1 if page.quick else None]:
        if text in "pareto":
            yield from apart(traced, "mclb", size, f"pareto {points} points", limit if limited else None)


def limits(page: Page) -> None:
    """Time limits: 0.01, 0.1 and 1 s."""
    _limited(page, "limits")


def cold(page: Page) -> None:
    """The same with nothing compiled before: what is compiled on the clock shows."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NUMBA_CACHE_DIR"] = folder
        try:
            _limited(page, "cold")
        finally:
            del os.environ["NUMBA_CACHE_DIR"]


def _limited(page: Page, name: str) -> None:
    frame = pd.DataFrame(runs(page, limited=True))
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
