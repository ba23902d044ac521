"""Logs in files: Parquet, CSV, JSON lines (also gzipped), words of texts, ORC, Avro; tables, also of Delta and Iceberg; queries.

What stands in the name of a folder, such as ``shop=007``, is a column of texts. Rows that a reader cannot parse are kept, in the
column ``_corrupt_record``, and counted as "malformed row".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from glob import glob
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import ParseException, PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming import DataStreamReader

from keyshift.models.base.disk import expect_regular
from keyshift.models.errors import InputError
from keyshift.spark_stats.acceptance import CORRUPT
from keyshift.spark_stats.csv_files import dialect_of, quoted, read_csv, read_csv_stream
from keyshift.spark_stats.expressions import check_schema
from keyshift.spark_stats.failures import first_line, quiet, sentence
from keyshift.spark_stats.parquet_files import data_files, read_parquet, refuse_tables

Reader = TypeVar("Reader", DataFrameReader, DataStreamReader)

SMALL = 8 * 2**20
"""Bytes of a small log."""

OF_SPARK = ("orc", "avro", "delta", "iceberg")
"""Formats that Spark reads as they are; all but the first need a package of theirs on its class path."""
FORMATS = ("parquet", "csv", "json", "words", *OF_SPARK)
_SUFFIXES = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".txt": "words",
    ".orc": "orc",
    ".avro": "avro",
}


def read_log(
    spark: SparkSession,
    path: str,
    *,
    format: str | None = None,
    schema: str | None = None,
    separator: str | None = None,
    null_word: str | None = None,
    encoding: str | None = None,
    header: bool | None = None,
    escape: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read a log from a file or a folder.

    Parameters
    ----------
    path : str
        A path or a URL that Spark can read; globs are allowed.
    format : {"parquet", "csv", "json", "words", "orc", "avro", "delta", "iceberg"}, optional
        Default: by the name's ending (``.csv.gz`` is CSV), or by those of the files in a local folder. JSON is one object
        a line. "words" splits text into lower-case words, one row with the column `word` for each.
    schema : str, optional
        Columns and types in SQL, such as ``"ts timestamp, user string"``, for CSV and JSON, by name. Without it the columns of
        CSV are texts, as they stand there: ``007``, ``7`` and ``1e3`` are three keys. JSON then has the types that Spark finds
        in the whole log.
    separator : str, optional
        Of CSV: the sign between fields. Default: a comma.
    null_word : str, optional
        Of CSV: a field that is this, quoted or not, has no value. Default: one without any text.
    encoding : str, optional
        Of CSV: default UTF-8, or what a byte order mark says.
    header : bool, optional
        Of CSV: whether the first line of each file names its columns, in any order, as it does by default. Without it they are
        `_c0`, `_c1`, ..., or those of the schema in its order.
    escape : str, optional
        Of CSV: a sign that takes the meaning from the next one. Default: none. Quotes are doubled within quotes, where line
        breaks may stand too.
    options : mapping of str to str, optional
        Of Spark's reader of ORC, Avro, Delta and Iceberg: ``versionAsOf`` is a version of Delta, ``snapshot-id`` one of Iceberg.

    Raises
    ------
    InputError
        For an unknown format, a path that does not exist, a schema that cannot be read or has other columns than the log, a
        folder of Delta, Iceberg or Hudi, or Parquet files whose types do not fit each other.
    """
    kind = _format(path, format)
    written = {"separator": separator, "null_word": null_word, "encoding": encoding, "header": header, "escape": escape}
    dialect = dialect_of(kind, **written)
    given = None if schema is None else _schema(schema)
    _refuse_options(kind, options, schema)
    if kind not in OF_SPARK[2:]:
        refuse_tables(spark, path)
    try:
        with _folders_as_text(spark):
            if kind in OF_SPARK:
                return spark.read.format(kind).options(**(options or {})).load(path)
            if kind == "csv":
                return read_csv(spark, path, dialect, _without_corrupt(given), CORRUPT)
            if kind == "json":
                found = given or _configured(spark.read).load(path).schema
                return _with_a_column(_configured(spark.read).schema(_with_corrupt(found)).load(path))
            return _words(spark.read.text(path)) if kind == "words" else read_parquet(spark, path)
    except (PySparkException, Py4JError) as error:
        raise InputError(f"cannot read {path}: {sentence(error)}") from None
    except ValueError as error:
        raise error if isinstance(error, InputError) else InputError(f"cannot read {path}: {error}") from None


def read_table(
    spark: SparkSession, name: str, options: Mapping[str, str] | None = None, *, stream: bool = False
) -> DataFrame:
    """A table of a catalog, such as ``catalog.database.name``; `options` as for `read_log`: a version, or a snapshot."""
    with _told(f"the table {name}"):
        reader: Any = spark.readStream if stream else spark.read
        return reader.options(**(options or {})).table(name)


