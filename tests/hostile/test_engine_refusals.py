"""Every malformed input in an engine's format ends in exit code 2 and one sentence, and the documentation says which."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostile import engines

PAGE = Path(__file__).parents[2] / "docs" / "engines" / "refusals.md"


@pytest.mark.slow
def test_the_documentation_has_every_refusal():
    table = engines.table()
    rows = table.splitlines()[2:]
    assert len(rows) >= 40
    assert [row for row in rows if " | 2 | " not in row] == []
    assert PAGE.read_text().endswith("\n\n" + table), "PYTHONPATH=tests python -m hostile.engines renews the page"


def test_every_case_has_a_name_of_its_own():
    names = [(case.kind, case.name) for case in engines.cases()]
    assert len(set(names)) == len(names)
