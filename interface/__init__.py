"""keyshift: exact, relaxed and heuristic rebalancing of stateful streams.

>>> import keyshift as ks
>>> w = ks.Workload(load=[8, 6, 5, 2, 2, 1], state=[9, 2, 3, 1, 1, 1], current=[0, 0, 0, 1, 1, 2], nodes=3)
>>> s = ks.solve(ks.KeyGroupAllocation(w, max_migrations=2))
>>> s.objective, s.status
(1.0, 'optimal')

Heavy parts (Pyomo, OR-Tools, Numba, Matplotlib, Spark) load on first use. Begin with solving.py.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

try:
    from keyshift.models import InputError, KeyshiftError, Problem, Solution, Workload
    from keyshift.models.base.lazily import Named, lazily, on_first_use
    from keyshift.plans.plan import Plan
    from keyshift.version import __version__ as __version__
except KeyboardInterrupt:
    if "keyshift" in (Path(sys.argv[0]).stem, *sys.orig_argv[1:3]):  # the command: a word, no traceback
        sys.exit("keyshift: interrupted")
    raise

# Public names that load on first use.
with lazily() as _LAZY:
    from keyshift.catalogue import methods
    from keyshift.catalogue.families import families, family
    from keyshift.certificates.certificate import certify
    from keyshift.comparison import compare
    from keyshift.files.solution import read_solution
    from keyshift.files.workload import read_workload, write_workload
    from keyshift.fronts.front import pareto
    from keyshift.heuristics.splitting.chooser import choose_splitting
    from keyshift.heuristics.splitting.partitioner import Partitioner
    from keyshift.modelling.opening import model, statements
    from keyshift.models.allocation import KeyGroupAllocation
    from keyshift.models.collocation import CollocatedAllocation
    from keyshift.models.intervals import IntervalMigration, MigrationPolicy, MigrationSequence
    from keyshift.models.mclb import MCLB, MovementWithinLimits
    from keyshift.models.replication import ReplicatedAllocation
    from keyshift.models.routing import MixedRouting, RoutingTable
    from keyshift.models.splitting import KeyPlacement, KeySplitting
    from keyshift.papers.registry import reproduce
    from keyshift.plans.explaining import explain
    from keyshift.plans.making import plan
    from keyshift.plans.remedying import remedies, repair
    from keyshift.plans.saved import compare_measured, read_plan
    from keyshift.replays.adaptation import replay
    from keyshift.report.exploring import explore
    from keyshift.simulation import simulate
    from keyshift.solving import check, solve, warm_up
    from keyshift.studies.study import study
_opened = on_first_use(globals(), _LAZY)

__all__ = [
    "MCLB", "CollocatedAllocation", "InputError", "IntervalMigration", "KeyGroupAllocation", "KeyPlacement",
    "KeySplitting", "KeyshiftError", "MigrationPolicy", "MigrationSequence", "MixedRouting", "MovementWithinLimits",
    "Partitioner", "Plan", "Problem", "ReplicatedAllocation", "RoutingTable", "Solution", "Workload", "certify",
    "check", "choose_splitting", "compare", "compare_measured", "explain", "explore", "families", "family", "methods",
    "model", "pareto", "plan", "read_plan", "read_solution", "read_workload", "remedies", "repair", "replay",
    "reproduce", "simulate", "solve", "statements", "study", "warm_up", "write_workload",
]  # fmt: skip

ROOMS = {
    "catalogue": (),
    "certificates": ("Certificate",),
    "comparison": ("Comparison",),
    "exercises": (),
    "fronts": ("Distance", "Front"),
    "modelling": ("Model",),
    "models": ("BoundError", "ChangedWorkloadError", "CheckReport", "MissingDependencyError", "Progress", "Violation"),
    "papers": (),
    "plans": ("Explanation", "Phase", "Remedy"),
    "replays": ("Forecast", "LoadModel", "NodeCounts", "Planned", "Planner", "Replay", "Scaling", "TargetUtilisation"),
    "rules": (),
    "simulation": ("Aggregation", "Migration", "Simulation"),
    "studies": ("Study", "StudyProgress"),
}
"""Public modules that open by their name - `keyshift.replays.Scaling` needs no import of its own -, and what moved there."""

RETIRED = {
    name: (f"keyshift.{room}.{name}", Named(f"keyshift.{room}", name))
    for room, names in ROOMS.items()
    for name in names
} | {"read_answer": ("keyshift.model(problem, kind).read(path)", Named("keyshift.modelling.opening", "read_answer"))}
"""Names that are retired: what to write instead, and what they still lead to. They go in `GONE_IN`; see the page *Stability*."""
GONE_IN = "0.5"


_WENT = {
    ("", "models.base"): "compiling figures frames guards integers kernel_cache labels lazily names pyomo",
    ("files.", "models.base"): "arrow disk schema tables yaml_text",
    ("plans.", "plans"): "made_for plan saved",
}
MOVED = {
    f"keyshift.models.{folder}{name}": f"keyshift.{now}.{name}"
    for (folder, now), names in _WENT.items()
    for name in names.split()
} | {
    "keyshift.models.families": "keyshift.generators",
    "keyshift.models.families.collocation": "keyshift.generators.allocation",
    "keyshift.models.families.replication": "keyshift.generators.allocation",
    "keyshift.models.files": "keyshift.files",
    "keyshift.models.files.policy": "keyshift.solvers.intervals.policy.saved_policy",
    "keyshift.models.files.routing_table": "keyshift.models.routing.table_file",
    "keyshift.models.files.statistics": "keyshift.spark_stats.statistics_files",
    "keyshift.models.files.replay": "keyshift.replays.adaptation",
    "keyshift.models.plans.staying": "keyshift.plans.targets",
    "keyshift.models.simulation": "keyshift.simulation",
    "keyshift.models.files.plan": "keyshift.files.solution",
    "keyshift.files.plan": "keyshift.files.solution",
    "keyshift.studies.best_known": "keyshift.studies.tables",
    "keyshift.simulation.fluid": "keyshift.simulation.queue_kernels",
    "keyshift.report.page": "keyshift.report.drawings",
    "keyshift.catalogue.options": "keyshift.catalogue.method",
    "keyshift.solvers.allocation.settings": "keyshift.solvers.tuning",
    "keyshift.solvers.mclb.settings": "keyshift.solvers.tuning",
}
"""Modules that stand elsewhere since 0.4, with what is in them; the old names go in 0.6."""


class _Moved(MetaPathFinder, Loader):
    """Imports by a name of `MOVED` lead to the module by its new name, with a warning."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if self.new(name) else None

    def new(self, name: str) -> str | None:
        """The module's name of today; None where it has not moved."""
        if not name.startswith("keyshift."):
            return None
        folder, _, module = name.rpartition(".")
        return MOVED.get(name) or (folder in MOVED and f"{MOVED[folder]}.{module}") or None

    def exec_module(self, module: ModuleType) -> None:
        instead = self.new(module.__name__)
        assert instead is not None
        warnings.warn(f"{module.__name__} goes in 0.6: write {instead}", DeprecationWarning, stacklevel=2)
        sys.modules[module.__name__] = importlib.import_module(instead)


