"""Common to the engines' formats: a size limit before reading, one sentence for what is wrong, folders whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from keyshift.models.errors import InputError
from keyshift.models.files import disk
from keyshift.models.files.disk import MOST_JSON, make_folder, read_json
from keyshift.models.files.schema import Model, Whole, validated

if TYPE_CHECKING:
    import numpy as np

    from keyshift.models.plans.plan import Plan


Id = Annotated[Whole, Field(le=2**31 - 1)]
One = Annotated[Whole, Field(ge=1, le=1)]
"""The version that every format of Kafka and Cruise Control names: 1."""


class EngineModel(BaseModel):
    """A part of an engine's format that is pinned by a version: no unknown field, no text for a number."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class OpenModel(BaseModel):
    """A part of a format to which engines add fields from release to release: ours are checked, others passed over."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, populate_by_name=True)


def read_model(file: str | Path, schema: type[Model], most: int = MOST_JSON) -> Model:
    """Read one JSON object of a schema from a file of bounded size.

    Raises
    ------
    InputError
        Names the file, the field, the position and the value that are wrong.
    """
    return validated(schema, read_json(file, most), str(file))


def as_json(content: Any) -> str:
    """One line of JSON, as the engines' own tools print it."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False) + "\n"


def write_folder(folder: str | Path, files: Mapping[str, str]) -> list[Path]:
    """Write a folder of texts, all or none; a folder that has something in it is not touched.

    Raises
    ------
    InputError
        If there is something else, or the operating system refuses.
    """
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is not a folder")
    if target.is_dir() and any(target.iterdir()):
        raise InputError(f"{target} is not empty: choose another folder, so that no old phase is taken for a new one")
    make_folder(target.absolute().parent)

    def fill(scratch: Path) -> None:
        for name, text in files.items():
            (scratch / name).write_text(text, encoding="utf-8")

    disk.write_folder(target, fill)
    return [target / name for name in files]


def write_assignments(folder: str | Path, plan: Plan, made: Callable[[np.ndarray], Mapping[str, Any]]) -> list[Path]:
    """Write where everything runs before a plan and after each of its phases: ``00-assignment.json`` is the way back."""
    steps = enumerate([plan.current, *plan.assignments()])
    return write_folder(folder, {f"{number:02}-assignment.json": as_json(made(nodes)) for number, nodes in steps})


def with_notes(text: str, plan: Plan) -> str:
    """The text of STEPS.md with what a plan says of itself: what draining nodes keep, and why."""
    return text + ("\n## Notes\n\n" + "".join(f"- {note}\n" for note in plan.notes) if plan.notes else "")
