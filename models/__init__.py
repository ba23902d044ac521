"""The decisions: the workload, the problems, their declarative models, the metrics and the check.

This floor imports no solver and no heuristic. Begin with workload.py and problem.py; then each formulation has a folder whose
problem.py carries the numbered formulation and its check, and whose *_model.py state it for a solver. What every floor builds on
is in base/: checks of values, names, files on disk, compiled kernels.
"""

from keyshift.models.answer import Answer, Budget, Progress
from keyshift.models.errors import (
    BoundError,
    ChangedWorkloadError,
    InputError,
    KeyshiftError,
    MissingDependencyError,
)
from keyshift.models.problem import CheckReport, Problem, Violation
from keyshift.models.solution import Solution
from keyshift.models.workload import Workload

__all__ = [
    "Answer", "BoundError", "Budget", "ChangedWorkloadError", "CheckReport", "InputError", "KeyshiftError",
    "MissingDependencyError", "Problem", "Progress", "Solution", "Violation", "Workload",
]  # fmt: skip
