"""The decisions: the workload, the problems, their declarative models, the metrics and the check.

This floor knows no solver and no heuristic. Begin with workload.py and problem.py; then each formulation has a folder whose
problem.py carries the numbered formulation and its check, and whose *_model.py state it for a solver.
"""

from keyshift.models.answer import Answer, Budget
from keyshift.models.errors import BoundError, InputError, KeyshiftError, MissingDependencyError
from keyshift.models.problem import CheckReport, Problem, Violation
from keyshift.models.solution import Solution
from keyshift.models.workload import Workload

__all__ = [
    "Answer",
    "BoundError",
    "Budget",
    "CheckReport",
    "InputError",
    "KeyshiftError",
    "MissingDependencyError",
    "Problem",
    "Solution",
    "Violation",
    "Workload",
]
