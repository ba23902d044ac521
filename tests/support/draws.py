"""How much a test draws: a little in every run, all of it in `make slow`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def draws(few: int, all_of_them: int) -> pytest.MarkDecorator:
    """Hand a test its `count`: a few, and all of them where it is slow."""
    return pytest.mark.parametrize("count", [few, pytest.param(all_of_them, marks=pytest.mark.slow)])


def rest_slow(few: int, values: Iterable[Any]) -> list[Any]:
    """Parameters of a test, slow but for the first few."""
    return [
        value if at < few else pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.slow)
        for at, value in enumerate(values)
    ]
