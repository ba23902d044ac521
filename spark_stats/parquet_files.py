"""Parquet logs: files whose columns widen, timestamps in nanoseconds, and tables that are more than their files."""

from __future__ import annotations

from collections.abc import Iterator
from glob import glob
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keyshift.models.base.disk import size_of
from keyshift.models.errors import InputError
from keyshift.spark_stats.hadoop import HadoopPath, is_remote

TABLES = {"_delta_log": "Delta", ".hoodie": "Hudi", "metadata": "Iceberg"}
"""Folders of tables whose files alone are not the table: some have been replaced."""
WIDER = ("tinyint", "smallint", "int", "bigint"), ("float", "double"), ("int", "double")
"""Types of which Spark reads an earlier one as a later one."""


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
    whole = {
        field.name for field in frame.schema if isinstance(field.dataType, T.LongType)
    }  # others are no whole numbers
    for name, with_zone in (found or _nanoseconds(path) or {}).items():
        if name not in whole:
            continue
        column = F.col("`" + name.replace("`", "``") + "`")
        micros = F.call_function("div", column - F.pmod(column, F.lit(1000)), F.lit(1000))
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
    if a == b or any(b in order and a in order[order.index(b) :] for order in WIDER):
        return field, file
    if any(a in order and b in order[order.index(a) :] for order in WIDER):
        return other, its
    raise InputError(
        f"the column {field.name!r} is of type {a} in {file}, and of type {b} in {its}: write the files with one type, or read "
        "them apart, cast the column and pass the union to keyshift.spark_stats.collect"
    )


def _nanoseconds(path: str) -> dict[str, bool] | None:
    """Columns in nanoseconds of a Parquet file or folder, and whether they have a time zone; None: not on this machine."""
    import pyarrow as pa
    import pyarrow.parquet as pq

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
