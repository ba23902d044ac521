"""Minimum-cost load balancing: the bi-objective problem of paper 1, and the scalarisation that ELB follows."""

from keyshift.models.mclb.problem import MCLB
from keyshift.models.movement.problem import MovementWithinLimits

__all__ = ["MCLB", "MovementWithinLimits"]
