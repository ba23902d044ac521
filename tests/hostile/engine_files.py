"""What the malformed inputs of the engines share: files of which one is wrong."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from hostile.refusals import Case

HUGE = 129 * 2**20
"""Bytes of a file that is larger than any that is read."""


def place(folder: Path, files: dict[str, Any]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        if content is HUGE:
            with path.open("wb") as stream:
                stream.truncate(HUGE)  # a hole: it takes no disk
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content))


def line(files: dict[str, Any], words: list[str], folder: Path) -> list[str]:
    place(folder, files)
    return words


def case(
    engine: str, name: str, files: dict[str, Any], words: list[str], changed: dict[str, Any] | None = None
) -> Case:
    """One input that differs from good ones in the files that are named."""
    assert set(changed or {}) <= set(files)
    return Case(f"engines: {engine}", name, partial(line, {**files, **(changed or {})}, words))
