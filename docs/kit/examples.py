"""The small instances of the lectures and worksheets, and what is true of them, computed when the kit is built."""

from __future__ import annotations

import inspect
import itertools
import re
from functools import cache
from typing import Any

import numpy as np
import pyomo.environ as pyo

import keyshift as ks
from keyshift.catalogue import FORMULATIONS
from keyshift.models.splitting.hashing import candidates

SIX = ks.Workload(load=[7, 5, 4, 3, 3, 2], state=[70, 50, 40, 30, 30, 20], current=[0, 0, 1, 1, 2, 2], nodes=3)
FOUR = ks.Workload(load=[4, 2, 2, 0], state=[6, 2, 2, 1], current=[0, 0, 1, 1], nodes=2)
TRAFFIC = np.zeros((4, 4))
TRAFFIC[0, 2], TRAFFIC[3, 1] = 5, 3
PAIRS = ks.Workload(load=[1] * 4, state=[1] * 4, current=[0, 0, 1, 1], nodes=2, traffic=TRAFFIC)
HASHED = ks.Workload(load=[4, 3, 1], state=[4, 3, 1], current=[0, 0, 0], home=[0, 0, 0], nodes=2)
ROW = ks.Workload(load=[1] * 3, state=[8, 1, 9], current=[0, 0, 0], nodes=1)
LINE = ks.Workload(load=[1] * 4, state=[1, 2, 2, 2], current=[0, 0, 0, 1], nodes=2)
GREEDY = ks.Workload(load=[8, 3, 5, 2, 3], state=[1] * 5, current=[0, 0, 0, 1, 1], nodes=3)


def keys_of_three() -> np.ndarray:
    """Keys a (6 messages) and b (4) that may go to workers 0 and 1, and c (2) to worker 2 alone, found by trying."""
    pool = np.arange(500)
    chosen = np.sort(candidates(pool, workers=3, choices=2), axis=1)
    a, b = pool[(chosen == [0, 1]).all(axis=1)][:2]
    return np.repeat([a, b, pool[(chosen == 2).all(axis=1)][0]], [6, 4, 2])


STREAM = keys_of_three()
SPLITS = [[0] * x + [1] * (6 - x) + [0] * y + [1] * (4 - y) + [2] * 2 for x, y in itertools.product(range(7), range(5))]
PLACEMENTS = [[i] * 6 + [j] * 4 + [2] * 2 for i, j in itertools.product((0, 1), repeat=2)]

PROBLEMS: dict[str, Any] = {
    "start": ks.KeyGroupAllocation(SIX, max_migrations=0),
    "one": ks.KeyGroupAllocation(SIX, max_migrations=1),
    "two": ks.KeyGroupAllocation(SIX, max_migrations=2),
    "drain": ks.KeyGroupAllocation(SIX.replace(draining=[False, False, True]), max_migrations=1),
    "movement": ks.MovementWithinLimits(FOUR, 3, 5, nodes_after=2),
    "mclb": ks.MCLB(FOUR, max_state_moved=2),
    "front": ks.MCLB(FOUR),
    "traffic": ks.CollocatedAllocation(PAIRS, max_load_distance=50, max_migrations=1),
    "routing": ks.MixedRouting(HASHED, theta_max=0.25, max_table_size=1),
    "splitting": ks.KeySplitting(STREAM, workers=3),
    "placement": ks.KeyPlacement(STREAM, workers=3),
    "intervals": ks.IntervalMigration(ROW, 2, 0.4),
    "future": ks.MigrationPolicy(LINE, {2: {3: 1.0}, 3: {2: 1.0}}, tau=0.5, discount=0.8),
    "greedy": ks.KeyGroupAllocation(GREEDY, max_migrations=3),
}


