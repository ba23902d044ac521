"""JSON files: written whole or not at all, read with one sentence where something is wrong."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from keyshift.models.errors import InputError


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
    text = json.dumps(content, allow_nan=False)
    try:
        handle, scratch = tempfile.mkstemp(prefix=f".{target.name}-", dir=folder)
        with os.fdopen(handle, "w") as stream:
            stream.write(text + "\n")
        Path(scratch).chmod(0o644)
        Path(scratch).replace(target)
    except OSError as error:
        raise InputError(f"{target} cannot be written: {error.strerror}") from None


def read_json(path: str | Path) -> Any:
    """Read a JSON file.

    Raises
    ------
    InputError
        If there is no such file, or it holds no JSON.
    """
    source = Path(path)
    try:
        return json.loads(source.read_text())
    except FileNotFoundError:
        raise InputError(f"{source} does not exist") from None
    except OSError as error:
        raise InputError(f"{source} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise InputError(f"{source} is no JSON") from None
