"""How many code lines each room has: recount the table of the house's page, whose last column says what they buy.

    python benchmarks/house.py [--check]

A code line holds code: blank lines, comments and docstrings do not count. A room is a folder of a floor; files beside the folders are
the floor's own. With `--check` nothing is written: it says which rooms differ, or have no words, and ends with 1.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "benchmarks" / "results" / "0.4.0" / "house.md"
FLOORS = ("interface", "models", "solvers", "heuristics", "spark_stats")
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
TABLE = re.compile(r"^\| room \|.*\n(?:\|.*\n)+", re.MULTILINE)
ROW = re.compile(r"^\| (?P<room>[a-z_/]+) \| [0-9,]* \| (?P<words>.+) \|$", re.MULTILINE)


def code_lines(text: str) -> int:
    """Lines with code on them; a text that stands alone is a docstring."""
    used: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            used.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            used.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(used)


def rooms() -> Counter[str]:
    """Code lines by room."""
    counts: Counter[str] = Counter()
    for floor in FLOORS:
        for path in (ROOT / floor).rglob("*.py"):
            inside = path.relative_to(ROOT).parts
            counts["/".join(inside[:2]) if len(inside) > 2 else floor] += code_lines(path.read_text())
    return counts


def table(counts: Counter[str], words: dict[str, str]) -> str:
    """Rooms with code, floor by floor, the largest first."""
    ordered = sorted(+counts, key=lambda room: (FLOORS.index(room.split("/")[0]), "/" in room, -counts[room]))
    lines = ["| room | code lines | what it buys |", "|---|--:|---|"]
    lines += [f"| {room} | {counts[room]:,} | {words.get(room, '')} |" for room in ordered]
    return "\n".join([*lines, f"| all | {counts.total():,} | what keyshift does |\n"])


def words_of(page: str) -> dict[str, str]:
    """What the page says that each room buys."""
    return {found["room"]: found["words"].strip() for found in ROW.finditer(page)}


def main() -> int:
    page, counts = PAGE.read_text(), rooms()
    words = words_of(page)
    new = TABLE.sub(table(counts, words).replace("\\", r"\\"), page)
    silent = [room for room in +counts if not words.get(room)]
    if "--check" in sys.argv[1:]:
        changed = set(new.splitlines()) - set(page.splitlines())
        print("\n".join([*sorted(changed), *(f"{room}: say what it buys" for room in silent)]) or "as on the page")
        return bool(changed or silent)
    PAGE.write_text(new)
    print(
        f"{counts.total():,} code lines in {len(+counts)} rooms", *(f"{room} has no words" for room in silent), sep="\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
