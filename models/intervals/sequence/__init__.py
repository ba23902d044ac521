"""A known sequence of migrations (paper 5, section 5.1)."""

from keyshift.models.intervals.sequence.problem import MigrationSequence

__all__ = ["MigrationSequence"]
