"""The one envelope of every JSON file: a format and a version, strict types, bounded sizes, one sentence for what is wrong.

A file is a `FileFormat`: a pydantic model of plain JSON types, which reads itself and writes itself. What it cannot say - that
lists have the same length, that a load is finite - the class that is read checks itself, as for data that come from Python.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from keyshift.models.base.disk import MOST_JSON, digest, read_json, shown, write_text
from keyshift.models.errors import InputError

LARGEST = 2**53 - 1
"""The largest whole number in a file: beyond it floats, and most readers of JSON, cannot tell neighbours apart."""


def _whole_floats(value: Any) -> Any:
    """Some writers have one kind of number, and write 3 as 3.0."""
    if isinstance(value, list):
        return [_whole_floats(v) if type(v) in (float, list) else v for v in value]
    return int(value) if type(value) is float and value.is_integer() and abs(value) <= LARGEST else value


Whole = Annotated[int, Field(ge=0, le=LARGEST), BeforeValidator(_whole_floats)]
Count = Annotated[int, Field(ge=1, le=LARGEST), BeforeValidator(_whole_floats)]
Wholes = Annotated[list[Annotated[int, Field(ge=0, le=LARGEST)]], BeforeValidator(_whole_floats)]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=200)]
"""A name inside the file's own folder: no path leads out of it."""


