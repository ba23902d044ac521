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
