"""Interval migration: each node runs consecutive tasks (paper 5), for one step, a sequence, or a policy."""

from keyshift.models.intervals.policy.problem import MigrationPolicy
from keyshift.models.intervals.sequence.problem import MigrationSequence
from keyshift.models.intervals.step.problem import IntervalMigration

__all__ = ["IntervalMigration", "MigrationPolicy", "MigrationSequence"]
