"""What an import writes beside a workload: the rules that it needs, which hold unless the line says otherwise."""

from __future__ import annotations

import inspect
from pathlib import Path

from keyshift.catalogue import FORMULATIONS


def rules_beside(workload: Path) -> Path:
    """Where the rules of a workload lie."""
    return workload.with_suffix(".rules.yaml") if workload.suffix == ".json" else workload / "rules.yaml"


def with_rules_beside(path: Path, problem: str, line: list[str]) -> list[str]:
    """The rest of a line with the rules that lie beside the workload, unless ``--rules`` names others."""
    if problem not in FORMULATIONS or any(token.partition("=")[0] == "--rules" for token in line):
        return line
    file, known = rules_beside(path), inspect.signature(FORMULATIONS[problem].problem_class).parameters
    return [*line, "--rules", str(file)] if "rules" in known and file.is_file() else line
