"""CSV logs: columns by the header of each file, every field as the text that stands there, a type only if a schema gives it.

Spark's own reader takes columns by position, and cannot tell a quoted line break from the end of a row unless it reads each file
in one task, by rules of its own. So Spark lists, decompresses and splits the files, and plain Arrow parses them in its tasks:
small files whole, large ones line by line where no row is longer than its line.

Fields are quoted as RFC 4180 says and pandas writes: a quote within quotes is doubled, and line breaks may stand there. Every
field is the text that stands in the file. A row that has another number of fields than the file's header, or bytes that are no
text, is malformed: it is kept, with what stands there.
"""

from __future__ import annotations

import codecs
import csv
import gc
import io
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial, reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keyshift.models.errors import InputError, refusing
from keyshift.spark_stats.acceptance import AS_WRITTEN, NOT_NUMBERS, quoted
from keyshift.spark_stats.session import workers_python

# Executors need PyArrow, not keyshift: the functions travel with the job.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SMALL, LARGEST = 8 * 2**20, 2**29
"""Bytes of a file that one task takes whole anyway, and of one that it can take whole at all."""
BY_BYTES = ("utf-8", "ascii", "iso8859", "cp125", "koi8", "mac")
"""Encodings in which the byte of a line end, or of a quote, is nothing else."""
PATH = "_metadata.file_path"
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


def dialect_of(kind: str, **written: Any) -> Dialect:
    """Check how CSV files are said to be written; what is None is as usual."""
    written = {name: value for name, value in written.items() if value is not None}
    if written and kind != "csv":
        raise InputError(f"{next(iter(written))} is an option of CSV; the log is {kind}")
    if unknown := set(written) - {field.name for field in fields(Dialect)}:
        raise InputError(
            f"there is no option {unknown.pop()!r} of CSV; there are {', '.join(f.name for f in fields(Dialect))}"
        )
    if "separator" in written:
        written["separator"] = {r"\t": "\t", "tab": "\t"}.get(written["separator"], written["separator"])
    for what in ("separator", "escape"):
        if (sign := written.get(what)) is not None and (len(sign) != 1 or not sign.isascii() or sign in '"\r\n\0'):
            raise InputError(f"{what} = {sign!r} must be one ASCII character, and neither a quote nor a line end")
    if (encoding := written.get("encoding")) is not None:
        said = f"encoding = {encoding!r} is not a Python codec such as utf-8 or cp1252"
        with refusing(said, LookupError, TypeError, ValueError):
            written["encoding"] = codecs.lookup(encoding).name
            "a".encode(encoding)
    return Dialect(**written)


def read_csv(spark: SparkSession, path: str, dialect: Dialect, schema: T.StructType | None, corrupt: str) -> DataFrame:
    """Read CSV files; malformed rows are in the column `corrupt`.

    Raises
    ------
    InputError
        A column of the schema that no file has; a large file in which rows are longer than their lines.
    """
    whole, lines = spark.read.text(path, wholetext=True), spark.read.text(path, lineSep="\n")
    files = spark.read.format("binaryFile").load(path).select(F.col(PATH), "length").collect()
    large = {file: length for file, length in files if length > SMALL}
    value = lines.select(F.col("value").cast("binary"))
    first = {file: bytes(head) for file in large for (head,) in value.where(F.col(PATH) == file).head(1)}
    split = _by_lines(lines, first, dialect)
    for file, length in sorted(large.items()):
        if length > LARGEST and file not in split:
            raise InputError(
                f"{file} has rows that go over more than one line (or text that is not cut at its lines), and is too large "
                f"to be read in one piece ({length:,} bytes): split it, or write Parquet"
            )
    together = whole.where(~F.col(PATH).isin(split)) if split else whole
    heads = together.select(F.substring(F.col("value").cast("binary"), 1, HEAD)).collect()
    named = {first[path]: dialect.names(dialect.text(first[path])) for path in split}
    names = [dialect.names(dialect.text(bytes(head), cut=True)) for (head,) in heads] + list(named.values())
    columns = _columns(names, _own(whole, schema), dialect)
    parts = [_parsed(together, dialect, columns, corrupt)] if heads or not named else []
    for head, header in named.items():
        own = lines.where(F.col(PATH).isin([path for path in split if first[path] == head]))
        own = own.where(F.col("value").cast("binary") != F.lit(head)) if dialect.header else own
        parts.append(_parsed(own, dialect, columns, corrupt, header))
    return _typed(reduce(DataFrame.unionByName, parts), schema, dialect, corrupt)


