"""A known sequence of migrations ([Ding2015], section 5.1). All of it is in problem.py."""

from keyshift.models.intervals.sequence.problem import MigrationSequence

__all__ = ["MigrationSequence"]
