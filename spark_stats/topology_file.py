"""Topologies in files: the schema of the description.

`keyshift.spark_stats.topology` imports this module when a file or a dictionary is read, so that pydantic loads then
only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from keyshift.models.errors import InputError
from keyshift.models.files.yaml_text import read_yaml


def _as_text(value: Any) -> Any:
    """``cost: 2`` in YAML means the literal 2."""
    return repr(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _as_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


Name = Annotated[str, Field(min_length=1, max_length=1000)]
Expression = Annotated[str, BeforeValidator(_as_text), Field(min_length=1)]


class OperatorDescription(BaseModel):
    """One operator; the fields are those of `keyshift.spark_stats.Operator`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Name
    key: Expression
    filter: Expression | None = None
    cost: Expression = "1"
    state: Expression = "1"
    windows: Annotated[int, Field(ge=1, le=10**9)] = 1
    bytes: Expression | None = None
    log: Name | None = None


class TopologyDescription(BaseModel):
    """A topology; the fields are those of `keyshift.spark_stats.Topology`, less `trust`, which no file can set.

    `keys` and `transitions` are options of `keyshift stats` that may stand in the file.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    operators: list[OperatorDescription]
    edges: list[Annotated[list[Name], BeforeValidator(_as_list), Field(min_length=2, max_length=2)]] = []
    keys: list[Name] = []
    transitions: Annotated[float, Field(gt=0, le=1)] | None = None


def described(description: Any) -> dict[str, Any]:
    """Check a description; returns the operators and edges that `Topology` takes.

    Raises
    ------
    InputError
        With the operator, the field and what is wrong with it.
    """
    if not isinstance(description, dict):
        raise InputError(f"a topology is a mapping with operators and edges, not a {type(description).__name__}")
    present = {name: value for name, value in description.items() if value is not None}
    try:
        checked = TopologyDescription.model_validate({"operators": [], **present})
    except ValidationError as error:
        raise InputError(_sentence(error, description)) from None
    return checked.model_dump(exclude={"keys", "transitions"})


def wanted(path: Path) -> tuple[list[str], float | None]:
    """Further requests of a topology's file to `keyshift stats`: operators whose keys are written, and node counts."""
    description = read_yaml(path)
    described(description)
    return description.get("keys") or [], description.get("transitions")


def _sentence(error: ValidationError, description: Any) -> str:
    """The first thing that is wrong, in words."""
    first = error.errors(include_url=False, include_context=False)[0]
    at, kind, value = first["loc"], first["type"], first.get("input")
    if len(at) == 1 or at[0] != "operators":
        if kind == "extra_forbidden":
            return f"a topology has operators and edges, not {at[0]!r}"
        if at[0] == "transitions":
            return f"transitions = {_shown(value)} must be a target utilisation, above 0 and at most 1"
        if at[0] == "keys" and len(at) > 1:
            return f"keys[{at[1]}] = {_shown(value)} must be the name of an operator"
        if len(at) == 1:
            return f"{at[0]} must be a list"
        edge = description["edges"][at[1]] if isinstance(at[1], int) else value
        return f"edge {_shown(edge)} must be a pair of operator names"
    number = at[1]
    operator = description["operators"][number]
    if not isinstance(operator, dict):
        return f"operator {_shown(operator)} must be a mapping of its fields"
    what = f"operator {operator.get('name', number)!r}"
    field = str(at[2]) if len(at) > 2 else ""
    if kind == "extra_forbidden":
        return f"{what} has no field {field!r}; there are {', '.join(OperatorDescription.model_fields)}"
    if kind == "missing":
        return f"{what} has no {field}"
    return f"{what}: {field} = {_shown(value)}: {first['msg'][:1].lower()}{first['msg'][1:]}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:97] + "..."
