"""One log from everything that Spark reads: files of five kinds, tables, queries, streams, Delta at a version, Iceberg at a snapshot.

The statistics of each are equal to the last digit: to each other, and to a plain recomputation. What is needed beyond PySpark is
brought along, and jobs run in a process of their own, since a Java takes its jars when it starts.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from brought import environment, jars, python_with
from lake_log import ROWS, SCHEMA, SUPPORT, TOPOLOGY, check, line, rows_of_log, run, write_files

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def everywhere(folder):
    """How each source is named on the shell: by the name of its statistics."""
    typed = ["--schema", SCHEMA]
    return {
        "csv": [folder / "log.csv", *typed],
        "json": [folder / "log.jsonl", *typed],
        "parquet": [folder / "log.parquet"],
        "orc": [folder / "log.orc"],
        "avro": [folder / "log.avro"],
        "table": ["--table", "spark_catalog.default.clicks"],
        "query": ["--sql", "select * from clicks where size > 0 order by cost"],
        "stream": [folder / "in", "--stream"],
        "orc-stream": [folder / "orc", "--format", "orc", "--stream"],
    }


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A folder with the log as everything, its rows, an environment with PySpark 4.1, and how the tables' versions are called."""
    folder = tmp_path_factory.mktemp("lake")
    rows = list(rows_of_log())
    write_files(folder, rows)
    (folder / "t.yaml").write_text(TOPOLOGY)
    python = python_with("pyspark==4.1.0", "deltalake", "pyiceberg[sql-sqlite]", "fastavro")
    made = [str(python), str(SUPPORT / "lake_tables.py"), str(folder)]
    told = subprocess.run(made, capture_output=True, text=True, check=False, timeout=300, env=environment())
    assert told.returncode == 0, told.stderr
    return folder, rows, python, json.loads(told.stdout.splitlines()[-1])


def test_files_tables_queries_and_streams_say_the_same(lake):
    folder, rows, *_ = lake

    settings = {
        "spark.jars": ",".join(map(str, jars("org.apache.spark:spark-avro_2.13:4.2.0", alone=True))),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    lines = [f"create table clicks using parquet as select * from parquet.`{folder}/log.parquet`"]
    sources = everywhere(folder)
    run(sys.executable, settings, lines + [line(folder, name, *source) for name, source in sources.items()], folder)
    for name in sources:
        check(folder, name, rows)


def test_tables_of_delta_and_iceberg_at_a_version_and_as_they_grow(lake, tmp_path):
    folder, rows, python, named = lake
    needed = [
        *jars("io.delta:delta-spark_4.1_2.13:4.1.0", without=("org.apache.spark", "org.scala-lang")),
        *jars(
            "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0", "org.xerial:sqlite-jdbc:3.50.3.0", alone=True
        ),
        *jars("org.apache.spark:spark-avro_2.13:4.1.1", alone=True),
    ]
    extensions = (
        "io.delta.sql.DeltaSparkSessionExtension",
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    )
    settings = {
        "spark.jars": ",".join(map(str, needed)),
        "spark.sql.extensions": ",".join(extensions),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "jdbc",
        "spark.sql.catalog.lake.uri": f"jdbc:sqlite:{folder}/catalog.db",
        "spark.sql.catalog.lake.jdbc.schema-version": "V1",
        "spark.sql.catalog.lake.warehouse": f"file://{folder}/lake",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
    }
    version, snapshot = (["--option", f"versionAsOf={named[name]}"] for name in ("version", "snapshot"))
    sources = {f"{name}-4.1": source for name, source in everywhere(folder).items()} | {
        "orc-4.1": [folder / "orc", "--format", "orc"],
        "delta": [folder / "delta", "--format", "delta", *version],
        "delta-query": ["--sql", f"select * from delta.`{folder}/delta` version as of {named['version']}"],
        "iceberg": ["--table", "lake.db.clicks", *snapshot],
        "iceberg-query": ["--sql", f"select * from lake.db.clicks version as of {named['snapshot']}"],
        "iceberg-path": [named["metadata"], "--format", "iceberg", *snapshot],
    }
    lines = [f"create table clicks using parquet as select * from parquet.`{folder}/log.parquet`"]
    lines += [line(folder, name, *source) for name, source in sources.items()]
    growing = {"delta": [folder / "delta-growing", "--format", "delta"], "iceberg": ["--table", "lake.db.growing"]}
    for kind, source in growing.items():  # each time from the version where the last one ended
        for first, end, more in ((0, 150, ["--no-finish"]), (150, 260, ["--no-finish"]), (260, ROWS, [])):
            lines.append({"folder": str(folder), "kind": kind, "first": first, "end": end})
            lines.append(line(folder, f"{kind}-growing", *source, "--stream", *more))
    run(python, settings, lines, folder)
    for name in (*sources, *(f"{kind}-growing" for kind in growing)):
        check(folder, name, rows)
