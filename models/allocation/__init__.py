"""Key-group allocation: the mixed-integer program of paper 2, section 4.3.1."""

from keyshift.models.allocation.problem import KeyGroupAllocation

__all__ = ["KeyGroupAllocation"]
