"""The reference pages have every public name."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from instances import MODULES
from public_surface import listed, public

import keyshift as ks
import keyshift.spark_stats

DOCS = Path(__file__).parents[2] / "docs"
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
    found = public().values()
    missing = []
    for c in (c for c in found if isinstance(c, type) and dataclasses.is_dataclass(c)):
        said = " ".join(base.__doc__ or "" for base in c.__mro__[:-1])
        missing += [f"{c.__name__}.{f.name}" for f in dataclasses.fields(c) if f.name[0] != "_" and f.name not in said]
    assert not missing


def test_every_public_name_is_on_a_reference_page():
    moved = {f"keyshift.{room}.{name}" for room, names in ks.ROOMS.items() for name in names}
    stats = {f"keyshift.spark_stats.{name}" for name in keyshift.spark_stats.__all__}
    missing = {*(f"keyshift.{name}" for name in ks.__all__), *moved, *stats} - {".".join(name) for name in listed()}
    assert not missing, f"docs/reference*.md lack {', '.join(missing)}"
