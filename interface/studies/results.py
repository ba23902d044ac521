"""A study's folder: what was asked, and one file for each result, so that a killed study goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from keyshift.models import InputError
from keyshift.models.files.writing import make_folder, only_writer, write_text
from keyshift.studies.tasks import Row

ASKED, RESULTS, VERSION = "study.json", "results", 1
MOST_BYTES = 64 * 2**20
"""The file of one result has at most so many bytes."""


class ResultFolder:
    """Where a study keeps its rows; without a folder, in memory.

    Parameters
    ----------
    folder : Path or None
    asked : dict
        What must be the same for results to be taken over: limits and options.
    """

    def __init__(self, folder: Path | None, asked: dict[str, Any]) -> None:
        self.folder, self.asked = folder, {"version": VERSION, **asked}
        self.rows: dict[str, Row] = {}
        if folder is None:
            return
        make_folder(folder / RESULTS)
        known = folder / ASKED
        if not known.exists():
            write_text(known, json.dumps(self.asked, sort_keys=True) + "\n")
        elif (found := _read(known)) != json.loads(json.dumps(self.asked)):
            differ = [name for name in self.asked if found.get(name) != json.loads(json.dumps(self.asked[name]))]
            raise InputError(
                f"{folder} holds a study with other settings ({', '.join(differ) or 'version'}): choose another folder"
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Refuse a second study in the same folder while this one runs."""
        if self.folder is None:
            yield
            return
        with only_writer(self.folder, str(self.folder)):
            yield

    def has(self, key: str) -> bool:
        """Whether the result of a task is there and complete."""
        if key not in self.rows and self.folder is not None:
            file = self._file(key)
            if file.is_file():
                self.rows[key] = _read(file)
        return key in self.rows

    def put(self, key: str, row: Row) -> None:
        """Keep a row; its file appears whole or not at all."""
        if self.folder is not None:
            write_text(self._file(key), json.dumps(row, allow_nan=False) + "\n")
        self.rows[key] = row

    def _file(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / RESULTS / f"{key}.json"


def _read(file: Path) -> dict[str, Any]:
    if file.stat().st_size > MOST_BYTES:
        raise InputError(f"{file} has more than {MOST_BYTES:,} bytes: it is no result of a study")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise InputError(f"{file} is not readable JSON: remove it, and the study makes it anew") from None
    if not isinstance(content, dict):
        raise InputError(f"{file} is no result of a study")
    return content
