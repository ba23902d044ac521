"""The reference page has every public name."""

import re
from pathlib import Path

import pytest

import keyshift as ks
import keyshift.spark_stats

PAGE = Path(__file__).parents[2] / "docs" / "reference.md"
LISTED = set(re.findall(r"^\.\. auto\w+:: (?:[\w.]+\.)?(\w+)$", PAGE.read_text(), re.MULTILINE))


@pytest.mark.parametrize("package", [ks, keyshift.spark_stats])
def test_every_public_name_is_on_the_reference_page(package):
    missing = [name for name in package.__all__ if name not in LISTED]
    assert not missing, f"docs/reference.md lacks {', '.join(missing)}"
