"""Studies: many instances, many methods, one table of gaps. Begin with `study.py`; `tables.py` has its tables and its page."""

from __future__ import annotations

from keyshift.models.base.lazily import lazily, on_first_use

with lazily() as _LAZY:
    from keyshift.studies.study import Study, StudyProgress

__all__ = ["Study", "StudyProgress"]
__getattr__ = on_first_use(globals(), _LAZY)
