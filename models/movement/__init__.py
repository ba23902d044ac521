"""Least movement within load limits: the scalarisation that ELB follows [Guo2018]. Begin with problem.py."""

from keyshift.models.movement.problem import MovementWithinLimits

__all__ = ["MovementWithinLimits"]
