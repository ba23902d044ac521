"""Which network a problem has."""

from __future__ import annotations

from keyshift.models.intervals.paths.sequence_network import SequenceNetwork
from keyshift.models.intervals.paths.step_network import StepNetwork
from keyshift.models.intervals.sequence.problem import MigrationSequence
from keyshift.models.intervals.step.problem import IntervalMigration


def drawn(problem: IntervalMigration | MigrationSequence, strengthened: bool = True) -> SequenceNetwork | StepNetwork:
    """A problem drawn as a network, with the way from an assignment to a path and back."""
    return SequenceNetwork(problem, strengthened) if isinstance(problem, MigrationSequence) else StepNetwork(problem)
