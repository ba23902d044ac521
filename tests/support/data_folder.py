"""Where larger data for tests may lie, outside the repository."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder() -> Path | None:
    """The folder named by KEYSHIFT_TEST_DATA, or ../shared/data beside the repository; None if there is none."""
    named = os.environ.get("KEYSHIFT_TEST_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2].parent / "shared" / "data"
    return folder if folder.is_dir() else None
