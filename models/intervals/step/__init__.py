"""One migration to a new number of nodes ([Ding2015], section 4). All of it is in problem.py."""

from keyshift.models.intervals.step.problem import IntervalMigration

__all__ = ["IntervalMigration"]
