"""Public reports of people who count rows by key: the key is the text that stands in the file, and no row is lost without a word."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from keyshift.cli import main

pytestmark = pytest.mark.spark
DATA = Path(__file__).parent / "data" / "reports"

REPORTS = {
    "spark 55884, codes with zeros in front": ("spark-55884/visits.csv", "zip", "1", {"000123": 2, "00123": 1, "123": 2, "0": 1}),
    "arrow 46853, the same in quotes": ("arrow-46853/log.csv", "user", "bytes", {"001": 50, "1": 70, "01": 30}),
    "pandas 15669, Namibia": ("pandas-15669/country.csv", "country", "1", {"NA": 3, "DE": 1, "NaN": 1, "null": 1, "None": 1}),
    "spark-csv 466, quotes": ("spark-csv-466/names.csv", "device", "1", {'pump "A"': 2, "pump B": 1, 'say "hi", twice': 1}),
    "spark-csv 466, JSON": (
        "spark-csv-466/names.csv", "payload", "1", {'{"t": 1, "u": "x,y"}': 1, '{"t": 2}': 1, "plain": 1, "{}": 1}),
    "spark 57608, line breaks in quotes": ("spark-57608/notes.csv", "who", "1", {"ann": 2, "bob": 1, "ann\nmarie": 1}),
    "danfojs 284, dates in seven ways": (
        "danfojs-284/hours.csv", "dteday", "cnt", {"20110101": 19, "2011_01_01": 40, "2011/01/01": 32, "2011.01.01": 13, "2011-01-01": 4,
                                                   "2011-1-1": 8, "2011.010": 14}),
    "koku 4762, ids like powers of ten": (
        "koku-4762/usage.csv", "UUID", "1", {"0fc067a1-65d2-46da-b24b-7a9cbe2c69bd": 1, "12345678-0000-0000-0000-000000000000": 1,
                                             "12e4": 1, "120000": 1, "65e21": 2, "65E21": 1}),
    "koku 4762, meters": ("koku-4762/usage.csv", "meter", "1", {"000123453": 2, "123453": 2, "0123453": 1, "1.0": 1, "1": 1}),
    "csvkit 433, a lone quote": ("csvkit-433/languages.csv", "name", "1", {"As": 1, 'A"si': 1, 'Ba"ta': 1, "Zulu": 1}),
    "spark 23080, the last column of Windows": ("spark-23080/windows.csv", "TEXT", "1", {"x": 2, "y": 1}),
}  # fmt: skip


def stats(folder: Path, logs: dict[str, str], operators: list[dict[str, str]], *more: str) -> list[dict[str, float]]:
    """What `keyshift stats --keys` writes: for each operator the load of each key."""
    (folder / "t.yaml").write_text(json.dumps({"operators": operators}))
    line = ["stats", *(f"{name}={DATA / file}" for name, file in logs.items()), "--topology", str(folder / "t.yaml")]
    for operator in operators:
        line += ["--keys", operator["name"]]
    assert main([*line, "--key-groups", "4", "--nodes", "2", "--out", str(folder / "out"), *more]) == 0
    (run,) = (folder / "out" / "runs").iterdir()
    keys = pd.read_parquet(run / "keys")
    parts = [keys[keys.operator == place] for place in range(len(operators))]
    return [dict(zip(part["key"].map(str), part["load"], strict=True)) for part in parts]


@pytest.fixture(scope="module")
def found(spark, tmp_path_factory):
    """All reports in one run, each file a log of its own."""
    logs = {f"log{place}": file for place, file in enumerate(dict.fromkeys(file for file, *_ in REPORTS.values()))}
    of = {file: name for name, file in logs.items()}
    operators = [
        {"name": f"o{place}", "log": of[file], "key": key, "cost": cost}
        for place, (file, key, cost, _) in enumerate(REPORTS.values())
    ]
    return dict(zip(REPORTS, stats(tmp_path_factory.mktemp("reports"), logs, operators), strict=True))


@pytest.mark.parametrize("report", REPORTS)
def test_keys_are_the_text_that_stands_there(found, report):
    assert {key: load for key, load in found[report].items() if key} == REPORTS[report][-1]


def test_polars_26685_semicolons_decimal_commas_and_a_word_for_nothing(spark, tmp_path):
    """A German table in cp1252, where - is no value: 0.5 and 2.0 of S 1, 1.25 of S 2."""
    operators = [
        {"name": "rows", "key": "sensor"},
        {"name": "places", "key": "ort"},
        {"name": "sums", "key": "sensor", "filter": "wert is not null", "cost": "double(replace(wert, ',', '.'))"},
    ]
    written = ("--separator", ";", "--encoding", "cp1252", "--null-word", "-")
    rows, places, sums = stats(
        tmp_path, {"log": "polars-26685/werte.csv"}, [o | {"log": "log"} for o in operators], *written
    )
    assert rows == {"S 1": 3, "S 2": 1}
    assert places == {"Halle; Saale": 1, "K\u00f6ln": 3}
    assert sums == {"S 1": 2.5, "S 2": 1.25}


def test_pandas_21695_tabs_and_quotes_that_are_inches(spark, tmp_path, capsys):
    """Five rows; a field that begins with a quote and never ends is its text, or is refused and counted."""
    (found,) = stats(tmp_path, {"log": "pandas-21695/abstracts.tsv"}, [{"name": "o", "log": "log", "key": "term"}],
                     "--separator", "tab", "--format", "csv")  # fmt: skip
    right = {'the "best': 1, "plain": 2, '5" tube': 1}
    assert found == right | {'"ends': 1} or (
        found == right and "malformed row \u2502 1" in " ".join(capsys.readouterr().out.split())
    )
