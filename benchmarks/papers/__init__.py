"""The five papers' figures, tables and numbers: a registry of all of them, and the experiments that `keyshift reproduce` runs.

The registry is `figures.yaml`; begin with `registry.py`, which reads it and runs what it names. Each paper's experiments are in the module of its name.
"""

from __future__ import annotations

from keyshift.models.base.lazily import lazily, on_first_use

with lazily() as _LAZY:
    from keyshift.papers.registry import PaperFigure, Reproduction, figures

__all__ = ["PaperFigure", "Reproduction", "figures"]
__getattr__ = on_first_use(globals(), _LAZY)
