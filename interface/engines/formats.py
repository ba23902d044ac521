"""Common to the engines' formats: a size limit before reading, one sentence for what is wrong, folders whole or not at all."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from keyshift.models.base import disk
from keyshift.models.base.disk import MOST_JSON, expect_holdable, make_folder, parse_json, read_text
from keyshift.models.base.schema import Model, Whole, validated
from keyshift.models.errors import InputError
from keyshift.models.routing import RoutingTable
from keyshift.plans.plan import Plan

Id = Annotated[Whole, Field(le=2**31 - 1)]
One = Annotated[Whole, Field(ge=1, le=1)]
"""The version that every format of Kafka and Cruise Control names: 1."""


class OpenModel(BaseModel):
    """A part of a format that grows from release to release: the fields that keyshift reads are checked, others are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, populate_by_name=True)


class Document(NamedTuple):
    """A JSON object in a text, and the text between the one before it and this one."""

    heading: str
    content: Any


_OBJECT = re.compile(r"^[ \t]*(?=\{)", re.MULTILINE)
_GSON = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*")|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<comment>//[^\n]*|\#[^\n]*|/\*.*?\*/)"""
    r"""|(?P<bare>[^\s{}\[\]:,;"'/\#]+)""",
    re.DOTALL,
)
_PLAIN = re.compile(r"true|false|null|-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def documents(file: str | Path, most: int = MOST_JSON, gson: bool = False) -> list[Document]:
    """The JSON objects in what a tool printed: each begins on a line of its own, over one line or several.

    Warnings of the client and the tool's own words may stand before, between and after them. `gson` reads a file that people
    write for a program that reads it by Gson: with comments, single quotes, and names without any.

    Raises
    ------
    InputError
        If there is none, or what begins like one is no JSON.
    """
    text = read_text(file, most)
    if gson:
        text = _GSON.sub(_strict, text)
    expect_holdable(text, str(file))
    found: list[Document] = []
    end = 0
    while begins := _OBJECT.search(text, end):
        begin = begins.end()
        try:
            _, stop = json.JSONDecoder().raw_decode(text, begin)
        except (ValueError, RecursionError):
            stop = len(text)  # the sentence about it is that of `parse_json`
        found.append(Document(text[end:begin], parse_json(text[begin:stop], str(file))))
        end = stop
    if not found:
        raise InputError(
            f"{file} has no JSON object that begins on a line of its own: is it all that the tool printed?"
        )
    return found


def _strict(found: re.Match[str]) -> str:
    """What Gson takes, as JSON writes it."""
    if found["text"] is not None or (found["bare"] is not None and _PLAIN.fullmatch(found["bare"])):
        return found[0]
    if found["comment"] is not None:
        return " "
    return json.dumps(found["bare"] if found["bare"] is not None else found["single"])


def read_model(file: str | Path, schema: type[Model], most: int = MOST_JSON, gson: bool = False) -> Model:
    """Read the one JSON object of a schema in a file of bounded size.

    Raises
    ------
    InputError
        Names the file, the field, the position and the value that are wrong; or says what the server said was wrong.
    """
    first, *others = (document.content for document in documents(file, most, gson))
    if others:
        raise InputError(f"{file} holds {len(others) + 1} JSON objects; there must be one")
    if isinstance(first.get("errorMessage"), str):
        raise InputError(f"{file} is a refusal of the server: {' '.join(first['errorMessage'].split()):.300}")
    return validated(schema, first, str(file))


def some(names: Iterable[object], most: int = 3) -> str:
    """The first names of several, and how many more there are."""
    listed = [str(name) for name in names]
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def table_of(solution: Any) -> tuple[RoutingTable | None, Sequence[Any] | None]:
    """The table of a solution of mixed routing, and the keys at its positions; None where it is a solution of another problem."""
    problem = solution.problem
    if solution.assignment is None:
        raise InputError(f"the solution of {problem.name} has no assignment to route by")
    return (RoutingTable.of(problem, solution.assignment), problem.workload.keys) if problem.by_table else (None, None)


def entries_of(table: RoutingTable, labels: Sequence[Any] | None) -> list[tuple[Any, int]]:
    """Each key of a table, by its label where there are some, and its node."""
    if labels is not None and table.keys.max(initial=-1) >= len(labels):
        raise InputError(f"the table has key {table.keys.max()}, there are {len(labels)} labels")
    positions = table.keys.tolist()
    return list(zip(positions if labels is None else [labels[p] for p in positions], table.nodes.tolist(), strict=True))


def as_json(content: Any) -> str:
    """One line of JSON, as the engines' own tools print it."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False) + "\n"


def counted(count: int, noun: str) -> str:
    """So many of something."""
    return f"{count} {noun}{'s' * (count != 1)}"


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
    """Write where everything runs: ``before-assignment.json``, the way back, and ``NN-assignment.json`` after phase NN."""
    after = zip(plan.phases, plan.assignments(), strict=True)
    steps = {"before": plan.current, **{f"{phase.number:02}": nodes for phase, nodes in after}}
    return write_folder(folder, {f"{name}-assignment.json": as_json(made(nodes)) for name, nodes in steps.items()})


def with_notes(text: str, plan: Plan) -> str:
    """The text of STEPS.md followed by the plan's notes, such as what draining nodes keep and why."""
    return text + ("\n## Notes\n\n" + "".join(f"- {note}\n" for note in plan.notes) if plan.notes else "")