@cache
def values(name: str) -> dict[float, list[list[int]]]:
    """All feasible assignments by value, the least first: every one is tried."""
    problem = PROBLEMS[name]
    tried: Any = {"splitting": SPLITS, "placement": PLACEMENTS}.get(name)
    if tried is None:
        w = problem.workload
        nodes = getattr(problem, "nodes_after", None) or w.nodes
        tried = itertools.product(range(nodes), repeat=w.key_groups)
    found: dict[float, list[list[int]]] = {}
    for a in tried:
        report = ks.check(problem, a)
        if report.feasible:
            found.setdefault(round(report.objective, 9), []).append(list(a))
    answer = ks.solve(problem)
    assert answer.status == "optimal"
    assert abs(answer.objective - min(found)) < 1e-6, "the solver and the table disagree"
    return dict(sorted(found.items()))


def best(name: str) -> float:
    """The optimum."""
    return next(iter(values(name)))


def second(name: str) -> float:
    """The runner-up."""
    return list(values(name))[1]


@cache
def relaxed(name: str) -> float | None:
    """The bound of a relaxation, the better of those that the catalogue has first."""
    problem = PROBLEMS[name]
    for method in FORMULATIONS[problem.name].methods:
        if method.kind == "relaxation":
            return ks.solve(problem, method.name).bound
    return None


@cache
def size(name: str) -> tuple[int, dict[str, int]]:
    """Variables, and rows of each kind, of the statement that ``ks.model`` opens."""
    native = ks.model(PROBLEMS[name], "pyomo").native
    rows = {c.name: len(c) for c in native.component_objects(pyo.Constraint, active=True) if len(c)}
    return native.nvariables(), rows


def algebra(name: str) -> dict[str, str]:
    """The first row of each kind, in numbers."""
    found: dict[str, str] = {}
    lines = ks.model(PROBLEMS[name], "pyomo").algebra().split("\nsubject to\n")[1].split("\nwhere\n")[0]
    for kind, row in re.findall(r"^  (\w+)(?:\[[^]]*\])?: (.*(?:\n      .*)*)", lines, re.MULTILINE):
        # Four digits are enough: the rest is room for rounding.
        plain = re.sub(r"\d+\.\d+", lambda m: f"{float(m[0]):.4g}", " ".join(row.split()))
        found.setdefault(kind, plain)
    return found


def formula(kind: type | ks.Problem, *numbers: str, minimise: str = "") -> str:
    """Rows of a problem's printed formulation, which the tests hold against the statement, as TeX; its goal where it has one.

    `ValueError` for a number that it does not have, with those that it has.
    """
    kind = kind if isinstance(kind, type) else type(kind)
    text = inspect.getdoc(kind) or ""
    rows = dict(re.findall(r"\((\d+[ab]?)\)\s*\\quad\s*&?\s*(.*?)(?=\\\\\s|\n\s*\n|\\\\$|\Z)", text, re.DOTALL))
    rows = {n: row.rpartition("and/or} \\;")[2] for n, row in rows.items()}
    if missing := [n for n in numbers if n not in rows]:
        raise ValueError(f"{kind.__name__} has no row {missing[0]}; its docstring has {', '.join(rows)}")
    stated = re.search(r"\\min\s*(?:\\;)?\s*(.*?)\s*\\quad\s*\\text\{subject to", text, re.DOTALL)
    goal = minimise or (stated[1] if stated else "")
    lines = [rf"\min \quad & {goal}"] if goal else []
    lines += [rf"({n}) \quad & {' '.join(rows[n].split())}" for n in numbers]
    return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"


def obvious(name: str) -> list[int]:
    """The best single move, then the next, as long as one helps and is allowed."""
    problem = PROBLEMS[name]
    w, at = problem.workload, problem.workload.current.tolist()
    while True:
        tries = [[*at[:k], i, *at[k + 1 :]] for k in range(w.key_groups) for i in range(w.nodes)]
        best_try = min(
            (a for a in tries if ks.check(problem, a).feasible), key=lambda a: ks.check(problem, a).objective
        )
        if ks.check(problem, best_try).objective >= ks.check(problem, at).objective:
            return at
        at = best_try


def number(x: float | None) -> str:
    """A number as one writes it on a blackboard."""
    return "-" if x is None else f"{round(x, 3) + 0.0:g}"
