"""Plans: which key group moves when, for an operator to carry out, and the check of everything on the way."""

from keyshift.models.plans.phase import Phase
from keyshift.models.plans.plan import Plan
from keyshift.models.plans.transfers import TransferScheduling

__all__ = ["Phase", "Plan", "TransferScheduling"]
