"""Migration when node counts follow a transition matrix ([Ding2015], section 5.2). Begin with problem.py."""

from keyshift.models.intervals.policy.problem import MigrationPolicy

__all__ = ["MigrationPolicy"]
