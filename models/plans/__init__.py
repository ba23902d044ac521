"""Plans: which key group moves when, for an operator to carry out, and the check of everything on the way."""

from keyshift.models.plans.plan import Plan
from keyshift.models.plans.transfers import TransferScheduling
from keyshift.models.plans.way import Phase

__all__ = ["Phase", "Plan", "TransferScheduling"]
