"""Logs in files: Parquet, CSV, JSON lines (also gzipped), and text split into words.

Rows that a reader cannot parse are kept, in the column ``_corrupt_record``, and counted as "malformed row".
"""

from __future__ import annotations

from collections.abc import Iterator
from glob import glob
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import ParseException, PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming import DataStreamReader

from keyshift.models.errors import InputError
from keyshift.models.files.disk import expect_regular, size_of
from keyshift.spark_stats.acceptance import CORRUPT
from keyshift.spark_stats.expressions import check_schema
from keyshift.spark_stats.failures import first_line, sentence

Reader = TypeVar("Reader", DataFrameReader, DataStreamReader)

SMALL = 8 * 2**20
"""Bytes of a small log."""

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
        Default: by the name's ending (``.csv.gz`` is CSV), or by those of the files in a local folder. CSV needs a
        header line. JSON is one object a line. "words" splits text into lower-case words, one row with the column
        `word` for each.
    schema : str, optional
        Columns and types in SQL, such as ``"ts timestamp, user string"``, for CSV and JSON; else Spark looks at the
        whole log first to find them.

    Raises
    ------
    InputError
        For an unknown format, a path that does not exist, or a schema that cannot be read.
    """
    kind = _format(path, format)
    try:
        if kind in ("csv", "json"):
            found = _schema(schema) if schema is not None else _configured(spark.read, kind).load(path).schema
            return _configured(spark.read, kind).schema(_with_corrupt(found)).load(path)
        return _words(spark.read.text(path)) if kind == "words" else _parquet(spark, path)
    except (PySparkException, Py4JError) as error:
        raise InputError(f"cannot read {path}: {sentence(error)}") from None


def read_log_stream(
    spark: SparkSession, path: str, *, format: str | None = None, schema: str | None = None, files: int | None = None
) -> DataFrame:
    """Read the files that arrive in a folder as a stream, at most `files` in each micro-batch; else as `read_log`.

    Without a schema, it is inferred from the files that are there already. Any other streaming DataFrame can be used as
    well: for Kafka, give Spark the connector (``spark.jars.packages``) and parse the value with `from_json`.
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
    files = (file for place in found for file in (_data_files(place) if place.is_dir() else [place]))
    return bool(found) and all(size <= SMALL for size in accumulate(file.stat().st_size for file in files))


def _format(path: str, format: str | None) -> str:
    if format is None:
        format = _by_name(Path(path))
        if format is None:  # a folder: what its files are
            format = next(filter(None, map(_by_name, _data_files(Path(path.removeprefix("file:"))))), None)
        if format is None:
            raise InputError(f"{path}: the name does not tell the format; give one of {', '.join(FORMATS)}")
    if format not in FORMATS:
        raise InputError(f"format = {format!r} is unknown; there are {', '.join(FORMATS)}")
    return format


def _by_name(path: Path) -> str | None:
    suffixes = [suffix for suffix in path.suffixes if suffix not in (".gz", ".bz2", ".zst", ".snappy")]
    return _SUFFIXES.get(suffixes[-1] if suffixes else "")


def _parquet(spark: SparkSession, path: str) -> DataFrame:
    """Read Parquet; timestamps in nanoseconds, which pandas writes and Spark refuses, come as timestamps.

    Spark can be told to take them for whole numbers. It asks again when the job runs, so the setting stays.
    """
    setting, found = "spark.sql.legacy.parquet.nanosAsLong", None
    if spark.conf.get(setting, "false") != "true":
        try:
            return spark.read.parquet(path)
        except PySparkException as error:
            if "TIMESTAMP(NANOS" not in str(error):
                raise
        spark.conf.set(setting, "true")
        if (found := _nanoseconds(path)) is None:
            raise InputError(
                f"cannot read {path}: it has timestamps in nanoseconds, which Spark does not read; write it with "
                'to_parquet(..., coerce_timestamps="us")'
            )
    frame = spark.read.parquet(path)
    for name, with_zone in (found or _nanoseconds(path) or {}).items():
        column = F.col("`" + name.replace("`", "``") + "`")
        micros = F.call_function("div", column - F.pmod(column, F.lit(1000)), F.lit(1000))
        if with_zone:
            frame = frame.withColumn(name, F.timestamp_micros(micros))
        else:  # a time without a zone is read in the session's, as Spark reads those in microseconds
            seconds = (micros.cast("decimal(20, 0)") / F.lit(1_000_000)).cast("decimal(18, 6)")
            since = F.make_dt_interval(F.lit(0), F.lit(0), F.lit(0), seconds)
            frame = frame.withColumn(name, F.lit("1970-01-01 00:00:00").cast("timestamp_ntz") + since)
    return frame


def _nanoseconds(path: str) -> dict[str, bool] | None:
    """Columns in nanoseconds of a Parquet file or folder, and whether they have a time zone; None: not on this machine."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    place = Path(path.removeprefix("file:"))
    file = place if place.is_file() else next(_data_files(place), None)
    if file is None:
        return None
    size_of(file)
    fields = pq.read_schema(file)
    return {f.name: f.type.tz is not None for f in fields if pa.types.is_timestamp(f.type) and f.type.unit == "ns"}


def _data_files(folder: Path) -> Iterator[Path]:
    """Files of a log in a folder and the folders below it, without those that Spark passes over."""
    for file in sorted(folder.rglob("*")) if folder.is_dir() else []:
        if file.is_file() and not any(part[:1] in "._" for part in file.relative_to(folder).parts):
            yield file


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
