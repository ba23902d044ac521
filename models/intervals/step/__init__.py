"""One migration to a new number of nodes (paper 5, section 4)."""

from keyshift.models.intervals.step.problem import IntervalMigration

__all__ = ["IntervalMigration"]
