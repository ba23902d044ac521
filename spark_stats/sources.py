"""Logs in files: Parquet, CSV, JSON lines (also gzipped), words of texts, ORC, Avro; tables, also of Delta and Iceberg; queries.

What stands in the name of a folder, such as ``shop=007``, is a column of texts. Rows that a reader cannot parse are kept, in the
column ``_corrupt_record``, and counted as "malformed row".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from glob import glob
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import ParseException, PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming import DataStreamReader

from keyshift.models.base.disk import expect_regular, size_of
from keyshift.models.errors import InputError
from keyshift.spark_stats.acceptance import CORRUPT, quoted
from keyshift.spark_stats.csv_files import SMALL, Dialect, dialect_of, read_csv, read_csv_stream
from keyshift.spark_stats.expressions import check_schema
from keyshift.spark_stats.failures import first_line, in_one_sentence
from keyshift.spark_stats.hadoop import HadoopPath, is_remote
from keyshift.spark_stats.session import settings
from keyshift.spark_stats.windows import floor_of

Reader = TypeVar("Reader", DataFrameReader, DataStreamReader)

OF_SPARK = ("orc", "avro", "delta", "iceberg")
"""Formats that Spark reads as they are; all but the first need a package of theirs on its class path."""
FORMATS = ("parquet", "csv", "json", "words", *OF_SPARK)
_SUFFIXES = {f".{kind}": kind for kind in ("parquet", "csv", "json", "orc", "avro")}
_SUFFIXES |= {".jsonl": "json", ".ndjson": "json", ".txt": "words"}

TABLES = {"_delta_log": "Delta", ".hoodie": "Hudi", "metadata": "Iceberg"}
"""Folders of tables whose files alone are not the table: some have been replaced."""
WIDER = ("tinyint", "smallint", "int", "bigint"), ("float", "double"), ("int", "double")
"""Types of which Spark reads an earlier one as a later one."""


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
        Of Spark's reader of ORC, Avro, Delta and Iceberg: ``versionAsOf`` is a version of Delta, or a snapshot of Iceberg.

    Raises
    ------
    InputError
        For an unknown format, a path that does not exist, a schema that cannot be read or has other columns than the log, a
        folder of Delta, Iceberg or Hudi, or Parquet files whose types do not fit each other.
    """
    written = {"separator": separator, "null_word": null_word, "encoding": encoding, "header": header, "escape": escape}
    kind, dialect, given = _asked(spark, path, format, schema, options, written)
    with in_one_sentence(path), _folders_as_text(spark):
        if kind in OF_SPARK:
            return spark.read.format(kind).options(**(options or {})).load(path)
        if kind == "csv":
            return read_csv(spark, path, dialect, given, CORRUPT)
        if kind == "json":
            found = given or _configured(spark.read).load(path).schema
            return _with_a_column(_configured(spark.read).schema(_with_corrupt(found)).load(path))
        return _words(spark.read.text(path)) if kind == "words" else read_parquet(spark, path)


def read_table(
    spark: SparkSession, name: str, options: Mapping[str, str] | None = None, *, stream: bool = False
) -> DataFrame:
    """A table of a catalog, such as ``catalog.database.name``; `options` as for `read_log`: a version, or a snapshot."""
    with in_one_sentence(f"the table {name}"):
        reader: Any = spark.readStream if stream else spark.read
        return reader.options(**(options or {})).table(name)


def read_query(spark: SparkSession, text: str) -> DataFrame:
    """The rows of a query in Spark SQL; statements that change something are refused."""
    session: Any = spark
    with in_one_sentence(f"the query {text!r}"):
        session._jsparkSession.sessionState().sqlParser().parseQuery(text)
        return spark.sql(text)


