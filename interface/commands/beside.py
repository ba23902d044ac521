"""What an import writes beside its workload, and what the shell reads there unless the line says otherwise."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from keyshift.catalogue import FORMULATIONS
from keyshift.models import InputError


def beside(workload: Path, what: str) -> Path:
    """Where an import writes the `rules` or the `priorities` that its workload needs."""
    return workload.with_suffix(f".{what}.yaml") if workload.suffix == ".json" else workload / f"{what}.yaml"


def with_rules_beside(path: Path, problem: str, line: list[str]) -> list[str]:
    """The rest of a line with the rules that lie beside the workload, unless ``--rules`` names others."""
    if problem not in FORMULATIONS or any(token.partition("=")[0] == "--rules" for token in line):
        return line
    file, known = beside(path, "rules"), inspect.signature(FORMULATIONS[problem].problem_class).parameters
    return [*line, "--rules", str(file)] if "rules" in known and file.is_file() else line


def priorities_of(path: Path, name: str) -> dict[str, Any]:
    """The priorities that lie beside a workload, for a problem that has such measures."""
    from keyshift.models.files.yaml_text import read_yaml

    file, known = beside(path, "priorities"), getattr(FORMULATIONS[name].problem_class, "measures", ())
    if not file.is_file():
        return {}
    held = read_yaml(file)
    if not isinstance(held, list) or not all(isinstance(measure, str) for measure in held):
        raise InputError(f"{file}: there must be a list of measures, not {held!r:.60}")
    return {"priorities": held} if set(held) <= set(known) else {}