Finite = Annotated[float, Field(allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Labels = list[str | int]


class FileModel(BaseModel):
    """A file, or a part of one: no unknown field, no text for a number, no number for a flag."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    @classmethod
    def content(cls, source: object, **given: Any) -> dict[str, Any]:
        """The fields as JSON holds them: what is given, else an object's attributes of the same names."""
        fields = (name for name in cls.model_fields if name not in ENVELOPE)
        return {name: plain(given[name] if name in given else getattr(source, name)) for name in fields}


def plain(value: Any) -> Any:
    """Arrays and tuples as lists, mappings as objects; JSON has no infinity: null stands for it."""
    if isinstance(value, np.ndarray):
        made: list[Any] = value.tolist()
        finite = value.dtype.kind != "f" or np.isfinite(value).all()
        return made if finite else [None if v == np.inf else v for v in made]
    if isinstance(value, Mapping):
        return {name: plain(v) for name, v in value.items()}
    return list(value) if isinstance(value, tuple) else value


ENVELOPE = ("format", "version", "digest")


class FileFormat(FileModel):
    """A whole file. It names its format and version; a file of version 0.1 named both in one field of another name.

    Parameters
    ----------
    kind : str
        The name in the field ``format``.
    newest : int
        The version that is written; this and all earlier ones are read.
    legacy : str, default ""
        The field in which files of version 0.1 say that they are version 1.
    bare : bool, default False
        Whether a file may leave its format out, because people write it by hand.
    verified : tuple of str
        The fields that ``digest`` is made of; version 1 had none.
    """

    kind: ClassVar[str]
    newest: ClassVar[int]
    legacy: ClassVar[str] = ""
    bare: ClassVar[bool] = False
    verified: ClassVar[tuple[str, ...]] = ()

    format: str
    version: int

    def __init_subclass__(
        cls, kind: str = "", newest: int = 1, legacy: str = "", bare: bool = False, verified: tuple[str, ...] = ()
    ) -> None:
        cls.kind, cls.newest, cls.legacy, cls.bare, cls.verified = kind, newest, legacy, bare, verified

    @classmethod
    def stamp(cls) -> dict[str, Any]:
        """The first fields of a file that is written."""
        return {"format": cls.kind, "version": cls.newest}

    @classmethod
    def write(cls, file: str | Path, content: Mapping[str, Any], **style: Any) -> Path:
        """Write a file, whole or not at all; `style` is for `json.dumps`."""
        fields = {**cls.stamp(), **content}
        if cls.verified:
            fields["digest"] = cls._digest(fields)
        return write_text(file, json.dumps(fields, allow_nan=False, **style) + "\n")

    @classmethod
    def read(cls, file: str | Path, most: int = MOST_JSON) -> Self:
        """Read a file of at most so many bytes.

        Raises
        ------
        InputError
            Names the file, the field, the position and the value that are wrong.
        """
        return cls.of(read_json(Path(file), most), str(file))

    @classmethod
    def of(cls, content: Any, of: str) -> Self:
        """Check JSON: one object, its format, a version that is known, its fields, their digest."""
        held = object_of(content, of)
        made = validated(cls, cls.todays(cls._unstamped(held, of)), of)
        if cls.verified and held.get("digest") != cls._digest(held) and (made.version > 1 or "digest" in held):
            named = " or ".join(cls.verified)
            raise InputError(f"{of} is damaged: its {named} are not those that its digest was made of")
        return made

    @classmethod
    def todays(cls, content: dict[str, Any]) -> dict[str, Any]:
        """The fields of an earlier version as they are called today."""
        return content

    @classmethod
    def _digest(cls, fields: Mapping[str, Any]) -> str:
        parts = [fields[name] for name in cls.verified]
        return digest(parts if len(parts) > 1 else parts[0])

    @classmethod
    def _unstamped(cls, content: Mapping[str, Any], of: str) -> dict[str, Any]:
        """Check format and version; return the content with both as today's fields."""
        fields = dict(content)
        if not {"format", "version"} & set(fields) and (cls.legacy in fields or cls.bare):
            fields = {"format": cls.kind, "version": fields.pop(cls.legacy, 1), **fields}
        version = fields.get("version")
        known = isinstance(version, int) and not isinstance(version, bool) and 1 <= version <= cls.newest
        if fields.get("format") != cls.kind or not known:
            raise InputError(
                f"{of} has another format than {cls.kind} {cls.newest}, which this version reads: "
                f"format = {shown(fields.get('format'))}, version = {shown(version)}"
            )
        return fields


Model = TypeVar("Model", bound=BaseModel)


def object_of(content: Any, of: str) -> dict[str, Any]:
    """A JSON value that is an object."""
    if not isinstance(content, dict):
        raise InputError(f"{of} must hold one JSON object, not {shown(content)}")
    return content


def validated(schema: type[Model], content: Any, of: str) -> Model:
    """A schema's content; `InputError` with one sentence about the first thing that is wrong."""
    try:
        return schema.model_validate(object_of(content, of))
    except ValidationError as error:
        raise InputError(sentence(error, of, schema)) from None
    except RecursionError:
        raise InputError(f"{of} is nested too deeply") from None


# One sentence for what pydantic found ---------------------------------------------------------------------------

_TYPE_NAME = re.compile(
    r"(list|dict|tuple|function-[a-z]+|constrained-[a-z]+|literal)\[|(int|float|str|bool|none|fraction)$"
)

_EXPECTED = {
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": f"a whole number of at most {LARGEST}",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "mapping_type": "an object",
    "model_type": "an object",
    "none_required": "null",
    "fraction_parsing": "a fraction",
    "is_instance_of": "another type",
}


def sentence(error: ValidationError, of: str, schema: type[BaseModel] | None = None, root: tuple[str, ...] = ()) -> str:
    """Say the first error in one sentence: where, what was found, what is expected."""
    found: list[dict[str, Any]] = [{**e, "loc": (*root, *_place(e["loc"]))} for e in error.errors(include_url=False)]
    depth = len(root) + 1
    same = [e for e in found if e["loc"][:depth] == found[0]["loc"][:depth]]
    first = max(same, key=lambda e: len(e["loc"]))  # of a choice between types, the one that fits farthest
    *outer, last = first["loc"] or ("",)
    if first["type"] == "missing":
        return f"{of} lacks the field {where(first['loc'])!r}" if of else f"{where(first['loc'])} is missing"
    if first["type"] == "extra_forbidden":
        known = f"; it has {', '.join(sorted(schema.model_fields))}" if schema is not None and not outer else ""
        return f"{of} has a field {shown(last)}{f' in {where(outer)}' if outer else ''}{known}"
    place, expected = where(first["loc"]), [expectation(e) for e in same if e["loc"] == first["loc"]]
    said = f"{place} = {shown(first['input'])}" if place else shown(first["input"])
    return f"{of}: {said} {_either(expected)}" if of else f"{said} {_either(expected)}"


def _either(expected: list[str]) -> str:
    first, *others = dict.fromkeys(expected)
    return " or ".join([first, *(other.removeprefix("must be ") for other in others)])


def _place(location: Sequence[int | str]) -> tuple[int | str, ...]:
    """A location without the names of types that pydantic puts into it for a choice between types."""
    return tuple(part for part in location if isinstance(part, int) or not _TYPE_NAME.match(part))


def expectation(error: Mapping[str, Any]) -> str:
    """The value that one of pydantic's errors asks for, in words."""
    kind, limits = error["type"], error.get("ctx", {})
    if kind in _EXPECTED:
        return f"must be {_EXPECTED[kind]}"
    for name, words in (("ge", "at least"), ("gt", "above"), ("le", "at most"), ("lt", "below")):
        if (limit := limits.get(name)) is not None:
            return f"must be {words} {f'{limit:g}' if isinstance(limit, float) else limit}"
    if kind == "too_short":
        return f"must have at least {limits['min_length']} entr{'y' if limits['min_length'] == 1 else 'ies'}"
    if kind == "too_long" and limits["max_length"] == 0:
        return "must be empty"
    if kind == "string_pattern_mismatch":
        return f"must match {limits['pattern']}"
    if kind == "literal_error":
        return f"must be {limits['expected']}"
    if kind == "value_error":
        return str(limits.get("error", error["msg"]))
    return f"is refused: {error['msg']}"


def where(location: Any) -> str:
    """A place in a file, such as ``runs.ab12.windows[3]``."""
    made = ""
    for part in location:
        made += f"[{part}]" if isinstance(part, int) else f".{part}" if made else str(part)
    return made[:200]
