"""Public reports of people who count rows by key: the key is the text that stands in the file, and no row is lost without a word."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from keyshift.cli import main

pytestmark = pytest.mark.spark
DATA = Path(__file__).parent / "data" / "reports"

REPORTS = [
    pytest.param("spark-55884/visits.csv", "zip", "1", {"000123": 2, "00123": 1, "123": 2, "0": 1}, id="spark 55884: codes with zeros in front"),
    pytest.param("arrow-46853/log.csv", "user", "bytes", {"001": 50, "1": 70, "01": 30}, id="arrow 46853: the same in quotes"),
    pytest.param("pandas-15669/country.csv", "country", "1", {"NA": 3, "DE": 1, "NaN": 1, "null": 1, "None": 1}, id="pandas 15669: Namibia"),
    pytest.param("spark-csv-466/names.csv", "device", "1", {'pump "A"': 2, "pump B": 1, 'say "hi", twice': 1}, id="spark-csv 466: quotes"),
    pytest.param("spark-csv-466/names.csv", "payload", "1", {'{"t": 1, "u": "x,y"}': 1, '{"t": 2}': 1, "plain": 1, "{}": 1},
                 id="spark-csv 466: JSON"),
    pytest.param("spark-57608/notes.csv", "who", "1", {"ann": 2, "bob": 1, "ann\nmarie": 1}, id="spark 57608: line breaks in quotes"),
    pytest.param("danfojs-284/hours.csv", "dteday", "cnt", {"20110101": 19, "2011_01_01": 40, "2011/01/01": 32, "2011.01.01": 13, "2011-01-01": 4,
                 "2011-1-1": 8, "2011.010": 14}, id="danfojs 284: dates in seven ways"),
    pytest.param("koku-4762/usage.csv", "UUID", "1", {"0fc067a1-65d2-46da-b24b-7a9cbe2c69bd": 1, "12345678-0000-0000-0000-000000000000": 1,
                 "12e4": 1, "120000": 1, "65e21": 2, "65E21": 1}, id="koku 4762: ids that look like powers of ten"),
    pytest.param("koku-4762/usage.csv", "meter", "1", {"000123453": 2, "123453": 2, "0123453": 1, "1.0": 1, "1": 1}, id="koku 4762: meters"),
    pytest.param("csvkit-433/languages.csv", "name", "1", {"As": 1, 'A"si': 1, 'Ba"ta': 1, "Zulu": 1}, id="csvkit 433: a lone quote"),
    pytest.param("spark-23080/windows.csv", "TEXT", "1", {"x": 2, "y": 1}, id="spark 23080: the last column of Windows"),
]  # fmt: skip


def counted(folder: Path, file: str, key: str, cost: str, *more: str) -> dict[str, float]:
    """The load of each key, as `keyshift stats --keys` writes it."""
    (folder / "t.yaml").write_text(json.dumps({"operators": [{"name": "o", "key": key, "cost": cost}]}))
    line = [
        "stats",
        str(DATA / file),
        "--topology",
        str(folder / "t.yaml"),
        "--key-groups",
        "4",
        "--nodes",
        "2",
        "--keys",
        "o",
    ]
    assert main([*line, "--out", str(folder / "out"), *more]) == 0
    (run,) = (folder / "out" / "runs").iterdir()
    keys = pd.read_parquet(run / "keys")
    return dict(zip(keys["key"].map(str), keys["load"], strict=True))


@pytest.mark.parametrize(("file", "key", "cost", "right"), REPORTS)
def test_keys_are_the_text_that_stands_there(spark, tmp_path, file, key, cost, right):
    found = counted(tmp_path, file, key, cost)
    assert {key: load for key, load in found.items() if key} == right
