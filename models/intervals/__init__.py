"""Interval migration: each node runs consecutive tasks [Ding2015].

A file or a folder for each problem - step (one change of the number of nodes), sequence (a known sequence of them), policy (a
transition matrix) - and beside them what they share: partition.py, the rules of intervals; exact_arithmetic.py, their load test.
Begin with step.py.
"""

from keyshift.models.intervals.policy.problem import MigrationPolicy
from keyshift.models.intervals.sequence import MigrationSequence
from keyshift.models.intervals.step import IntervalMigration

__all__ = ["IntervalMigration", "MigrationPolicy", "MigrationSequence"]
