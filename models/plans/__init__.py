"""From one assignment to another: the schedule of state transfers, and the check of every moment in between.

Begin with transfers.py.
"""

from keyshift.models.plans.transfers import TransferScheduling

__all__ = ["TransferScheduling"]
