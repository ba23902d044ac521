"""JSON files: written whole or not at all, read with one sentence where something is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from keyshift.models.errors import InputError
from keyshift.models.files import schema
from keyshift.models.files.writing import write_text


def write_json(content: Any, path: str | Path) -> None:
    """Write JSON that any reader accepts (no NaN, no infinity), whole or not at all.

    Raises
    ------
    InputError
        If the folder does not exist, or cannot be written to.
    """
    target = Path(path)
    folder = target.absolute().parent
    if not folder.is_dir():
        raise InputError(f"{target}: the folder {folder} does not exist")
    if target.is_dir():
        raise InputError(f"{target} is a folder, not a file")
    write_text(target, json.dumps(content, allow_nan=False) + "\n")


def read_json(path: str | Path) -> Any:
    """Read a JSON file of bounded size; see `keyshift.models.files.schema.read_json`."""
    return schema.read_json(Path(path))
