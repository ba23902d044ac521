"""Logs as people have them: what is read is what stands there, or it is refused."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import keyshift as ks
from keyshift.cli import main
from keyshift.models import InputError
from keyshift.models.files.statistics import read_statistics
from keyshift.spark_stats import Operator, StatsStream, Topology, collect, collect_keys, read_log, read_log_stream
from keyshift.spark_stats.tallied import far_off

pytestmark = pytest.mark.spark
LOGS = Path(__file__).parent / "data" / "logs"


def keyed(frame, key, **options):
    """Tuples by key, as the text or number that it is."""
    rows = collect_keys(frame, Topology([Operator("o", key=key)]), **options).frame.select("key", "tuples").collect()
    return {row["key"]: row["tuples"] for row in rows}


def stats_of(frame, time=None, window=None, since=None, until=None, trust=False, **operator):
    """Loads of one operator by window, and what is refused."""
    topology = Topology([Operator("o", **{"key": "'all'", **operator})], trust=trust)
    with collect(frame, topology, time=time, window=window, since=since, until=until, key_groups=2) as stats:
        loads = stats.load.groupBy("window_start").agg({"load": "sum"}).orderBy("window_start").collect()
        return [row["sum(load)"] for row in loads], stats.rejected_counts()


# What others had -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "options", "key", "right"),
    [
        ("zeros.csv", {}, "zip", {"007": 1, "7": 1, "0007": 1, "08031": 1}),
        ("zeros.csv", {"schema": "zip int"}, "zip", {7: 3, 8031: 1}),
        ("hexids.csv", {}, "id", {"12d": 1, "12f": 1, "12": 1, "1e3": 1, "1000": 1}),
        ("order.csv", {"schema": "user string, page string, ts string"}, "user", {"u1": 2, "u2": 1, "u3": 1}),
        ("order.csv", {"schema": "page string"}, "page", {"p1": 3, "p2": 1}),
        ("phantom.csv", {}, "user", {"u1": 1, "u2": 1}),
        ("json_column.csv", {}, "user", {"a": 2, "b": 1}),
        ("semicolon.csv", {"separator": ";"}, "user", {"u1": 1, "u2": 1}),
        ("ms.jsonl", {}, "'all'", {"all": 4}),
    ],
)
def test_keys_are_what_stands_there(spark, file, options, key, right):
    assert keyed(read_log(spark, str(LOGS / file), **options), key) == right


@pytest.mark.parametrize(
    ("file", "options", "key", "said"),
    [
        ("semicolon.csv", {}, "user", "the log has no column 'user'; its columns are user;bytes"),
        ("order.csv", {"schema": "usr string"}, "usr", "the log has no column 'usr' of the schema; its columns are ts, user, page"),
        ("delta", {}, "user", "delta is a table of Delta, .* read it with Spark's reader for Delta"),
        ("delta/part-0.parquet", {}, "user", "delta is a table of Delta"),
        ("zeros.csv", {"separator": "--"}, "zip", "separator = '--' must be one ASCII character"),
        ("zeros.csv", {"encoding": "utf-99"}, "zip", "encoding = 'utf-99' is not one that Python knows"),
        ("ms.jsonl", {"separator": ";"}, "user", "separator is an option of CSV; the log is json"),
    ],
)
def test_refuses_what_it_would_misread(spark, file, options, key, said):
    with pytest.raises(InputError, match=said):
        keyed(read_log(spark, str(LOGS / file), **options), key)
