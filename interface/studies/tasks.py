"""One solve of a study, and its row in the table, also if it fails."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, TimeoutError, wait
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from keyshift.catalogue import find_method, register
from keyshift.catalogue.method import Method
from keyshift.files.problem import encode
from keyshift.models import Problem, Solution
from keyshift.models.base.compiling import COMPILING
from keyshift.solving import make_ready, solve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Row = dict[str, Any]


@dataclass(frozen=True)
class SolveTask:
    """One method on one instance with one seed.

    Attributes
    ----------
    instance, family : str
    problem : Problem
    fingerprint : str
        Of the problem.
    method : str
    seed : int
    time_limit : float or None
        Seconds.
    gap : float
    effort : float or None
        In place of `time_limit`.
    options : mapping
        The method's own.
    own : Method, optional
        The method, where it was registered here: other processes do not have it.
    """

    instance: str
    family: str
    problem: Problem
    fingerprint: str
    method: str
    seed: int
    time_limit: float | None = None
    gap: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)
    own: Method | None = None
    effort: float | None = None

    @property
    def key(self) -> str:
        """The name of the result's file: the same task has the same name on any machine."""
        said = [self.instance, self.fingerprint, self.method, self.seed, self.time_limit, encode(dict(self.options))]
        said += [self.gap] if self.gap else []
        said += [] if self.effort is None else [f"effort {self.effort:g}"]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:32]

    def make_ready(self) -> None:
        """Load and compile what the method needs; what fails on the way fails in `run` again, and is a row there."""
        with contextlib.suppress(Exception):
            make_ready(self.problem, self._entry(), None)

    def run(self) -> Row:
        """Solve, and return the outcome as a row; what a method raises is a row as well."""
        begun = time.perf_counter()
        try:
            self._entry()
            solution = solve(
                self.problem, self.method, time_limit=self.time_limit, gap=self.gap, seed=self.seed,
                effort=self.effort, **dict(self.options),
            )  # fmt: skip
        except MemoryError:
            return self.failed("memory", "it asked for more memory than it was given", time.perf_counter() - begun)
        except Exception as error:
            said = " ".join(str(error).split())[:300]
            return self.failed("crash", f"{type(error).__name__}: {said}", time.perf_counter() - begun)
        return self.row(solution, time.perf_counter() - begun)

    def row(self, solution: Solution, wall: float) -> Row:
        """The row of a solution."""
        worst = max(solution.violations, key=lambda v: v.amount, default=None)
        offered = None if solution.offered is None else solution.problem.check(solution.offered)
        metrics = solution.metrics if offered is None else offered.metrics
        kept = solution.assignment
        return self._row(
            solution.status, solution.termination, solution.message, solution.seconds, wall,
            objective=finite(solution.objective), bound=finite(solution.bound), tolerance=solution.tolerance or 0.0,
            offered=None if offered is None else finite(offered.objective), violations=len(solution.violations),
            worst_violation=None if worst is None else str(worst), same_problem=solution.problem is self.problem,
            metrics={name: finite(value) for name, value in metrics.items()},
            assignment=None if kept is None or kept.size > 100_000 else kept.tolist(),  # for anyone to check anew
        )  # fmt: skip

    def failed(self, termination: str, message: str, wall: float) -> Row:
        """The row of a solve without a result: "crash", "memory" or "killed"."""
        return self._row("failed", termination, message, wall, wall)

    def _row(self, status: str, termination: str, message: str, seconds: float, wall: float, **found: Any) -> Row:
        """A row: what was solved, how it ended, and what was found."""
        return {
            "instance": self.instance, "family": self.family, "problem": self.problem.name,
            "fingerprint": self.fingerprint, "method": self.method,
            "kind": (self.own or find_method(self.problem, self.method)).kind, "seed": self.seed,
            "status": status, "termination": termination, "message": message, "seconds": seconds, "wall": wall,
            "objective": None, "bound": None, "tolerance": 0.0, "scale": finite(self.problem.scale), "offered": None,
            "violations": 0, "worst_violation": None, "same_problem": True, "metrics": {}, "assignment": None, **found,
        }  # fmt: skip

    def _entry(self) -> Method:
        """The method's entry in the catalogue; another process does not have what was registered in the caller's."""
        if self.own is not None:
            register(self.problem.name, self.own)
        return find_method(self.problem, self.method)


def finite(value: float | None) -> float | None:
    """A number that JSON can hold; None for one that says nothing."""
    return None if value is None or not math.isfinite(value) else float(value)


# Solves on processes that are watched: a crash, an endless loop or a greedy method ends its own solve and no other.