def _by_lines(lines: DataFrame, first: dict[str, bytes], dialect: Dialect) -> list[str]:
    """Of files with these first lines those in which each line is a row, and the first is their only header."""
    if not first or dialect.escape or not dialect.encoding_of(next(iter(first.values()))).startswith(BY_BYTES):
        return []
    value = F.col("value")
    quotes = F.length(value) - F.length(F.replace(value, F.lit('"'), F.lit("")))
    broken = (F.contains(value, F.lit('"')) & (quotes % 2 != 0)) | value.rlike("\r.")
    headers = value.cast("binary").isin([F.lit(line) for line in set(first.values())])
    found = lines.where(F.col(PATH).isin(list(first))).groupBy(F.col(PATH)).agg(F.max(broken), F.count_if(headers))
    return [path for path, wrong, tops in found.collect() if not wrong and (tops == 1 or not dialect.header)]


def read_csv_stream(
    reader: Any, path: str, dialect: Dialect, known: T.StructType, schema: T.StructType | None, corrupt: str
) -> DataFrame:
    """Read the CSV files that arrive in a folder, each of them whole; `known`: the columns without a schema."""
    whole = reader.text(path, wholetext=True)
    written = T.StructType([field for field in known if field.metadata == AS_WRITTEN])
    own = _own(whole, schema) or written
    columns = _columns([written.names or own.names], own, dialect)  # without a file yet, the schema is believed
    return _typed(_parsed(whole, dialect, columns, corrupt), schema, dialect, corrupt)


def _own(whole: DataFrame, schema: T.StructType | None) -> T.StructType | None:
    """The columns of a schema that are not a folder's."""
    return schema and T.StructType([field for field in schema if field.name not in whole.columns])


def _columns(names: Sequence[Sequence[str]], schema: T.StructType | None, dialect: Dialect) -> tuple[str, ...]:
    """The columns to read: those of all headers, or of the schema."""
    known = {name.lower(): name for header in reversed(names) for name in reversed(header)}
    in_order = dict.fromkeys(name.lower() for header in names for name in header)
    if schema is None:
        return tuple(known[name] for name in in_order)
    if not dialect.header:
        if len(schema) > (count := min(map(len, filter(None, names)), default=len(schema))):
            raise InputError(f"the schema has {len(schema)} columns, the log {count}")
        return tuple(f"_c{i}" for i in range(len(schema)))
    if missing := [name for name in schema.names if name.lower() not in known]:
        said = ", ".join(known[name] for name in in_order) or "none"
        raise InputError(f"the log has no column {missing[0]!r} of the schema; its columns are {said}")
    return tuple(schema.names)


def _parsed(
    frame: DataFrame, dialect: Dialect, columns: tuple[str, ...], corrupt: str, names: Sequence[str] | None = None
) -> DataFrame:
    """The columns of files, or of lines whose columns have `names`, all of them texts; then what folders say."""
    folders = [name for name in frame.columns if name != "value" and name.lower() not in {c.lower() for c in columns}]
    plan = RowPlan(dialect, columns, corrupt, tuple(folders), names)
    made = [T.StructField(name, T.StringType(), metadata=AS_WRITTEN) for name in columns]
    made += [T.StructField(corrupt, T.StringType()), *(frame.schema[name] for name in folders)]
    with workers_python(frame.sparkSession):
        return frame.select("value", *map(quoted, folders)).mapInArrow(partial(rows, plan=plan), T.StructType(made))


def _typed(frame: DataFrame, schema: T.StructType | None, dialect: Dialect, corrupt: str) -> DataFrame:
    """The columns with the types of a schema; a row with a field that is of another is malformed."""
    if schema is None:
        return frame
    own = [field.name for field in frame.schema if field.metadata == AS_WRITTEN]
    read = iter(own) if not dialect.header else None
    typed: list[Column] = []
    wrong = F.lit(False)
    for field in schema:
        of_folder = field.name in frame.columns and field.name not in own
        text = value = F.col(quoted(field.name if read is None or of_folder else next(read)))
        if not isinstance(field.dataType, T.StringType):
            value = text.try_cast(field.dataType)
            if isinstance(field.dataType, T.NumericType):
                value = F.when(~text.rlike(NOT_NUMBERS), value)
            wrong = wrong | (text.isNotNull() & value.isNull())
        typed.append(value.alias(field.name, metadata={}))
    why = F.when(wrong, F.lit("a field of another type")).otherwise(F.col(quoted(corrupt)))
    others = [name for name in frame.columns if name not in (*own, *schema.names, corrupt)]
    return frame.select(*typed, *(F.col(quoted(name)) for name in others), why.alias(corrupt))


# Inside Spark's tasks: from the bytes of files, or from lines, to rows of texts -----------------------------------------


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
    if not gc.get_freeze_count():
        gc.freeze()  # the worker's libraries are no garbage: it looks for some after every task


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
