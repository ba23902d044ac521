"""Replicas of hot key groups: how many copies, and on which nodes. Begin with problem.py."""

from keyshift.models.replication.problem import ReplicatedAllocation

__all__ = ["ReplicatedAllocation"]
