"""From the name of a function or class to the thing itself, imported when it is asked for."""

from __future__ import annotations

import importlib
from typing import Any


def load(entry: str) -> Any:
    """Import what ``"module:attribute"`` names."""
    module, _, attribute = entry.partition(":")
    return getattr(importlib.import_module(module), attribute)
