"""Options as a command line gives them: read from texts, and checked by their annotations."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, get_args

from keyshift.models.base.guards import annotations_of, check_option
from keyshift.models.errors import InputError

_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?")
"""What stands on most lines: it needs no reader of YAML, whose import takes longer."""


def read_option(owner: Callable[..., Any], name: str, text: str) -> Any:
    """A parameter given as a text: YAML, or the text itself where the parameter may be one.

    Raises
    ------
    InputError
        With the option as it stands on the line, or the parameter and its value.
    """
    if len(text) > 100_000:  # a value this long is no option: YAML takes its time over it
        raise InputError(f"{flag(name)}: the value has {len(text):,} characters, at most 100,000 are read")
    try:
        if _NUMBER.fullmatch(text):
            value: Any = float(text) if "." in text else int(text)
        else:
            from keyshift.models.base.yaml_text import parse_yaml

            value = parse_yaml(text, flag(name))
    except InputError:
        value = text if _takes_text(owner, name) else None
        if value is None:
            raise InputError(f"{flag(name)} {text:.60}: not a readable value") from None
    try:
        return check_option(owner, name, value)
    except InputError:
        if not isinstance(value, str) and _takes_text(owner, name):
            return check_option(owner, name, text)
        raise


def _takes_text(owner: Callable[..., Any], name: str) -> bool:
    annotation = annotations_of(owner)[name]
    return str in (annotation, *get_args(annotation))


def flag(name: str) -> str:
    """A parameter's name on the command line."""
    return "--" + name.replace("_", "-")


def no_rules(of: Any, title: str) -> str:
    """That something takes no rules, and why, for messages."""
    why = getattr(of, "ruleless", "")
    return f"{title} takes no rules{': ' * bool(why)}{why}"


def refuse_missing(parameters: Mapping[str, inspect.Parameter], given: Collection[str], of: str) -> None:
    """Refuse a command line that lacks a parameter without default; `of` says what they belong to."""
    missing = [p.name for p in parameters.values() if p.default is inspect.Parameter.empty and p.name not in given]
    if missing:
        verb, them = ("are", "them") if len(missing) > 1 else ("is", "it")
        raise InputError(f"{' and '.join(map(flag, missing))} {verb} missing: {of} needs {them}")
