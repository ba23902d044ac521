"""Threads: linear algebra on one of them, and compiled code that knows no limit on one that can be left."""

from __future__ import annotations

import atexit
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from keyshift.models import Budget
from keyshift.models.answer import LimitReached
from keyshift.models.base.compiling import off_clock

POLL_SECONDS = 0.05
SHORT = 5_000_000
"""A run of fewer steps of compiled code is over before anybody could ask it to stop."""
GRACE_SECONDS = 0.3
"""A run may come back this many seconds after the budget's end; then it is left behind."""
LAST_SECONDS = 10.0
"""Runs that were left behind are waited for so long at the interpreter's end."""
exit_code: int | None = None
"""The process's exit code, where that is known before the interpreter's end."""
_PATIENT: ContextVar[bool] = ContextVar("patient", default=False)
_LEFT: list[threading.Thread] = []
Result = TypeVar("Result")


@cache
def _libraries() -> ThreadpoolController:
    """The BLAS of NumPy and of SciPy: looking for them takes longer than a small problem does."""
    with off_clock():
        import scipy.linalg  # noqa: F401  # loads its own

    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run the block with single-threaded BLAS, which also makes its sums come out alike from run to run."""
    with _libraries().limit(limits=1, user_api="blas"):
        yield


@contextmanager
def nobody_is_left() -> Iterator[None]:
    """Wait for every run in the block however long it takes: what it compiles is wanted."""
    token = _PATIENT.set(True)
    try:
        yield
    finally:
        _PATIENT.reset(token)


def until_limit(
    budget: Budget,
    function: Callable[..., Result],
    *arguments: Any,
    stop: Callable[[], None] | None = None,
    grace: float = GRACE_SECONDS,
    steps: float = math.inf,
) -> Result:
    """Run a function in a thread of its own: the main thread stays free to hear Ctrl-C and the limit, and to leave.

    Parameters
    ----------
    function : callable
        Gives Python's lock back while it works, as solvers and `nogil` kernels do. What it was given must not be
        touched any more once it has been left.
    stop : callable, optional
        Called again and again from the budget's end on, to ask the function to come back.
    grace : float
        Seconds after the budget's end until the thread is left behind. It ends by itself, some time.
    steps : float
        About how many steps of compiled code the run takes: a short one needs no thread. Where work is counted they count,
        and a run of too many is not begun.

    Raises
    ------
    LimitReached
        If it was left behind, or the budget had ended before.
    """
    budget.tick()
    if budget.counts_work and math.isfinite(steps):
        budget.spend(steps / 10)  # simple ones
        budget.tick()
    if steps < SHORT:
        return function(*arguments)
    done: list[Result] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(function(*arguments))
        except BaseException as error:  # handed on to the caller below
            failed.append(error)

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    over: float | None = None
    while worker.is_alive():
        worker.join(POLL_SECONDS)
        if budget.late and worker.is_alive():
            over = time.monotonic() if over is None else over
            if stop is not None:
                stop()
            if time.monotonic() - over > grace and not _PATIENT.get():
                _LEFT[:] = [*(t for t in _LEFT if t.is_alive()), worker]
                raise LimitReached
    if failed:
        raise failed[0]
    return done[0]


@atexit.register
def _wait_for_those_left() -> None:
    """Wait for runs that were left, which have been told to stop; end the process at once where one does not.

    Python would end it by an abort otherwise: a C++ thread that comes back finds no interpreter.
    """
    until = time.monotonic() + LAST_SECONDS
    for worker in _LEFT:
        worker.join(max(0.0, until - time.monotonic()))
    if any(worker.is_alive() for worker in _LEFT):
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(exit_code if exit_code is not None else int(hasattr(sys, "last_value")))
