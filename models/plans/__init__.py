"""The way from one assignment to another: when each transfer of state runs, and the check of everything in between.

Begin with transfers.py.
"""

from keyshift.models.plans.transfers import TransferScheduling

__all__ = ["TransferScheduling"]
