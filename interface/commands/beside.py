"""What an import writes beside its workload, and what the shell reads there unless the line says otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from keyshift.catalogue import FORMULATIONS
from keyshift.models import InputError


def priorities_beside(workload: Path) -> Path:
    """Where an import writes the priorities that its workload needs."""
    return workload.with_suffix(".priorities.yaml") if workload.suffix == ".json" else workload / "priorities.yaml"


def priorities_of(path: Path, name: str) -> dict[str, Any]:
    """The priorities that lie beside a workload, for a problem that has such measures."""
    from keyshift.models.files.yaml_text import read_yaml

    file, known = priorities_beside(path), getattr(FORMULATIONS[name].problem_class, "measures", ())
    if not file.is_file():
        return {}
    held = read_yaml(file)
    if not isinstance(held, list) or not all(isinstance(measure, str) for measure in held):
        raise InputError(f"{file}: there must be a list of measures, not {held!r:.60}")
    return {"priorities": held} if set(held) <= set(known) else {}