@dataclass(frozen=True)
class Guard:
    """The time and memory that a solve may use.

    Attributes
    ----------
    time_limit : float or None
        What the method is told, in seconds.
    patience : float
        Seconds beyond one and a half times the limit after which a solve is killed. What loads and compiles before the
        method's clock runs does not count.
    memory : float or None
        Address space of a process, in GiB; None sets no limit.
    effort : float or None
        What the method is told in place of seconds; a unit of it counts as one here, since a solver may loop without any work
        that is counted.
    """

    time_limit: float | None = None
    patience: float = 60.0
    memory: float | None = None
    effort: float | None = None

    @property
    def seconds(self) -> float | None:
        """Seconds after which a solve is killed; infinite without a limit."""
        limit = self.time_limit if self.effort is None else self.effort
        return None if limit is None else 1.5 * limit + self.patience


class GuardedPool:
    """Processes of this machine that take tasks; a context manager that ends them.

    Parameters
    ----------
    workers : int
    guard : Guard
    """

    def __init__(self, workers: int, guard: Guard) -> None:
        from loky.backend.context import get_context
        from pebble import ProcessPool

        # New interpreters: a forked one would share the parent's locks, of which HiGHS, Numba and Arrow have some,
        # and multiprocessing's own "spawn" would run the caller's script again. New ones after 200 solves keep leaks small.
        self._pool = ProcessPool(
            max_workers=workers, max_tasks=200, initializer=_begin, initargs=(guard.memory,),
            context=get_context("loky"),
        )  # fmt: skip
        self.workers, self.guard = workers, guard

    def __enter__(self) -> GuardedPool:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.stop()
        self._pool.join()

    def run(self, tasks: Iterable[SolveTask]) -> Iterator[tuple[SolveTask, Row]]:
        """Hand each task's row over as soon as it is there; tasks are drawn as they are needed."""
        waiting = iter(tasks)
        running: dict[Future[Row], SolveTask] = {}
        while True:
            # Two for each process keep it busy, and the others out of memory.
            while len(running) < 2 * self.workers and (task := next(waiting, None)) is not None:
                running[self._pool.schedule(_run, args=(task, self.guard.seconds), timeout=self._at_most)] = task
            if not running:
                return
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                task = running.pop(done)
                yield task, self._row(task, done)

    @property
    def _at_most(self) -> float | None:
        # What loads and compiles before a solve takes minutes on a machine as busy as one may be.
        return None if self.guard.seconds is None else self.guard.seconds + 900.0

    def _row(self, task: SolveTask, done: Future[Row]) -> Row:
        from pebble import ProcessExpired

        try:
            return done.result()
        except (TimeoutError, ProcessExpired) as error:
            code = getattr(error, "exitcode", -signal.SIGALRM)
            if code != -signal.SIGALRM:
                return task.failed("crash", f"its process died with exit code {code}", 0.0)
            return task.failed("killed", "it did not end, long after its time limit", self.guard.seconds or 0.0)
        except MemoryError:
            return task.failed("memory", "it asked for more memory than it was given", 0.0)


def _begin(memory: float | None) -> None:
    """In a new process: limit its memory, and leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if memory is not None:
        with contextlib.suppress(ImportError):  # Windows
            import resource

            most = int(memory * 2**30)
            resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _run(task: SolveTask, seconds: float | None) -> Row:
    """The task's row; the alarm, which is not handled, ends the process in any code."""
    task.make_ready()
    if seconds is None or not hasattr(signal, "setitimer"):  # Windows: the pool's own, longer limit is left
        return task.run()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    left = seconds

    def pause() -> None:
        nonlocal left
        left = signal.setitimer(signal.ITIMER_REAL, 0)[0]

    def resume() -> None:
        signal.setitimer(signal.ITIMER_REAL, max(left, 1e-3))

    COMPILING.pause, COMPILING.resume = pause, resume
    resume()
    try:
        return task.run()
    finally:
        COMPILING.pause = COMPILING.resume = None
        signal.setitimer(signal.ITIMER_REAL, 0)


_POOLS: dict[Guard, GuardedPool] = {}
"""On a worker: the process that solves, kept from task to task, so that libraries load once."""


def run_on_spark(tasks: Iterable[SolveTask], spark: SparkSession, guard: Guard) -> Iterator[tuple[SolveTask, Row]]:
    """Run tasks on a cluster, and hand their rows over job by job.

    Parameters
    ----------
    tasks : iterable of SolveTask
    spark : SparkSession
        Its workers' Python must have keyshift.
    guard : Guard
        Held on the workers, where a solve runs on a process of its own, too.
    """
    context = spark.sparkContext
    waiting = iter(tasks)
    # Rows are written between jobs: a killed study loses at most eight solves for each of the cluster's cores.
    while batch := list(itertools.islice(waiting, 8 * context.defaultParallelism)):
        rows = context.parallelize(batch, len(batch)).map(partial(_solved, guard)).collect()
        yield from zip(batch, rows, strict=True)


def _solved(guard: Guard, task: SolveTask) -> Row:
    """The row of a task, on a worker."""
    if guard not in _POOLS:
        _POOLS[guard] = GuardedPool(1, guard)
    ((_, row),) = _POOLS[guard].run([task])
    return row
