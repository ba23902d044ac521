"""Least movement within load limits: the scalarisation of minimum-cost load balancing that ELB follows (paper 1)."""

from keyshift.models.movement.problem import MovementWithinLimits

__all__ = ["MovementWithinLimits"]
