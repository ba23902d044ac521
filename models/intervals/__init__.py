"""Interval migration: each node runs consecutive tasks [Ding2015].

step.py has one change of the number of nodes and a known sequence of them, policy a transition matrix; beside them is what they
share: partition.py, the rules of intervals and their load test. Begin with step.py.
"""

from keyshift.models.intervals.policy.problem import MigrationPolicy
from keyshift.models.intervals.step import IntervalMigration, MigrationSequence

__all__ = ["IntervalMigration", "MigrationPolicy", "MigrationSequence"]
