"""Key placement: the same streams as key splitting, every key in one place."""

from __future__ import annotations

import random
from typing import Any

from hostile import splitting
from hostile.splitting import Truth as Truth
from hostile.splitting import build as build

NAME = splitting.PLACEMENT
OPTIONS = {name: pool for name, pool in splitting.OPTIONS.items() if name in ("milp", "potc", "on-greedy")}
PARTIAL: set[str] = set()


def draw(rng: random.Random) -> dict[str, Any]:
    """One stream of a few messages, as plain data."""
    return {**splitting.draw(rng), "problem": NAME}