def _asked(
    spark: SparkSession, path: str, format: str | None, schema: str | None, options: Any, written: Mapping[str, Any]
) -> tuple[str, Dialect, T.StructType | None]:
    """The format, how CSV is written, and the columns; options of another format are refused, and files of a table."""
    kind = _format(path, format)
    dialect = dialect_of(kind, **written)
    if options and kind not in OF_SPARK:
        raise InputError(
            f"{next(iter(options))} is an option of {', '.join(OF_SPARK)} and of tables; the log is {kind}"
        )
    if schema is not None and kind in OF_SPARK:
        raise InputError(f"a schema is for CSV and JSON; the log is {kind}, which has its own")
    if kind not in OF_SPARK[2:]:
        refuse_tables(spark, path)
    return kind, dialect, None if schema is None else _schema(schema)


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
    options = written.pop("options", None)
    kind, dialect, given = _asked(spark, path, format, schema, options, written)
    if kind in OF_SPARK[2:]:
        with in_one_sentence(path):
            return spark.readStream.format(kind).options(**(options or {})).load(path)
    known = given
    if kind != "words" and (known is None or kind == "csv"):
        known = read_log(spark, path, format=kind, **written).schema
    reader = spark.readStream if files is None else spark.readStream.option("maxFilesPerTrigger", files)
    with in_one_sentence(path), _folders_as_text(spark):
        if known is None:
            return _words(reader.text(path))
        if kind in ("parquet", *OF_SPARK):
            return reader.schema(known).format(kind).load(path)
        if kind == "csv":
            return read_csv_stream(reader, path, dialect, known, given, CORRUPT)
        return _with_a_column(_configured(reader).schema(_with_corrupt(known)).load(path))


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


def _folders_as_text(spark: SparkSession) -> AbstractContextManager[None]:
    """Take ``shop=007`` in the name of a folder as it stands there, not for the number 7."""
    return settings(spark, **{"sources.partitionColumnTypeInference.enabled": "false"})


def _configured(reader: Reader) -> Reader:
    return reader.format("json").option("columnNameOfCorruptRecord", CORRUPT).option("mode", "PERMISSIVE")


def _with_a_column(frame: DataFrame) -> DataFrame:
    """Add a column to a query for malformed rows alone, which Spark would refuse."""
    others = [name for name in frame.columns if name != CORRUPT]
    corrupt = F.col(CORRUPT)
    needed = corrupt.isNotNull() | (
        F.xxhash64(F.lit(0), *(F.col(quoted(name)).cast("string") for name in others[:1])) != 0
    )
    return frame.withColumn(CORRUPT, F.when(needed, corrupt))


def _with_corrupt(schema: T.StructType) -> T.StructType:
    return schema if CORRUPT in schema.names else T.StructType([*schema.fields, T.StructField(CORRUPT, T.StringType())])


def _schema(text: str) -> T.StructType:
    check_schema(text)
    try:
        return T.StructType([field for field in T.StructType.fromDDL(text) if field.name != CORRUPT])
    except ParseException as error:
        raise InputError(f"schema = {text!r} cannot be read: {first_line(error)}") from None


def _words(lines: DataFrame) -> DataFrame:
    return lines.select(F.explode(F.split(F.lower("value"), r"[^\p{L}\p{N}']+")).alias("word")).where("word <> ''")


# Parquet: files whose columns widen, timestamps in nanoseconds, and tables that are more than their files ----------------


def refuse_tables(spark: SparkSession, path: str) -> None:
    """Refuse a folder of a table, or one within it, whose plain files hold rows that have been replaced or deleted.

    Raises
    ------
    InputError
        With how to read it.
    """
    for folder in _around(spark, path):
        for mark, kind in TABLES.items():
            inside = folder / mark
            if not inside.exists() or (
                kind == "Iceberg" and not any("metadata.json" in e.name for e in inside.iterdir())
            ):
                continue
            how = (
                f"format {kind.lower()}"
                if kind != "Hudi"
                else "Spark's reader for Hudi, and pass the DataFrame to collect"
            )
            raise InputError(
                f"{folder} is a table of {kind}, and its files alone hold rows that it has replaced: read it with {how}"
            )


def _around(spark: SparkSession, path: str) -> Iterator[Path | HadoopPath]:
    """The folders that a path names, those above them, and here those below."""
    if is_remote(path):
        url = path
        while url.count("/") > 2 and not any(sign in url for sign in "*?[{"):
            yield HadoopPath(url, spark)
            url = url.rpartition("/")[0]
        return
    for found in glob(path.removeprefix("file:")):  # noqa: PTH207 - of any folder
        place = Path(found).absolute()
        yield from (place, *place.parents)
        yield from (below for below in place.rglob("*") if below.is_dir()) if place.is_dir() else ()


