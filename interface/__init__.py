"""keyshift: exact, relaxed and heuristic rebalancing of stateful streams.

>>> import keyshift as ks
>>> w = ks.Workload(load=[8, 6, 5, 2, 2, 1], state=[9, 2, 3, 1, 1, 1], current=[0, 0, 0, 1, 1, 2], nodes=3)
>>> s = ks.solve(ks.KeyGroupAllocation(w, max_migrations=2))
>>> s.objective, s.status
(1.0, 'optimal')

Heavy parts (Pyomo, OR-Tools, Numba, Matplotlib, Spark) load on first use.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

try:
    from keyshift.models.answer import Progress
    from keyshift.models.errors import (
        BoundError,
        ChangedWorkloadError,
        InputError,
        KeyshiftError,
        MissingDependencyError,
    )
    from keyshift.models.lazily import lazily
    from keyshift.models.plans.plan import Plan
    from keyshift.models.problem import CheckReport, Problem, Violation
    from keyshift.models.solution import Solution
    from keyshift.models.workload import Workload
    from keyshift.version import __version__ as __version__
except KeyboardInterrupt:
    if "keyshift" in (Path(sys.argv[0]).stem, *sys.orig_argv[1:3]):  # the command: a word, no traceback
        sys.exit("keyshift: interrupted")
    raise

# Public names that load on first use: `__getattr__` finds them.
with lazily() as _LAZY:
    from keyshift.catalogue import methods
    from keyshift.certificates.certificate import Certificate, certify
    from keyshift.comparison import Comparison, compare
    from keyshift.fronts.front import Distance, Front, pareto
    from keyshift.heuristics.splitting.chooser import choose_splitting
    from keyshift.heuristics.splitting.partitioner import Partitioner
    from keyshift.modelling.model import Model
    from keyshift.modelling.opening import model, read_answer, statements
    from keyshift.models.allocation import KeyGroupAllocation
    from keyshift.models.collocation import CollocatedAllocation, LoadModel
    from keyshift.models.files.solution import read_solution
    from keyshift.models.files.workload import read_workload, write_workload
    from keyshift.models.intervals import IntervalMigration, MigrationPolicy, MigrationSequence
    from keyshift.models.mclb import MCLB, MovementWithinLimits
    from keyshift.models.plans.predicting import compare_measured
    from keyshift.models.plans.saved import read_plan
    from keyshift.models.plans.way import Phase
    from keyshift.models.routing import MixedRouting, RoutingTable
    from keyshift.models.simulation import Aggregation, Migration, Simulation, simulate
    from keyshift.models.splitting import KeyPlacement, KeySplitting
    from keyshift.papers.registry import Reproduction, reproduce
    from keyshift.plans.explaining import Explanation, explain
    from keyshift.plans.making import plan
    from keyshift.plans.remedying import Remedy, remedies
    from keyshift.plans.repairing import repair
    from keyshift.replays.adaptation import replay
    from keyshift.replays.forecasting import Forecast
    from keyshift.replays.planner import Planner
    from keyshift.replays.results import Replay
    from keyshift.replays.scaling import NodeCounts, Planned, Scaling, TargetUtilisation
    from keyshift.report.exploring import explore
    from keyshift.solving import check, solve, warm_up
    from keyshift.studies.drawing import families, family
    from keyshift.studies.study import Study, StudyProgress, study
for _name in _LAZY:
    del globals()[_name]

__all__ = [
    "MCLB",
    "Aggregation",
    "BoundError",
    "Certificate",
    "ChangedWorkloadError",
    "CheckReport",
    "CollocatedAllocation",
    "Comparison",
    "Distance",
    "Explanation",
    "Forecast",
    "Front",
    "InputError",
    "IntervalMigration",
    "KeyGroupAllocation",
    "KeyPlacement",
    "KeySplitting",
    "KeyshiftError",
    "LoadModel",
    "Migration",
    "MigrationPolicy",
    "MigrationSequence",
    "MissingDependencyError",
    "MixedRouting",
    "Model",
    "MovementWithinLimits",
    "NodeCounts",
    "Partitioner",
    "Phase",
    "Plan",
    "Planned",
    "Planner",
    "Problem",
    "Progress",
    "Remedy",
    "Replay",
    "Reproduction",
    "RoutingTable",
    "Scaling",
    "Simulation",
    "Solution",
    "Study",
    "StudyProgress",
    "TargetUtilisation",
    "Violation",
    "Workload",
    "certify",
    "check",
    "choose_splitting",
    "compare",
    "compare_measured",
    "explain",
    "explore",
    "families",
    "family",
    "methods",
    "model",
    "pareto",
    "plan",
    "read_answer",
    "read_plan",
    "read_solution",
    "read_workload",
    "remedies",
    "repair",
    "replay",
    "reproduce",
    "simulate",
    "solve",
    "statements",
    "study",
    "warm_up",
    "write_workload",
]


def _plan(solution: Solution, **options: Any) -> Plan:
    from keyshift.plans.making import plan as make

    return make(solution.problem, solution, **options)


def _moves(solution: Solution) -> Any:
    from keyshift.plans.targets import bare_moves

    return bare_moves(solution)


def _save(solution: Solution, path: str | Path) -> None:
    from keyshift.models.files.solution import write_solution

    write_solution(solution, path)


def _report(plan: Plan, path: str | Path, **options: Any) -> None:
    from keyshift.report.plan_page import write_plan_report

    write_plan_report(plan, path, **options)


Plan.reporter = _report
Solution.planner = _plan  # models know nothing of what stands above them: this package tells them
Solution.mover = _moves
Solution.writer = _save


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        globals()[name] = value = _LAZY[name].load()
        return value
    if name in ("exercises", "rules"):  # rooms of their own, opened on first use
        return importlib.import_module(f"keyshift.{name}")
    raise AttributeError(f"module 'keyshift' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
