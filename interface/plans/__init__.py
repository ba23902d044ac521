"""Plans, what they are worth, and what to do when there is none. Begin with making.py."""

from __future__ import annotations

from keyshift.models.base.lazily import lazily, on_first_use

with lazily() as _LAZY:
    from keyshift.plans.explaining import Explanation
    from keyshift.plans.remedying import Remedy
    from keyshift.plans.targets import Phase

__all__ = ["Explanation", "Phase", "Remedy"]
__getattr__ = on_first_use(globals(), _LAZY)
