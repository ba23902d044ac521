"""Migration when node counts follow a transition matrix (paper 5, section 5.2)."""

from keyshift.models.intervals.policy.problem import MigrationPolicy

__all__ = ["MigrationPolicy"]
