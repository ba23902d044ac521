"""Pyomo, through one door: it takes a third of the time to load this way.

Pyomo looks which libraries a process has loaded; of SciPy it then loads all statistics, of Matplotlib all that draws: a second,
before any model is written. What it does not see it loads on first use, and of SciPy that is sparse matrices alone.
"""

from __future__ import annotations

import sys
from types import ModuleType

import scipy.sparse

_unseen: dict[str, ModuleType] = {
    name: sys.modules.pop(name) for name in ("scipy", "matplotlib") if name in sys.modules
}
try:
    import pyomo.environ as pyo
    from pyomo.common import errors
    from pyomo.core.expr import LinearExpression
    from pyomo.core.expr.visitor import identify_variables
    from pyomo.repn import generate_standard_repn
    from pyomo.repn.plugins import standard_form
finally:
    sys.modules.update(_unseen)
standard_form.scipy = scipy

__all__ = ["LinearExpression", "errors", "generate_standard_repn", "identify_variables", "pyo", "standard_form"]
