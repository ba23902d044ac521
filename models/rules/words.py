"""The words of a rule: values between blanks, several with commas between them, or labels of columns behind equals signs.

What stands there stays text. A value that begins with a quote, ``'`` or ``"``, ends with the same one and may hold anything,
the quote itself doubled: ``pinned 't-0 [1,2]',"it's"``. Elsewhere a quote is a letter like others, and so is a bracket:
``never topic=orders [::1]:7001``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from keyshift.models.errors import InputError

_QUOTED = r"""'(?:[^']|'')*'|"(?:[^"]|"")*\""""
_PART = re.compile(rf"""(?:(?P<column>{_QUOTED}|[^\s,='"][^\s,=]*)=)?(?P<value>{_QUOTED}|[^\s,'"][^\s,]*|)""")
_FIELD = re.compile(r"(\w+)=")
_BLANKS = re.compile(r"\s*")


def split_words(text: str, fields: Collection[str], said: str) -> Iterator[tuple[str, Any]]:
    """The words of a text: the field that each names, "" for none; and its value.

    A value is a text, a tuple of texts, or a mapping of columns to labels.

    Raises
    ------
    InputError
        For a quote that does not end where a value ends.
    """
    at = _end(_BLANKS, text, 0)
    while at < len(text):
        named = _FIELD.match(text, at)
        field = named[1] if named and named[1] in fields else ""
        at += len(field) + bool(field)
        parts: list[tuple[str, str]] = []
        while True:
            found = _PART.match(text, at)
            assert found is not None  # a value may be empty
            if found[0]:
                parts.append((found["column"] or "", found["value"]))
            at = found.end()
            if text[at : at + 1] != ",":
                break
            at += 1
        if at < len(text) and not text[at].isspace():
            raise InputError(f"{said}: a quote begins or ends within a value at {text[at:]!r:.40}; double it there")
        yield field, _value(parts, len(parts) > 1 or text[at - 1] == ",")
        at = _end(_BLANKS, text, at)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()


def _value(parts: list[tuple[str, str]], several: bool) -> Any:
    """A text, several, or labels of columns: a part without a column is of the one before."""
    texts = [(_plain(column), _plain(value)) for column, value in parts]
    if not any(column for column, _ in parts):
        return tuple(value for _, value in texts) if several or not texts else texts[0][1]
    made: dict[str, list[str]] = {}
    last = ""
    for column, value in texts:
        last = column or last
        made.setdefault(last, []).append(value)
    return {column: found[0] if len(found) == 1 else tuple(found) for column, found in made.items()}


def _plain(text: str) -> str:
    quote = text[:1]
    return text[1:-1].replace(2 * quote, quote) if quote in ("'", '"') else text
