"""The reference pages have every public name."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from instances import MODULES

import keyshift as ks
import keyshift.spark_stats

DOCS = Path(__file__).parents[2] / "docs"
PAGES = "\n".join(page.read_text() for page in DOCS.glob("reference*.md"))
LISTED = set(re.findall(r"^\.\. auto\w+:: (?:[\w.]+\.)?(\w+)$", PAGES, re.MULTILINE))
CONVENTIONS = (DOCS / "conventions.md").read_text()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.NAME)
def test_every_metric_and_detail_is_explained(module):
    rng = np.random.default_rng(0)
    answers = (ks.solve(module.random_problem(rng, 6, 2), time_limit=2) for _ in range(50))
    answer = next(answer for answer in answers if answer.assignment is not None)
    missing = [name for name in {**answer.metrics, **answer.details} if f"`{name}`" not in CONVENTIONS]
    assert answer.metrics
    assert not missing, f"docs/conventions.md does not say what {', '.join(missing)} is"


def test_every_field_of_a_public_class_is_explained():
    public = [getattr(package, name) for package in (ks, keyshift.spark_stats) for name in package.__all__]
    missing = []
    for c in (c for c in public if isinstance(c, type) and dataclasses.is_dataclass(c)):
        said = " ".join(base.__doc__ or "" for base in c.__mro__[:-1])
        missing += [f"{c.__name__}.{f.name}" for f in dataclasses.fields(c) if f.name[0] != "_" and f.name not in said]
    assert not missing


@pytest.mark.parametrize("package", [ks, keyshift.spark_stats])
def test_every_public_name_is_on_a_reference_page(package):
    missing = [name for name in package.__all__ if name not in LISTED]
    assert not missing, f"docs/reference*.md lack {', '.join(missing)}"
