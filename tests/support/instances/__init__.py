"""Small instances of every formulation, for the battery. A formulation adds a module with `NAME` and `battery`."""

from __future__ import annotations

import pkgutil
from importlib import import_module

MODULES = tuple(import_module(f"instances.{found.name}") for found in pkgutil.iter_modules(__path__))
BATTERIES = {module.NAME: module.battery for module in MODULES}

REQUIRED = ("ties", "zeros", "one node", "one key group", "draining all but one")
"""Labels that every battery has; a formulation to which one cannot apply names it in `NOT_APPLICABLE`, with why."""

NOT_APPLICABLE = {module.NAME: getattr(module, "NOT_APPLICABLE", {}) for module in MODULES}