def read_parquet(spark: SparkSession, path: str) -> DataFrame:
    """Read Parquet files whose columns may widen from one to the other, in any order.

    Timestamps in nanoseconds, which pandas writes and Spark refuses, come as timestamps. Spark can be told to take them for whole
    numbers. It asks again when the job runs, so the setting stays.
    """
    setting, found = "spark.sql.legacy.parquet.nanosAsLong", None
    if spark.conf.get(setting, "false") != "true":
        try:
            return _of_all_files(spark, path)
        except (PySparkException, Py4JError) as error:
            if "TIMESTAMP(NANOS" not in str(error):
                raise
        spark.conf.set(setting, "true")
        if (found := _nanoseconds(path)) is None:
            raise InputError(
                f"cannot read {path}: it has timestamps in nanoseconds, which Spark does not read; write it with "
                'to_parquet(..., coerce_timestamps="us")'
            )
    frame = _of_all_files(spark, path)
    # What is of another type holds no whole numbers of nanoseconds.
    whole = {field.name for field in frame.schema if isinstance(field.dataType, T.LongType)}
    for name, with_zone in (found or _nanoseconds(path) or {}).items():
        if name not in whole:
            continue
        micros = floor_of(F.col(quoted(name)), 1000)
        if with_zone:
            frame = frame.withColumn(name, F.timestamp_micros(micros))
        else:  # a time without a zone is read in the session's, as Spark reads those in microseconds
            seconds = (micros.cast("decimal(20, 0)") / F.lit(1_000_000)).cast("decimal(18, 6)")
            since = F.make_dt_interval(F.lit(0), F.lit(0), F.lit(0), seconds)
            frame = frame.withColumn(name, F.lit("1970-01-01 00:00:00").cast("timestamp_ntz") + since)
    return frame


def _of_all_files(spark: SparkSession, path: str) -> DataFrame:
    """Read with the columns of all files; where a file's are narrower, as the widest."""
    frame = spark.read.parquet(path)
    files = frame.inputFiles()
    if len(files) < 2:
        return frame
    try:
        return spark.read.option("mergeSchema", True).parquet(path)
    except (PySparkException, Py4JError) as error:
        if "MERGE" not in str(error):
            raise
    fields: dict[str, tuple[T.StructField, str]] = {}
    for file in sorted(files):
        for field in spark.read.parquet(file).schema:
            known, where = fields.setdefault(field.name, (field, file))
            fields[field.name] = _wider(known, where, field, file)
    own = {field.name for field, _ in fields.values()}
    folders = [field for field in frame.schema if field.name not in own]
    return spark.read.schema(T.StructType([*(field for field, _ in fields.values()), *folders])).parquet(path)


def _wider(field: T.StructField, file: str, other: T.StructField, its: str) -> tuple[T.StructField, str]:
    """Of two columns of one name the one of the wider type, and its file."""
    a, b = field.dataType.simpleString(), other.dataType.simpleString()
    for order in ((a,), *WIDER):
        if a in order and b in order:
            return (field, file) if order.index(a) >= order.index(b) else (other, its)
    raise InputError(
        f"the column {field.name!r} is of type {a} in {file}, and of type {b} in {its}: write the files with one type, or read "
        "them apart, cast the column and pass the union to keyshift.spark_stats.collect"
    )


def _nanoseconds(path: str) -> dict[str, bool] | None:
    """Columns in nanoseconds of a Parquet file or folder, and whether they have a time zone; None: not on this machine."""
    place = Path(path.removeprefix("file:"))
    file = place if place.is_file() else next(data_files(place), None)
    if file is None:
        return None
    size_of(file)
    fields = pq.read_schema(file)
    return {f.name: f.type.tz is not None for f in fields if pa.types.is_timestamp(f.type) and f.type.unit == "ns"}


def data_files(folder: Path) -> Iterator[Path]:
    """Files of a log in a folder and the folders below it, without those that Spark passes over."""
    for file in sorted(folder.rglob("*")) if folder.is_dir() else []:
        if file.is_file() and not any(part[:1] in "._" for part in file.relative_to(folder).parts):
            yield file
