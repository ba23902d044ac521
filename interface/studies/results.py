"""A study's folder: what was asked, and one file for each result, so that a killed study goes on where it stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from keyshift.models import InputError
from keyshift.models.files.reading import digest, read_json
from keyshift.models.files.schema import FileModel, Finite, Whole, validated
from keyshift.models.files.writing import make_folder, only_writer, write_text
from keyshift.studies.tasks import Row

ASKED, RESULTS, VERSION = "study.json", "results", 1
MOST_BYTES = 64 * 2**20
"""The file of one result has at most so many bytes."""


class StudyFile(FileModel):
    """The settings of a study."""

    version: Annotated[int, Field(ge=1, le=VERSION)]
    time_limit: Finite | None
    memory: Finite | None
    options: dict[str, str]
    gap: Finite = 0.0


class ResultFile(FileModel):
    """A row: the outcome of one solve. Its file is named after the task and has no version: a row of another is made anew."""

    instance: str
    family: str
    problem: str
    fingerprint: str
    method: str
    kind: str
    seed: Whole
    status: str
    termination: str
    objective: Finite | None
    bound: Finite | None
    tolerance: Finite
    offered: Finite | None
    violations: Whole
    worst_violation: str | None
    same_problem: bool
    seconds: Finite
    wall: Finite
    message: str
    metrics: dict[str, Finite | None]
    assignment: list[Any] | None


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
        if not os.path.lexists(known):
            write_text(known, json.dumps(self.asked, sort_keys=True) + "\n")
            return
        found = _read(known, StudyFile)
        differ = [name for name in {**self.asked, **found} if digest(found.get(name)) != digest(self.asked.get(name))]
        if differ:
            raise InputError(f"{folder} holds a study with other settings ({', '.join(differ)}): choose another folder")

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
            if os.path.lexists(file):
                self.rows[key] = _read(file, ResultFile)
        return key in self.rows

    def put(self, key: str, row: Row) -> None:
        """Keep a row; its file appears whole or not at all."""
        if self.folder is not None:
            write_text(self._file(key), json.dumps(row, allow_nan=False) + "\n")
        self.rows[key] = row

    def _file(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / RESULTS / f"{key}.json"


def _read(file: Path, schema: type[Any]) -> dict[str, Any]:
    try:
        content: dict[str, Any] = read_json(file, MOST_BYTES)
        validated(schema, content, str(file))
    except InputError as error:
        raise InputError(f"{error}: remove it, and the study makes it anew") from None
    return content
