"""Rows of CSV files as texts, inside Spark's tasks: plain Arrow, shipped to executors like `keyshift.spark_stats.tallies`.

Fields are quoted as RFC 4180 says and pandas writes: a quote within quotes is doubled, and line breaks may stand there. Every
field is the text that stands in the file. A row that has another number of fields than the file's header, or bytes that are no
text, is malformed: it is kept, with what stands there.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

REPLACED = "\ufffd"
"""What stands for bytes that the encoding does not have."""
HEAD = 2**20
"""Bytes at the beginning of a file in which its header ends."""
LAST = "\ue000keyshift: the last row\ue000"
"""A row put behind those of a file: if it is not found there, a quotation does not end."""
MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


@dataclass(frozen=True)
class Dialect:
    """How the files are written; `null_word`: a field that is this, quoted or not, has no value."""

    separator: str = ","
    null_word: str = ""
    encoding: str | None = None
    header: bool = True
    escape: str | None = None

    def text(self, content: bytes, *, cut: bool = False) -> str:
        """Decode what a file has; `cut`: the last letter may be torn."""
        decoder = codecs.getincrementaldecoder(self.encoding_of(content))(errors="replace")
        return decoder.decode(content, final=not cut).removeprefix("\ufeff")

    def encoding_of(self, content: bytes) -> str:
        """The encoding that was given, or the one that a byte order mark tells, or UTF-8."""
        return self.encoding or next((name for mark, name in MARKS if content.startswith(mark)), "utf-8")

    def names(self, text: str) -> list[str]:
        """The names of the columns, from the beginning of a file; one that is empty or twice there gets a number, as in Spark.

        Raises
        ------
        ValueError
            There is no first row, or it cannot be read.
        """
        reader = csv.reader(
            io.StringIO(text, newline=""), delimiter=self.separator, escapechar=self.escape, strict=False
        )
        try:
            first = next(filter(None, reader), [])
        except csv.Error as error:
            raise ValueError(f"the header of a CSV file cannot be read ({error})") from None
        if not self.header:
            return [f"_c{i}" for i in range(len(first))]
        twice = {name.lower() for i, name in enumerate(first) if name.lower() in map(str.lower, first[:i])}
        return [
            f"_c{i}" if not name else f"{name}{i}" if name.lower() in twice else name for i, name in enumerate(first)
        ]


@dataclass(frozen=True)
class RowPlan:
    """What `rows` is to give: the columns by name, then one for malformed rows, then what Spark itself says of a file.

    `names`: those of the files' own columns, where the rows come line by line; else each row is a whole file, with its header.
    """

    dialect: Dialect
    columns: tuple[str, ...]
    corrupt: str
    further: tuple[str, ...] = ()
    names: Sequence[str] | None = None


def rows(batches: Iterable[pa.RecordBatch], plan: RowPlan) -> Iterator[pa.RecordBatch]:
    """Parse batches of whole files, or of lines, in the column `value`."""
    for batch in batches:
        values = batch.column("value").cast(pa.binary())
        further = [batch.column(name) for name in plan.further]
        for first, end in (
            _runs(batch.num_rows, further) if plan.names is not None else ((i, i + 1) for i in range(len(values)))
        ):
            if plan.names is None:
                content = values[first].as_py()
            else:
                lines = pa.ListArray.from_arrays(
                    pa.array([0, end - first], pa.int32()), values.slice(first, end - first)
                )
                content = pc.binary_join(lines, b"\n")[0].as_py() + b"\n"
            constants = [column[first] for column in further]
            # Rows in one batch.
            for part in parsed(content, plan).to_batches(100_000):
                alike = [pa.repeat(constant, part.num_rows) for constant in constants]
                named = [*plan.columns, plan.corrupt, *plan.further]
                yield pa.RecordBatch.from_arrays([*part.columns, *alike], names=named)


def _runs(count: int, columns: list[pa.Array]) -> Iterator[tuple[int, int]]:
    """First and end of neighbouring rows that are alike in all columns."""
    ends = {count} - {0}
    for column in columns:
        ends.update(pc.run_end_encode(column).run_ends.to_pylist())
    return pairwise([0, *sorted(ends)])


def parsed(content: bytes, plan: RowPlan) -> pa.Table:
    """The columns of the plan, and that of malformed rows, of a file or of some of its lines."""
    dialect, names = plan.dialect, plan.names
    encoding, safe = dialect.encoding_of(content), True
    if encoding not in ("utf-8", "utf-8-sig"):
        text = dialect.text(content)
        content, safe = text.encode(), REPLACED not in text
    content = _with_one_line_end(content.removeprefix(codecs.BOM_UTF8), dialect.escape)
    if names is None:
        names = dialect.names(content[:HEAD].decode(errors="replace"))
    bad: list[str] = []
    found = _table(content, names, dialect, bad)
    if found is None:  # bytes that are no text
        content, safe = content.decode("utf-8", "replace").encode(), False
        found = _table(content, names, dialect, bad)
    assert found is not None, "what was replaced is text"
    if plan.names is None and dialect.header:
        found = found.slice(1)
    if not safe or b"\0" in content or len(names) == 1:
        found = _without_bad(found, bad, blank=len(names) == 1)
    return _placed(found, names, plan, bad)


def _with_one_line_end(content: bytes, escape: str | None) -> bytes:
    """Where both line feeds and carriage returns alone end lines, the rarer of them is in a field that is not quoted: no text."""
    if b"\r" not in content.replace(b"\r\n", b""):
        return content
    plain = content if escape is None else re.sub(re.escape(escape.encode()) + b".", b"..", content, flags=re.DOTALL)
    signs = np.frombuffer(plain, np.uint8)
    quotes, feeds, returns = (np.flatnonzero(signs == ord(sign)) for sign in '"\n\r')
    feeds, returns = (at[np.searchsorted(quotes, at) % 2 == 0] for at in (feeds, returns))
    alone, lines = returns[~np.isin(returns + 1, feeds)], feeds[~np.isin(feeds - 1, returns)]
    if not alone.size or not feeds.size:
        return content
    made = np.frombuffer(content, np.uint8).copy()
    made[lines if lines.size == feeds.size < alone.size else alone] = 0
    return made.tobytes()


def _table(content: bytes, names: Sequence[str], dialect: Dialect, bad: list[str]) -> pa.Table | None:
    """All fields as texts; None where bytes are no text. Rows of another length go to `bad`."""

    def skip(row: Any) -> str:
        bad.append(row.text or "")
        return "skip"

    numbers = [str(i) for i in range(len(names))]
    if not content.strip(b"\r\n") or not names:
        return pa.table({number: pa.array([], pa.string()) for number in numbers})
    before, content = len(bad), content + f"\n{dialect.separator.join([LAST] * len(names))}\n".encode()
    try:
        found = arrow_csv.read_csv(
            pa.BufferReader(content),
            arrow_csv.ReadOptions(use_threads=False, block_size=len(content) + 2, column_names=numbers),
            arrow_csv.ParseOptions(
                delimiter=dialect.separator,
                escape_char=dialect.escape or False,
                newlines_in_values=True,
                invalid_row_handler=skip,
            ),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(numbers, pa.string()),
                null_values=[dialect.null_word],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )
    except pa.ArrowInvalid as error:
        del bad[before:]
        if "UTF8" in str(error):
            return None
        raise ValueError(f"a CSV file cannot be read: {str(error).splitlines()[0]}") from None
    lost = next((text for text in bad[before:] if LAST in text), None)
    if lost is None:
        last = [str(value) for value in found.slice(found.num_rows - 1).to_pylist()[0].values()]
        found = found.slice(0, found.num_rows - 1)
        if last[0] == LAST:
            return found
        lost = dialect.separator.join(last)
        bad.append(lost)
    kept = lost.partition(LAST)[0].rstrip("\r\n")
    if "\n" in kept or "\r" in kept:
        raise ValueError(f"a quotation in a CSV file does not end; it begins with {kept.splitlines()[0][:60]!r}")
    bad[bad.index(lost)] = kept
    return found


def _without_bad(found: pa.Table, bad: list[str], *, blank: bool) -> pa.Table:
    """The rows whose fields are texts; the others go to `bad`. `blank`: of one column, a line of blanks is no row for pandas."""
    wrong: Any = pa.repeat(False, found.num_rows)
    for column in found.columns:
        for sign in (REPLACED, "\0"):
            wrong = pc.or_(wrong, pc.fill_null(pc.match_substring(column, sign), False))
        if blank:
            wrong = pc.or_(wrong, pc.fill_null(pc.match_substring_regex(column, r"^[ \t]+$"), False))
    bad += [str(list(row.values())) for row in found.filter(wrong).to_pylist()]
    return found.filter(pc.invert(wrong))


def _placed(found: pa.Table, names: Sequence[str], plan: RowPlan, bad: list[str]) -> pa.Table:
    """The columns where the plan has them, by name; then the malformed rows."""
    known = {**{name.lower(): i for i, name in reversed(list(enumerate(names)))}, **{n: i for i, n in enumerate(names)}}
    at = [known.get(name, known.get(name.lower())) for name in plan.columns]
    nothing = pa.nulls(found.num_rows, pa.string())
    columns = [nothing if i is None else found.column(i) for i in at]
    good = pa.table([*columns, nothing], names=[*plan.columns, plan.corrupt])
    if not bad:
        return good
    empty = pa.nulls(len(bad), pa.string())
    return pa.concat_tables([good, pa.table([*[empty] * len(columns), pa.array(bad)], names=good.column_names)])
