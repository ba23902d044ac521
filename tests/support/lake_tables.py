"""Tables of Delta and Iceberg, and a file of Avro, made without Spark: `python lake_tables.py FOLDER` makes them of FOLDER/log.parquet.

Each table has a version that is the log, made in two steps, and a later one from which rows have been deleted. What is printed, as JSON,
is how to name that version to Spark.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq

AVRO = {
    "type": "record",
    "name": "click",
    "fields": [
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "user", "type": ["null", "string"]},
        {"name": "item", "type": "long"},
        {"name": "cost", "type": "double"},
        {"name": "size", "type": "long"},
    ],
}


def grow(folder: str, kind: str, first: int, end: int) -> None:
    """Append rows of the log to the table `growing` of Delta or of Iceberg; makes it."""
    rows = pq.read_table(Path(folder) / "log.parquet").slice(first, end - first)
    if kind == "delta":
        from deltalake import write_deltalake

        write_deltalake(f"{folder}/delta-growing", rows, mode="append")
        return
    catalog = iceberg(folder)
    table = catalog.create_table_if_not_exists("db.growing", rows.schema)
    table.append(rows)


def iceberg(folder: str):
    """The catalog of Iceberg's tables, a file of SQLite that Spark's catalog of type jdbc reads too."""
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/lake")
    catalog.create_namespace_if_not_exists("db")
    return catalog


def make(folder: str) -> dict[str, str]:
    import fastavro
    from deltalake import DeltaTable, write_deltalake

    rows = pq.read_table(Path(folder) / "log.parquet")
    with Path(folder, "log.avro").open("wb") as file:
        fastavro.writer(file, AVRO, rows.to_pylist())
    half = rows.num_rows // 2
    place = f"{folder}/delta"
    for part in (rows.slice(0, half), rows.slice(half)):
        write_deltalake(place, part, mode="append", configuration={"delta.checkpointInterval": "1"})
    version = DeltaTable(place).version()
    DeltaTable(place).delete("size > 5")
    assert DeltaTable(place, version=version).to_pyarrow_table().num_rows == rows.num_rows
    assert DeltaTable(place).to_pyarrow_table().num_rows < rows.num_rows
    table = iceberg(folder).create_table("db.clicks", rows.schema)
    for part in (rows.slice(0, half), rows.slice(half)):
        table.append(part)
    snapshot = table.current_snapshot().snapshot_id
    table.delete("size > 5")
    assert table.scan(snapshot_id=snapshot).to_arrow().num_rows == rows.num_rows
    assert table.scan().to_arrow().num_rows < rows.num_rows
    return {"version": str(version), "snapshot": str(snapshot), "metadata": table.metadata_location}


if __name__ == "__main__":
    print(json.dumps(make(sys.argv[1])))
