"""Key-group allocation: the mixed-integer program of [Madsen2016], section 4.3.1. Begin with problem.py."""

from keyshift.models.allocation.problem import KeyGroupAllocation

__all__ = ["KeyGroupAllocation"]
