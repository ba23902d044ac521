"""One solve of a study: what it is, and the row it becomes whatever happens."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from keyshift.catalogue import find_method, register
from keyshift.catalogue.method import Method
from keyshift.models import Problem, Solution
from keyshift.models.files.problem import encode
from keyshift.solving import make_ready, solve

MOST_KEPT = 100_000
"""Entries of the longest assignment that a result keeps, so that anyone can check it anew."""
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
    options : mapping
        The method's own.
    own : Method, optional
        The method, where somebody registered it: other processes do not know it.
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

    @property
    def key(self) -> str:
        """The name of the result's file: the same task has the same name on any machine."""
        said = [self.instance, self.fingerprint, self.method, self.seed, self.time_limit, encode(dict(self.options))]
        said += [self.gap] if self.gap else []
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
                **dict(self.options),
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
        return {
            **self._head(),
            "status": solution.status,
            "termination": solution.termination,
            "objective": finite(solution.objective),
            "bound": finite(solution.bound),
            "tolerance": solution.tolerance or 0.0,
            "offered": None if offered is None else finite(offered.objective),
            "violations": len(solution.violations),
            "worst_violation": None if worst is None else str(worst),
            "same_problem": solution.problem is self.problem,
            "seconds": solution.seconds,
            "wall": wall,
            "message": solution.message,
            "metrics": {name: finite(value) for name, value in metrics.items()},
            "assignment": None if kept is None or kept.size > MOST_KEPT else kept.tolist(),
        }

    def failed(self, termination: str, message: str, wall: float) -> Row:
        """The row of a solve that gave nothing: "crash", "memory" or "killed"."""
        return {
            **self._head(),
            "status": "failed", "termination": termination, "objective": None, "bound": None,
            "tolerance": 0.0, "offered": None,
            "violations": 0, "worst_violation": None, "same_problem": True, "seconds": wall, "wall": wall,
            "message": message, "metrics": {}, "assignment": None,
        }  # fmt: skip

    def _entry(self) -> Method:
        """The method's entry in the catalogue; another process does not know what was registered in the caller's."""
        if self.own is not None:
            register(self.problem.name, self.own)
        return find_method(self.problem, self.method)

    def _head(self) -> Row:
        return {
            "instance": self.instance, "family": self.family, "problem": self.problem.name,
            "fingerprint": self.fingerprint, "method": self.method,
            "kind": (self.own or find_method(self.problem, self.method)).kind, "seed": self.seed,
        }  # fmt: skip


def finite(value: float | None) -> float | None:
    """A number that JSON can hold; None for one that says nothing."""
    return None if value is None or not math.isfinite(value) else float(value)
