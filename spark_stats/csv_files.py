"""CSV logs: columns by the header of each file, every field as the text that stands there, a type only if a schema gives it.

Spark's own reader takes columns by position, and cannot tell a quoted line break from the end of a row unless it reads each file
in one task, by rules of its own. So Spark lists, decompresses and splits the files, and `keyshift.spark_stats.csv_rows` parses
them in its tasks: small files whole, large ones line by line where no row is longer than its line.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import fields
from functools import partial, reduce
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keyshift.models.errors import InputError
from keyshift.spark_stats import csv_rows
from keyshift.spark_stats.acceptance import AS_WRITTEN, NOT_NUMBERS
from keyshift.spark_stats.csv_rows import HEAD, Dialect, RowPlan
from keyshift.spark_stats.facts import in_arrow

cloudpickle.register_pickle_by_value(csv_rows)

SMALL, LARGEST = 8 * 2**20, 2**29
"""Bytes of a file that one task takes whole anyway, and of one that it can take whole at all."""
BY_BYTES = ("utf-8", "ascii", "iso8859", "cp125", "koi8", "mac")
"""Encodings in which the byte of a line end, or of a quote, is nothing else."""
PATH = "_metadata.file_path"


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
        try:
            written["encoding"] = codecs.lookup(encoding).name
            "a".encode(encoding)
        except (LookupError, TypeError, ValueError):
            raise InputError(f"encoding = {encoding!r} is not one that Python knows, such as utf-8 or cp1252") from None
    return Dialect(**written)


def read_csv(spark: SparkSession, path: str, dialect: Dialect, schema: T.StructType | None, corrupt: str) -> DataFrame:
    """Read CSV files; malformed rows are in the column `corrupt`.

    Raises
    ------
    InputError
        A column of the schema that no file has; a large file in which rows are longer than their lines.
    """
    whole: Any = spark.read.text(path, wholetext=True)
    own = _own(whole, schema)
    sizes = {file: size_of(spark, file) for file in whole.inputFiles()}
    if all(size <= SMALL for size in sizes.values()):
        heads = whole.select(F.substring(F.col("value").cast("binary"), 1, HEAD)).collect()
        names = [dialect.names(dialect.text(bytes(head), cut=True)) for (head,) in heads]
        frame = _parsed(whole, dialect, _columns(names, own, dialect), corrupt)
    else:
        frame = _large(whole, spark.read.text(path, lineSep="\n"), sizes, dialect, own, corrupt)
    return _typed(frame, schema, dialect, corrupt)


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


def size_of(spark: SparkSession, file: str) -> int:
    """Bytes of a file, wherever it lies."""
    session: Any = spark
    place = session._jvm.org.apache.hadoop.fs.Path(session._jvm.java.net.URI(file))
    conf = session._jsparkSession.sessionState().newHadoopConf()
    return int(place.getFileSystem(conf).getFileStatus(place).getLen())


def _large(
    whole: DataFrame,
    lines: DataFrame,
    sizes: dict[str, int],
    dialect: Dialect,
    schema: T.StructType | None,
    corrupt: str,
) -> DataFrame:
    """Files line by line where each row is one; the others whole."""
    size, value = F.col("_metadata.file_size"), F.col("value")
    first: dict[str, bytes] = {}
    for file in (file for file, length in sizes.items() if length > SMALL):
        top = lines.sparkSession.read.text(file, lineSep="\n")
        for path, head in top.select(F.col(PATH), value.cast("binary")).head(1):
            first[path] = bytes(head)
    quotes = F.length(value) - F.length(F.replace(value, F.lit('"'), F.lit("")))
    broken = (F.contains(value, F.lit('"')) & (quotes % 2 != 0)) | value.rlike("\r.")
    headers = value.cast("binary").isin([F.lit(line) for line in set(first.values())])
    found = lines.where(size > SMALL).groupBy(F.col(PATH)).agg(F.max(broken), F.count_if(headers))
    split = [path for path, wrong, tops in found.collect() if not wrong and (tops == 1 or not dialect.header)]
    if dialect.escape or not dialect.encoding_of(next(iter(first.values()))).startswith(BY_BYTES):
        split = []
    for file, length in sorted(sizes.items()):
        if length > LARGEST and file not in split:
            raise InputError(
                f"{file} has rows that go over more than one line (or text that is not cut at its lines), and is too large "
                f"to be read in one piece ({length:,} bytes): split it, or write Parquet"
            )
    together = whole.where((size <= SMALL) | (F.col(PATH).isin([path for path in first if path not in split])))
    heads = together.select(F.substring(value.cast("binary"), 1, HEAD)).collect()
    by_header: dict[bytes, list[str]] = {}
    for path in split:
        by_header.setdefault(first[path], []).append(path)
    named = {head: dialect.names(dialect.text(head)) for head in by_header}
    names = [dialect.names(dialect.text(bytes(head), cut=True)) for (head,) in heads] + list(named.values())
    columns = _columns(names, schema, dialect)
    parts = [_parsed(together, dialect, columns, corrupt)] if heads else []
    for head, paths in by_header.items():
        own = lines.where(F.col(PATH).isin(paths))
        own = own.where(value.cast("binary") != F.lit(head)) if dialect.header else own
        parts.append(_parsed(own, dialect, columns, corrupt, named[head]))
    return reduce(DataFrame.unionByName, parts)


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
    return in_arrow(frame.select("value", *map(quoted, folders)), partial(csv_rows.rows, plan=plan), T.StructType(made))


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


def quoted(name: str) -> str:
    """The name of a column as Spark reads it whatever is in it."""
    return "`" + name.replace("`", "``") + "`"
