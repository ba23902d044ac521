"""Collocation: key-group allocation that also keeps talkative key groups together (paper 2, section 4.3.2)."""

from keyshift.models.collocation.load_model import LoadModel
from keyshift.models.collocation.problem import CollocatedAllocation

__all__ = ["CollocatedAllocation", "LoadModel"]
