"""Declarative models: read them, change them, write them to a file, solve them with any solver.

Begin with `opening.py` (`statements`, `model`), then `model.py`: what a `Model` can do, whatever its language.
"""

from __future__ import annotations

from keyshift.models.base.lazily import lazily, on_first_use

with lazily() as _LAZY:
    from keyshift.modelling.model import Model

__all__ = ["Model"]
__getattr__ = on_first_use(globals(), _LAZY)
