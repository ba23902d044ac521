"""Plans, what they are worth, and what to do when there is none."""

from __future__ import annotations

from keyshift.models.lazily import lazily, on_first_use

with lazily() as _LAZY:
    from keyshift.models.plans.way import Phase
    from keyshift.plans.explaining import Explanation
    from keyshift.plans.remedying import Remedy

__all__ = ["Explanation", "Phase", "Remedy"]
__getattr__ = on_first_use(globals(), _LAZY)
