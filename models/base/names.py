"""Names of nodes, key groups and labels: the one place that resolves a name to a position.

A node, or a key group, is called what is printed for it: the text of its label, or of its number where there are no labels.
A name that is given - a text, or a number, which stands for its own text - means the one that is called exactly so: "02" is not
2, and "1_2" is not 12. A number is a position only where there are no labels.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyshift.models.errors import InputError

Label = int | str

_HALF = re.compile("[\ud800-\udfff]")


SYMBOLS = str.maketrans("[],", "();")
"""A label stands between brackets and commas in the name of a variable."""


class Names:
    """The names of some nodes, or of some key groups, at their positions.

    Parameters
    ----------
    what : str
        Such as "node", for messages.
    labels : sequence of str or int, optional
        No two print alike. None: each is called by its number.
    size : int
        How many there are. Those beyond the labels are new: "new 1", "new 2" and so on, or the next such name that is free.
    """

    def __init__(self, what: str, labels: Sequence[Label] | None, size: int) -> None:
        self.what, self.labels, self.size, self._new = what, labels, size, list[str]()

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, place: int | np.integer) -> Label:
        position = int(place)
        if self.labels is None:
            return position
        known = len(self.labels)
        if position >= known:
            while len(self._new) <= position - known:
                self._new = fresh(self.labels, 2 * (position - known) + 1)
            return self._new[position - known]
        return self.labels[position]

    def __iter__(self) -> Iterator[Label]:
        return (self[i] for i in range(self.size))

    def grown(self, size: int) -> Names:
        """The same names, and those of new ones up to a size."""
        return self if size == self.size else Names(self.what, self.labels, size)

    @cached_property
    def _known(self) -> dict[str, int]:
        return {printed(name): i for i, name in enumerate(self)}

    def find(self, given: Any) -> int | None:
        """The position of a name; None if there is no such name."""
        text = printed(given)
        if self.labels is not None:
            return self._known.get(text)
        number = int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else self.size
        return number if number < self.size and str(number) == text else None

    @cached_property
    def symbols(self) -> list[str]:
        """Texts for a model's variables: the labels without what ends a name there; k0 or n0 and so on without labels."""
        numbers = [f"{self.what[0]}{i}" for i in range(self.size)]
        if self.labels is None:
            return numbers
        own = [re.sub(r"\s", "_", printed(name)).translate(SYMBOLS) for name in self]
        return own if len(set(own)) == self.size else numbers

    def position(self, said: str, given: Any) -> int:
        """The same, or `InputError` that begins with `said`."""
        found = self.find(given)
        if found is None:
            few = [self[i] for i in range(min(self.size, 6))]
            there = f"0 to {self.size - 1}" if self.labels is None else shortened(few, of=self.size)
            raise InputError(f"{said}: {self.what} {given!r:.60} is not known; there is {there}")
        return found

    def values(self, said: str, given: Mapping[Any, Any], rest: Any) -> NDArray[Any]:
        """A value for each, from a mapping of names; the others have `rest`."""
        by_text(said, given)
        full = np.full(self.size, rest, dtype=object)
        for name, value in given.items():
            full[self.position(said, name)] = value
        return full


def printed(name: Any) -> str:
    """The text of a name, by which it is compared with others."""
    if isinstance(name, int) and name.bit_length() > 2**13:  # Python prints no number that is much longer
        raise InputError(f"a number of {int(name.bit_length() * 0.30103) + 1} digits names nothing")
    return str(name)


def fresh(taken: Iterable[object], count: int) -> list[str]:
    """Names for new ones, none of which is taken: "new 1", "new 2" and so on."""
    used, made, number = set(map(printed, taken)), list[str](), 1
    while len(made) < count:
        if (name := f"new {number}") not in used:
            made.append(name)
        number += 1
    return made


def shortened(labels: Sequence[object], most: int = 5, of: int | None = None) -> str:
    """The first few of many labels, for a message; `of` is how many there are in all, where not all are given."""
    size = len(labels) if of is None else of
    said = ", ".join(f"{label!r:.40}" for label in labels[:most])
    return said if size <= most else f"{said} ... ({size} in all)"


def by_text(said: str, given: Iterable[Any]) -> list[str]:
    """The texts of names, of which no two may print alike."""
    seen: dict[str, Any] = {}
    for name in given:
        if (other := seen.setdefault(printed(name), name)) is not name:
            raise InputError(f"{said} has {name!r:.60} and {other!r:.60}, which print alike")
    return list(seen)


def unique_labels(name: str, values: Sequence[Label], *, length: int, of: str = "key groups") -> tuple[Label, ...]:
    """Labels for nodes or key groups, of which no two print alike: texts and whole numbers, of anything else its text."""
    made = tuple(map(_label, values))
    expect_length(name, len(made), length, of)
    seen: dict[str, int] = {}
    for position, label in enumerate(made):
        _refuse_half(f"{name}[{position}]", label)
        if (first := seen.setdefault(printed(label), position)) != position:
            alike = "is a duplicate of" if type(label) is type(made[first]) else "prints like"
            raise InputError(f"{name}[{position}] = {label!r} {alike} {name}[{first}]")
    return made


def label_columns(
    name: str, values: Mapping[str, Sequence[Label] | Mapping[Any, Label]], names: Names
) -> Mapping[str, tuple[Label, ...]]:
    """A read-only mapping of columns of labels, which may repeat: all of a column whole numbers, or all texts.

    A column is in the order of those that have `names`, or a mapping of their names to labels.
    """
    if not isinstance(values, Mapping):
        raise InputError(f"{name} must map names to labels, not be a {type(values).__name__}")
    made: dict[str, tuple[Label, ...]] = {}
    for column, given in zip(by_text(name, values), values.values(), strict=True):
        said = f"{name}[{column!r:.60}]"
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise InputError(f"{said} must be a list of labels, one for each of the {names.what}s")
        listed = names.values(said, given, None) if isinstance(given, Mapping) else given
        found = tuple(v.item() if isinstance(v, np.generic) else v for v in listed)
        expect_length(said, len(found), names.size, f"{names.what}s")
        for position, label in enumerate(found):
            if isinstance(label, bool) or not isinstance(label, str | int):
                raise InputError(f"{said}[{position}] = {label!r:.60} must be a text or a whole number")
            _refuse_half(f"{said}[{position}]", label)
        numbers = all(isinstance(label, int) and abs(label) < 2**63 for label in found)
        made[column] = found if numbers else tuple(map(printed, found))
    return MappingProxyType(made)


def _label(given: Any) -> Label:
    value = given.item() if isinstance(given, np.generic) else given
    return value if isinstance(value, str | int) and not isinstance(value, bool) else str(value)


def _refuse_half(said: str, label: Hashable) -> None:
    if isinstance(label, str) and not label.isascii() and _HALF.search(label):
        raise InputError(f"{said} = {label!r:.60} holds half of a character")


def expect_length(name: str, found: int, expected: int | None, of: str) -> None:
    """Refuse another number of entries than one for each of something; None: any number will do."""
    if expected is not None and found != expected:
        raise InputError(f"{name} has {found} entries, expected {expected}: one for each of the {of}")


def flagged(what: str, given: Any, names: Names) -> Any:
    """Flags as they are; of names in a set, in a list with a text, or in a mapping of names to flags, a flag for each name."""
    if isinstance(given, set | frozenset) or (
        isinstance(given, list | tuple | np.ndarray) and any(isinstance(name, str) for name in given)
    ):
        given = dict.fromkeys(given, True)
    return names.values(what, given, False).tolist() if isinstance(given, Mapping) else given
