"""How long a method goes on after its time limit, or after Ctrl-C: every method of every problem, and the front.

    python benchmarks/limits.py [--quick] [--only limits ctrl_c] [--method TEXT] --out DIR

One process each, so that nothing left behind by one disturbs the next; what compiles and what is imported comes before the clock. A time
limit is kept within 1.5 times itself and half a second, Ctrl-C within two.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
from page import Page, run

import keyshift as ks
from keyshift.catalogue import FORMULATIONS, find_method

HEARD, UNTIL_SIGNAL, GIVEN_UP = 2.0, 1.0, 180.0
"""Seconds within which Ctrl-C brings the best answer so far, before it is sent, and after which a method counts as hung."""

PROBLEMS: dict[str, tuple[int, int, float, str, Callable[[int], dict[str, Any]]]] = {
    "key-group-allocation": (2000, 400, 0.5, "madsen-allocation", lambda p: {"nodes": p // 50, "key_groups": p, "max_migrations": p // 10}),
    "collocated-allocation": (1000, 400, 1.0, "madsen-collocation", lambda p: {"nodes": p // 40, "key_groups": p, "max_migrations": p // 4}),
    "mclb": (400, 120, 0.5, "guo-mclb", lambda p: {"nodes": max(2, p // 40), "key_groups": p, "windows": 4, "share_moved": 0.2}),
    "movement-within-limits": (400, 200, 0.5, "guo-movement", lambda p: {"nodes": p // 40, "key_groups": p, "width": 0.1}),
    "key-splitting": (5000, 2000, 0.5, "nasir-splitting", lambda p: {"messages": 20 * p, "keys": p, "exponent": 1.2, "workers": p // 100}),
    "key-placement": (5000, 2000, 0.5, "nasir-placement", lambda p: {"messages": 20 * p, "keys": p, "exponent": 1.2, "workers": p // 100}),
    "mixed-routing": (2000, 400, 0.5, "fang-routing", lambda p: {"nodes": p // 50, "keys": p, "max_table_size": p // 4}),
    "interval-migration": (300, 120, 0.5, "ding-step", lambda p: {"tasks": p, "nodes_after": 9, "tau": 0.3}),
    "migration-sequence": (100, 60, 0.5, "ding-sequence", lambda p: {"tasks": p, "changes": 4}),
    "migration-policy": (26, 22, 0.5, "ding-policy", lambda p: {"tasks": p, "tau": 0.4, "discount": 0.99}),
}  # fmt: skip
"""Size where a limit is to be kept, size for Ctrl-C, the limit, the family and its parameters by size."""
MORE = (("collocated-allocation", 1000, "milp-plain", 10.0), ("mclb", 400, "scip", 5.0))
FRONTS = ((200, 500, 3.0), (200, 2000, 3.0), (400, 10000, 3.0))
"""Key groups, points, limit."""


def drawn(name: str, size: int) -> ks.Problem:
    family, parameters = PROBLEMS[name][3:]
    return next(iter(ks.family(family, **parameters(size))))[1]


def solved(name: str, size: int, method: str, limit: float | None) -> dict[str, Any]:
    """One run: until its limit, or until a Ctrl-C where it has none."""
    problem = drawn(name, size)
    find_method(problem, method).compile_ahead()
    return timed(lambda: ks.solve(problem, method, time_limit=limit), limit)


def traced(name: str, size: int, method: str, limit: float | None) -> dict[str, Any]:
    """One front."""
    problem = drawn(name, size)
    for known in FORMULATIONS[name].methods:
        known.compile_ahead()
    return timed(lambda: ks.pareto(problem, int(method.split()[1]), time_limit=limit), limit)


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
    began = time.perf_counter()
    answer = work()
    ended = time.perf_counter()
    timer.cancel()
    wall, delay = ended - began, ended - sent[0] if sent and ended > sent[0] else None
    kept = wall <= 1.5 * limit + 0.5 if limit is not None else delay is None or delay <= HEARD
    return {"wall": wall, "delay": delay, "ended": getattr(answer, "termination", ""),
            "found": getattr(answer, "assignment", True) is not None, "kept": kept}  # fmt: skip


def apart(function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Run it in a process of its own."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_serve, args=(theirs, function, arguments))
    child.start()
    theirs.close()
    row = dict(zip(("problem", "size", "method", "limit"), arguments, strict=True))
    try:
        return row | (mine.recv() if mine.poll(GIVEN_UP) else {"ended": "hung", "kept": False})
    except EOFError:
        return row | {"ended": "died", "kept": False}
    finally:
        child.join(10)
        if child.is_alive():
            child.kill()


def _serve(pipe: Any, function: Callable[..., dict[str, Any]], arguments: tuple[Any, ...]) -> None:
    pipe.send(function(*arguments))


def runs(page: Page, limited: bool) -> Iterator[dict[str, Any]]:
    """All of them; with --quick the front of 500 points, and one method of each problem."""
    text = page.given.method or ""
    for name, (large, middle, limit, *_) in PROBLEMS.items():
        for method in FORMULATIONS[name].methods[: 1 if page.quick else None]:
            if text in f"{name} {method.name}":
                yield apart(solved, name, large if limited else middle, method.name, limit if limited else None)
    for name, size, method_name, limit in MORE if limited and not page.quick else ():
        if text in f"{name} {method_name}":
            yield apart(solved, name, size, method_name, limit)
    for size, points, limit in FRONTS[: 1 if page.quick else None]:
        if text in "pareto":
            yield apart(traced, "mclb", size, f"pareto {points} points", limit if limited else None)


def limits(page: Page) -> None:
    """Time limits."""
    frame = pd.DataFrame(runs(page, limited=True))
    page.say(f"Of {len(frame)} runs {frame['kept'].sum()} keep their limit; shown: those that took more than 0.3 of it, or did not.")  # fmt: skip
    page.table(frame, "limits", frame[(frame["wall"] > 0.3 * frame["limit"]) | ~frame["kept"]])


def ctrl_c(page: Page) -> None:
    """Ctrl-C a second after the start."""
    frame = pd.DataFrame(runs(page, limited=False)).drop(columns="limit")
    heard = frame["delay"].notna() | ~frame["kept"]
    page.say(f"Seconds until the best answer so far is there; the other {(~heard).sum()} runs end by themselves before.")  # fmt: skip
    page.table(frame, "ctrl_c", frame[heard])


if __name__ == "__main__":
    run("limits", "Limits and Ctrl-C", __doc__, (limits, ctrl_c), method={"default": "", "help": "what contains this text"})  # fmt: skip
