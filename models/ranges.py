"""The ranges that options may have: an annotation says the type and the limits, and whoever takes options checks them."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Gt, Le

_LARGEST = 2**53

Whole = Annotated[int, Ge(0), Le(_LARGEST)]
"""0, 1, 2, ..."""

Count = Annotated[int, Ge(1), Le(_LARGEST)]
"""1, 2, 3, ..."""

Threads = Annotated[int, Ge(1), Le(1024)]
"""Threads of one process."""

Finite = Annotated[float, Ge(-1e300), Le(1e300)]
"""Any number but infinity."""

NonNegative = Annotated[float, Ge(0), Le(1e300)]
"""A number >= 0."""

Positive = Annotated[float, Gt(0), Le(1e300)]
"""A number > 0."""

Share = Annotated[float, Ge(0), Le(1)]
"""A number from 0 to 1."""
