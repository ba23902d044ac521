"""The folder of words and Wikipedia edits, which some benchmarks read."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder() -> Path | None:
    """The folder that KEYSHIFT_TEST_DATA names, or ``../shared/data``; None where there is none."""
    named = os.environ.get("KEYSHIFT_TEST_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    return folder if folder.is_dir() else None
