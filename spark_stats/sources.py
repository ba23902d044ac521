"""Logs in files: Parquet, CSV, JSON lines (also gzipped), and text split into words.

Rows that a reader cannot parse are kept, in the column ``_corrupt_record``, and counted as "malformed row".
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import ParseException, PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming import DataStreamReader

from keyshift.models.errors import InputError
from keyshift.spark_stats.acceptance import CORRUPT
from keyshift.spark_stats.expressions import check_schema
from keyshift.spark_stats.failures import first_line, sentence

Reader = TypeVar("Reader", DataFrameReader, DataStreamReader)

FORMATS = ("parquet", "csv", "json", "words")
_SUFFIXES = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".txt": "words",
}


def read_log(spark: SparkSession, path: str, *, format: str | None = None, schema: str | None = None) -> DataFrame:
    """Read a log from a file or a folder.

    Parameters
    ----------
    path : str
        A path or a URL that Spark can read; globs are allowed.
    format : {"parquet", "csv", "json", "words"}, optional
        Default: by the name's ending (``.csv.gz`` is CSV). CSV needs a header line. JSON is one object a line.
        "words" splits text into lower-case words, one row with the column `word` for each.
    schema : str, optional
        Columns and types in SQL, such as ``"ts timestamp, user string"``, for CSV and JSON; else Spark looks at the
        whole log first to find them.

    Raises
    ------
    InputError
        A format that is not known, a path that is not there, a schema that cannot be read.
    """
    kind = _format(path, format)
    try:
        if kind in ("csv", "json"):
            found = _schema(schema) if schema is not None else _configured(spark.read, kind).load(path).schema
            return _configured(spark.read, kind).schema(_with_corrupt(found)).load(path)
        return _words(spark.read.text(path)) if kind == "words" else spark.read.parquet(path)
    except (PySparkException, Py4JError) as error:
        raise InputError(f"cannot read {path}: {sentence(error)}") from None


def read_log_stream(
    spark: SparkSession, path: str, *, format: str | None = None, schema: str | None = None, files: int | None = None
) -> DataFrame:
    """Read the files that arrive in a folder as a stream, at most `files` in each micro-batch; else as `read_log`.

    Without a schema, the files that are there already show it. Any other streaming DataFrame will do as well: for
    Kafka, give Spark the connector (``spark.jars.packages``) and parse the value with `from_json`.
    """
    kind = _format(path, format)
    known = None
    if kind in ("csv", "json", "parquet"):
        known = _schema(schema) if schema is not None else read_log(spark, path, format=kind).schema
    reader = spark.readStream
    if files is not None:
        reader = reader.option("maxFilesPerTrigger", files)
    try:
        if known is None:
            return _words(reader.text(path))
        if kind == "parquet":
            return reader.schema(known).parquet(path)
        return _configured(reader, kind).schema(_with_corrupt(known)).load(path)
    except (PySparkException, Py4JError) as error:
        raise InputError(f"cannot read {path}: {sentence(error)}") from None


def check_log(path: str, format: str | None) -> None:
    """Refuse, before Spark starts, a format that is not known and a local path that is not there."""
    _format(path, format)
    if (
        "://" not in path
        and not any(sign in path for sign in "*?[{,")
        and not Path(path.removeprefix("file:")).exists()
    ):
        raise InputError(f"cannot read {path}: there is no such file or folder")


def _format(path: str, format: str | None) -> str:
    if format is None:
        suffixes = [suffix for suffix in Path(path).suffixes if suffix not in (".gz", ".bz2", ".zst")]
        format = _SUFFIXES.get(suffixes[-1] if suffixes else "")
        if format is None:
            raise InputError(f"{path}: the name does not tell the format; give one of {', '.join(FORMATS)}")
    if format not in FORMATS:
        raise InputError(f"format = {format!r} is unknown; there are {', '.join(FORMATS)}")
    return format


def _configured(reader: Reader, kind: str) -> Reader:
    reader = reader.format(kind).option("columnNameOfCorruptRecord", CORRUPT).option("mode", "PERMISSIVE")
    if kind == "csv":  # with pruning, a reader does not notice what is wrong in columns that nobody asked for
        reader = reader.option("header", True).option("inferSchema", True).option("columnPruning", False)
    return reader


def _with_corrupt(schema: T.StructType) -> T.StructType:
    return schema if CORRUPT in schema.names else T.StructType([*schema.fields, T.StructField(CORRUPT, T.StringType())])


def _schema(text: str) -> T.StructType:
    check_schema(text)
    try:
        return T.StructType.fromDDL(text)
    except ParseException as error:
        raise InputError(f"schema = {text!r} cannot be read: {first_line(error)}") from None


def _words(lines: DataFrame) -> DataFrame:
    return lines.select(F.explode(F.split(F.lower("value"), r"[^\p{L}\p{N}']+")).alias("word")).where("word <> ''")
