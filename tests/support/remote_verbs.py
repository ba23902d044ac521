"""Every verb on another file system than this machine's own: python remote_verbs.py SETTINGS FOLDER PLACE.

FOLDER is the one of `lake_log`, PLACE a folder of the other file system; where it has no scheme it lies where ``fs.defaultFS`` says.
Statistics are fetched to FOLDER/statistics. What is printed last, as JSON, is each file of PLACE, and what the lines answered.
"""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from lake_log import SCHEMA, line

from keyshift.cli import main
from keyshift.spark_stats import fetch, local_session, output
from keyshift.spark_stats.hadoop import place

output.RUNS = 1  # a stream has older runs, too


def files(found):
    """All files below a folder."""
    for entry in found.iterdir():
        yield from files(entry) if entry.is_dir() else [str(entry)]


def verbs(settings, folder, where):
    answers, master = [], settings.pop("spark.master", "local[2]")
    conf = [part for name, value in settings.items() if "defaultFS" in name for part in ("--conf", f"{name}={value}")]

    def shell(out, *source):
        told = line(folder, out, *source, *conf)
        told[told.index("--out") + 1] = f"{where}/{out}"
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main(told)
        answers.append([code, out.getvalue(), err.getvalue()])

    with local_session("tests", master=master, conf=settings) as spark:
        there = place(where, spark)
        for file in (*sorted((folder / "in").iterdir()), folder / "log.csv", folder / "log.jsonl"):
            target = there / str(file.relative_to(folder))
            stream = target._files.create(target._path)
            stream.write(bytearray(file.read_bytes()))
            stream.close()
        shell("batch", f"{where}/in", "--format", "parquet", "--keys", "user", "--transitions", "0.8")
        shell(
            "batch", f"{where}/in/*.parquet", "--keys", "user", "--keys", "item"
        )  # once more: all windows are replaced
        shell("csv", f"{where}/log.csv", "--schema", SCHEMA)
        shell("json", f"{where}/log.jsonl", "--schema", SCHEMA)
        shell("stream", f"{where}/in", "--format", "parquet", "--stream", "--no-finish")
        shell("stream", f"{where}/in", "--format", "parquet", "--stream")
        (there / "batch" / ".keyshift-writer").create("another's", overwrite=False)
        shell("batch", f"{where}/in", "--format", "parquet")  # refused
        (there / "batch" / ".keyshift-writer").unlink()
        (there / "mine").mkdir()
        (there / "mine" / "letter.txt").create("dear", overwrite=False)
        shell("mine", f"{where}/in", "--format", "parquet")  # refused
        for name in ("batch", "csv", "json", "stream"):
            fetch(spark, f"{where}/{name}", f"{folder}/statistics/{name}")
        return {"files": sorted(files(there)), "answers": answers}


if __name__ == "__main__":
    print(json.dumps(verbs(json.loads(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])))
