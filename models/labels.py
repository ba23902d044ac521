"""Labels in a written model: letters before the numbers of an index, so that x[k3,n1] explains itself."""

from __future__ import annotations

from collections.abc import Iterable


def lettered(letters: str, index: Iterable[object]) -> str:
    """An index with a letter before each number; a dash stands for none.

    >>> lettered("kn", (3, 1))
    'k3,n1'
    """
    return ",".join(
        f"{letter}{part}" if letter != "-" else str(part) for letter, part in zip(letters, index, strict=True)
    )
