"""Compile what the methods of interval migration need, on instances too small to take time."""

from __future__ import annotations

from collections.abc import Callable

from keyshift.models import Answer
from keyshift.models.intervals import IntervalMigration, MigrationPolicy, MigrationSequence
from keyshift.models.workload import Workload
from keyshift.solvers.warm_up import rehearse


def compile_migration(method: Callable[..., Answer]) -> None:
    """Run a method from two nodes to three."""
    rehearse(method, [IntervalMigration(_workload(), 3, 0.5)])


def compile_sequence(method: Callable[..., Answer]) -> None:
    """Run a method from two nodes to three and back."""
    rehearse(method, [MigrationSequence(_workload(), [3, 2], 0.5)])


def compile_policy(method: Callable[..., Answer]) -> None:
    """Run a method between two nodes and three."""
    chances = {2: {2: 0.5, 3: 0.5}, 3: {2: 0.5, 3: 0.5}}
    rehearse(method, [MigrationPolicy(_workload(), chances, 0.5, 0.5)])


def _workload() -> Workload:
    return Workload(load=[3, 1, 2, 2, 1, 3], state=[1, 2, 1, 3, 1, 1], current=[0, 0, 0, 1, 1, 1], nodes=2)
