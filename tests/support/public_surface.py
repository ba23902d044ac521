"""What people outside script against, as data - what docs/stability.md promises.

Public names with their signatures, names and options that are retired, methods, commands and their options.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SNAPSHOTS = Path(__file__).parents[1] / "snapshots"
RELEASED = SNAPSHOTS / "public_surface_0_1.json"
NOW = SNAPSHOTS / "public_surface.json"
PAGES = (*sorted((SNAPSHOTS.parents[1] / "docs").glob("reference*.md")), SNAPSHOTS.parents[1] / "docs" / "rules.md")
"""The pages on which every public name stands."""


def surface() -> dict[str, Any]:
    """The public surface: no annotations, since those name types by wherever they stand today."""
    return {"names": _names(), "retired": retired(), "methods": _methods(), "commands": _commands()}


def retired() -> dict[str, str]:
    """What is retired, and what to write instead: names of the package, options of commands."""
    import keyshift
    from keyshift.cli import RETIRED

    return {
        **{f"keyshift.{name}": instead for name, (instead, _) in sorted(keyshift.RETIRED.items())},
        **{f"keyshift {command} {old}": new for (command, old), new in sorted(RETIRED.items())},
    }


def public() -> dict[str, Any]:
    """Everything public by its full name: the package's own names, and what else a reference page has."""
    import keyshift

    names = [("keyshift", name) for name in keyshift.__all__]
    return {f"{within}.{name}": getattr(importlib.import_module(within), name) for within, name in [*names, *listed()]}


def listed() -> Iterator[tuple[str, str]]:
    """What the reference pages list, each with the module that it is in."""
    for page in PAGES:
        module = ""
        for kind, name in re.findall(
            r"^\.\. (currentmodule|auto(?!module)\w+):: ([\w.]+)$", page.read_text(), re.MULTILINE
        ):
            if kind == "currentmodule":
                module = name
            else:
                within, _, last = name.rpartition(".")
                yield within or module, last


def _names() -> dict[str, Any]:
    return {name: _described(value) for name, value in sorted(public().items())}


def _described(value: Any) -> Any:
    if not inspect.isclass(value):
        return _parameters(value) if callable(value) else type(value).__name__
    members = {
        name: member
        for name, member in inspect.getmembers(value)
        if not name.startswith("_") and (getattr(member, "__module__", "") or "").startswith("keyshift")
    }
    members |= {
        n: m
        for n, m in inspect.getmembers(value)
        if isinstance(m, property | functools.cached_property) and n[0] != "_"
    }
    described = {name: _parameters(member) if callable(member) else "property" for name, member in members.items()}
    return {"()": _parameters(value), **dict(sorted(described.items()))}


def _parameters(function: Any) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # an exception's own signature
        return []
    return [
        str(p.replace(annotation=inspect.Parameter.empty)) if _plain(p.default) else f"{p.name}=..." for p in parameters
    ]


def _plain(default: Any) -> bool:
    return (
        default is inspect.Parameter.empty or default is None or isinstance(default, bool | int | float | str | tuple)
    )


def _methods() -> dict[str, Any]:
    from keyshift.catalogue import FORMULATIONS

    return {
        f.name: {m.name: [m.kind, *(f"{k}={v!r}" for k, v in m.options.items())] for m in f.methods}
        for f in FORMULATIONS.values()
    }


def _commands() -> dict[str, list[str]]:
    import typer

    from keyshift.cli import application

    return {
        name: [
            " ".join(p.opts + p.secondary_opts) if p.param_type_name == "option" else p.metavar or p.name.upper()
            for p in command.params
        ]
        for name, command in _named_commands(typer.main.get_command(application()))
    }


def _named_commands(group: Any, before: str = "") -> list[tuple[str, Any]]:
    """All commands; those of a group have its name before theirs."""
    found = []
    for name, command in sorted(group.commands.items()):
        inner = hasattr(command, "commands")
        found += _named_commands(command, f"{before}{name} ") if inner else [(f"{before}{name}", command)]
    return found


def write(path: Path) -> None:
    """Write the surface as it is now."""
    path.write_text(json.dumps(surface(), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else NOW)
