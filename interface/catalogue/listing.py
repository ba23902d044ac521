"""The catalogue as rows and as a page: what `keyshift methods` prints and docs/methods.md shows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from keyshift.catalogue.method import Formulation, Method

COLUMNS = ("method", "kind", "certain", "for", "options", "source", "code", "lesson")


def as_row(formulation: Formulation, method: Method) -> dict[str, Any]:
    """All that the catalogue says of a method."""
    return {
        "problem": formulation.name,
        "method": method.name,
        "kind": method.kind,
        "guarantee": method.guarantee,
        "limits": method.limits,
        "options": {name: repr(default) for name, default in method.options.items()},
        "source": method.source,
        "code": place(method.code),
        "lesson": method.lesson or formulation.lesson,
    }


def place(code: str) -> str:
    """Where in the repository ``"module:attribute"`` stands."""
    module, _, attribute = code.partition(":")
    inside = module.removeprefix("keyshift.")
    floors = ("models", "solvers", "heuristics", "spark_stats")
    folder = "" if inside.partition(".")[0] in floors else "interface/"
    return f"{folder}{inside.replace('.', '/')}.py: {attribute}"


def as_markdown(formulations: Iterable[Formulation]) -> str:
    """One heading and one table for each problem."""
    lines = []
    for formulation in formulations:
        lines += [f"## {formulation.name}", "", formulation.summary, ""]
        lines += [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
        lines += [_table_row(as_row(formulation, method)) for method in formulation.methods]
        lines.append("")
    return "\n".join(lines)


def _table_row(row: dict[str, Any]) -> str:
    options = ", ".join(f"`{name}`" for name in row["options"]) or "-"
    lesson = f"[{row['lesson'].rpartition('/')[2]}]({row['lesson']}.md)"
    cells = [f"`{row['method']}`", row["kind"], row["guarantee"], row["limits"] or "-"]
    cells += [options, row["source"], f"`{row['code']}`", lesson]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