sys.meta_path.insert(0, _Moved())


def _methods_by_name() -> None:
    """`from keyshift.heuristics import albic`: the floors below do not import the catalogue, so this package adds the names."""
    import keyshift.heuristics
    import keyshift.solvers

    for floor in (keyshift.heuristics, keyshift.solvers):

        def called(name: str, floor: Any = floor) -> Any:
            from keyshift.solving import method_called

            return method_called(floor, name)

        floor.__getattr__ = called  # type: ignore[method-assign]


_methods_by_name()
# Models import nothing that stands above them: this package names it.
Problem._reader, Solution.planner = _LAZY["read_workload"], _LAZY["plan"]
Solution.mover = Named("keyshift.plans.targets", "bare_moves")
Solution.writer = Named("keyshift.files.solution", "write_solution")
Plan.reporter = Named("keyshift.report.drawings", "write_plan_report")


def __getattr__(name: str) -> Any:
    if name in ROOMS:
        return importlib.import_module(f"keyshift.{name}")
    if name in RETIRED:
        instead, old = RETIRED[name]
        warnings.warn(
            f"keyshift.{name} is retired and goes in {GONE_IN}: write {instead}", DeprecationWarning, stacklevel=2
        )
        return old.load()
    return _opened(name)


def __dir__() -> list[str]:
    return sorted(__all__)
