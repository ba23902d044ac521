"""Tuning numbers in force: the defaults of each search and bound, or what `solve` was handed in their stead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Self

from keyshift.models.errors import InputError


class Settings:
    """Tuning numbers of one search or bound: its dataclass documents them, ``solve(..., settings=[...])`` hands others in."""

    @classmethod
    def now(cls) -> Self:
        """Those in force."""
        return _IN_FORCE.get().get(cls) or cls()  # type: ignore[return-value]


_IN_FORCE: ContextVar[dict[type, Settings]] = ContextVar("settings", default={})  # noqa: B039 - never changed


@contextmanager
def in_force(settings: Iterable[Settings]) -> Iterator[None]:
    """Let these stand for the defaults of their classes."""
    given = list(settings)
    for one in given:
        if not isinstance(one, Settings):
            raise InputError(f"settings holds {one!r}: there are the classes that the page of settings lists")
    token = _IN_FORCE.set(_IN_FORCE.get() | {type(one): one for one in given})
    try:
        yield
    finally:
        _IN_FORCE.reset(token)


# How far below a solver's word a bound has to lie to be safe: one number for each solver that works in floats ----------

HIGHS_DOUBT = 2e-7
"""HiGHS proves its bounds within tolerances of its units, near 1 in rows (`solvers.scaling.in_units`): rows and integrality
within 1e-8, reduced costs within 1e-7. This share of the objective's size - of its largest coefficient, or of the bound
itself (`solvers.highs`) - is taken off, and once more of a load where a statement's rows are coarser than its objective."""
SCIP_DOUBT = 4e-7
"""SCIP keeps rows within 1e-9 here, and bounds sums of squares within tolerances of its own: this share of a statement's
scale is taken off."""
