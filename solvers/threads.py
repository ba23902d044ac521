"""Threads: linear algebra in one, and compiled code that cannot look at a clock in one of its own, which can be abandoned."""

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
"""Compiled code of fewer steps ends before it could be asked to stop."""
GRACE_SECONDS = 0.3
"""A run may return this many seconds after the budget's end; then it is abandoned."""
LAST_SECONDS = 10.0
"""At its end the interpreter waits so many seconds for abandoned runs."""
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
    """Run the block with single-threaded BLAS, whose sums are the same from run to run."""
    with _libraries().limit(limits=1, user_api="blas"):
        yield


@contextmanager
def none_abandoned() -> Iterator[None]:
    """Abandon no run in the block, however long it takes: its compiled code is to be kept."""
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
    """Run a function in a thread of its own, so that the main thread can react to Ctrl-C and to the limit.

    Parameters
    ----------
    function : callable
        Releases Python's lock while it works, as solvers and `nogil` kernels do. Once it is abandoned, its arguments must not
        be changed any more.
    stop : callable, optional
        Called repeatedly after the budget's end, to ask the function to return.
    grace : float
        Seconds after the budget's end until the thread is abandoned; it ends by itself some time later.
    steps : float
        About how many steps of compiled code the run takes: a short run needs no thread. Where work is counted these steps count,
        and a run of too many does not begin.

    Raises
    ------
    LimitReached
        If the run was abandoned, or the budget had ended before.
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
    """Wait for abandoned runs, which have been asked to stop; end the process at once where one does not.

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