def read_query(spark: SparkSession, text: str) -> DataFrame:
    """The rows of a query in Spark SQL; statements that change something are refused."""
    session: Any = spark
    with _told(f"the query {text!r}"):
        session._jsparkSession.sessionState().sqlParser().parseQuery(text)
        return spark.sql(text)


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Raise what Spark says of a source in a sentence."""
    try:
        with quiet():
            yield
    except (PySparkException, Py4JError) as error:
        raise InputError(f"cannot read {what}: {sentence(error)}") from None


def _refuse_options(kind: str, options: Mapping[str, str] | None, schema: str | None) -> None:
    if options and kind not in OF_SPARK:
        raise InputError(
            f"{next(iter(options))} is an option of {', '.join(OF_SPARK)} and of tables; the log is {kind}"
        )
    if schema is not None and kind in OF_SPARK:
        raise InputError(f"a schema is for CSV and JSON; the log is {kind}, which has its own")


def read_log_stream(
    spark: SparkSession,
    path: str,
    *,
    format: str | None = None,
    schema: str | None = None,
    files: int | None = None,
    **written: Any,
) -> DataFrame:
    """Read the files that arrive in a folder as a stream, at most `files` in each micro-batch; else as `read_log`.

    Without a schema, the columns are those of the files that are there already. Any other streaming DataFrame can be used as
    well: for Kafka, give Spark the connector (``spark.jars.packages``) and parse the value with `from_json`.
    """
    kind = _format(path, format)
    options = written.pop("options", None)
    dialect = dialect_of(kind, **written)
    _refuse_options(kind, options, schema)
    if kind in OF_SPARK[2:]:
        with _told(path):
            return spark.readStream.format(kind).options(**(options or {})).load(path)
    refuse_tables(spark, path)
    given = None if schema is None else _schema(schema)
    known = given
    if kind != "words" and (known is None or kind == "csv"):
        known = read_log(spark, path, format=kind, **written).schema
    reader = spark.readStream
    if files is not None:
        reader = reader.option("maxFilesPerTrigger", files)
    try:
        with _folders_as_text(spark):
            if known is None:
                return _words(reader.text(path))
            if kind in ("parquet", *OF_SPARK):
                return reader.schema(known).format(kind).load(path)
            if kind == "csv":
                return read_csv_stream(reader, path, dialect, known, _without_corrupt(given), CORRUPT)
            return _with_a_column(_configured(reader).schema(_with_corrupt(known)).load(path))
    except (PySparkException, Py4JError) as error:
        raise InputError(f"cannot read {path}: {sentence(error)}") from None


def check_log(path: str, format: str | None, *, here: bool) -> None:
    """Refuse, before Spark starts, a format that is not known and, if files are `here`, a path that is not there."""
    if here and ":" not in path and not any(sign in path for sign in "*?[{,") and not Path(path).exists():
        raise InputError(f"cannot read {path}: there is no such file or folder")
    for place in glob(path.removeprefix("file:")) if here else []:  # noqa: PTH207 - of any folder
        expect_regular(Path(place))
    if here or format is not None:
        _format(path, format)


def is_small(path: str) -> bool:
    """Whether a log on this machine is of a few megabytes, so that Spark takes longer to start than to count it."""
    found = [Path(name) for name in glob(path.removeprefix("file:"))]  # noqa: PTH207 - of any folder
    files = (file for place in found for file in (data_files(place) if place.is_dir() else [place]))
    return bool(found) and all(size <= SMALL for size in accumulate(file.stat().st_size for file in files))


def _format(path: str, format: str | None) -> str:
    if format is None:
        format = _by_name(Path(path))
        if format is None:  # a folder: what its files are
            format = next(filter(None, map(_by_name, data_files(Path(path.removeprefix("file:"))))), None)
        if format is None:
            raise InputError(f"{path}: the name does not tell the format; give one of {', '.join(FORMATS)}")
    if format not in FORMATS:
        raise InputError(f"format = {format!r} is unknown; there are {', '.join(FORMATS)}")
    return format


def _by_name(path: Path) -> str | None:
    suffixes = [suffix for suffix in path.suffixes if suffix not in (".gz", ".bz2", ".zst", ".snappy")]
    return _SUFFIXES.get(suffixes[-1] if suffixes else "")


@contextmanager
def _folders_as_text(spark: SparkSession) -> Iterator[None]:
    """Take ``shop=007`` in the name of a folder as it stands there, not for the number 7."""
    setting = "spark.sql.sources.partitionColumnTypeInference.enabled"
    before = spark.conf.get(setting, "true")
    spark.conf.set(setting, "false")
    try:
        yield
    finally:
        spark.conf.set(setting, before or "true")


def _configured(reader: Reader) -> Reader:
    return reader.format("json").option("columnNameOfCorruptRecord", CORRUPT).option("mode", "PERMISSIVE")


def _with_a_column(frame: DataFrame) -> DataFrame:
    """Let whoever asks for malformed rows alone ask for a column too: else Spark refuses to read."""
    others = [name for name in frame.columns if name != CORRUPT]
    corrupt = F.col(CORRUPT)
    needed = corrupt.isNotNull() | (
        F.xxhash64(F.lit(0), *(F.col(quoted(name)).cast("string") for name in others[:1])) != 0
    )
    return frame.withColumn(CORRUPT, F.when(needed, corrupt))


def _without_corrupt(schema: T.StructType | None) -> T.StructType | None:
    return schema and T.StructType([field for field in schema if field.name != CORRUPT])


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
