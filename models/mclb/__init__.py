"""Minimum-cost load balancing: the bi-objective problem of [Guo2018]. Begin with problem.py."""

from keyshift.models.mclb.problem import MCLB
from keyshift.models.movement.problem import MovementWithinLimits

__all__ = ["MCLB", "MovementWithinLimits"]
