"""Collocation: key-group allocation that also keeps talkative key groups together [Madsen2016]. Begin with problem.py."""

from keyshift.models.collocation.load_model import LoadModel
from keyshift.models.collocation.problem import CollocatedAllocation

__all__ = ["CollocatedAllocation", "LoadModel"]
