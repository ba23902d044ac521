"""Interval migration: each node runs consecutive tasks (paper 5), for one step, a sequence, or a policy."""

from keyshift.models.intervals.policy import MigrationPolicy
from keyshift.models.intervals.problem import IntervalMigration
from keyshift.models.intervals.sequence import MigrationSequence

__all__ = ["IntervalMigration", "MigrationPolicy", "MigrationSequence"]
