"""The live runs' own modules (`make kafka`, `make storm`), as far as they need no engine."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

LIVE = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def module(monkeypatch):
    """A module of an engine's folder; the folders have modules of the same names."""

    def imported(engine, name):
        for known in ("cluster", "streams", "results"):
            monkeypatch.delitem(sys.modules, known, raising=False)
        monkeypatch.syspath_prepend(str(LIVE / engine))
        return importlib.import_module(name)

    yield imported
    for known in ("cluster", "streams", "results"):
        sys.modules.pop(known, None)


def test_no_broker_answers_while_all_of_them_start(module):
    cluster = module("kafka", "cluster")
    starting = cluster.Cluster.__new__(cluster.Cluster)
    said = cluster.Said(1, "", "Exception: no broker answers")

    def tool(name, *words, check=True):
        if check:
            raise SystemExit(said.all)
        return said

    starting.tool = tool
    assert starting.alive() == set()


def test_shuffling_goes_round_in_the_order_of_each_spout(module):
    streams = module("storm", "streams")
    rng = np.random.default_rng(0)
    turns = np.array([rng.permutation(streams.TASKS) for _ in range(streams.SOURCES)])
    stream = streams.drawn([(1.0, 400.0, streams.zipf(50, 1.0))], seed=1)
    nodes = streams.sent(stream, "shuffle", streams.HASH, None, turns)
    for source, order in enumerate(turns):
        mine = nodes[stream.source == source]
        assert mine.size > 50
        assert mine.tolist() == np.resize(order, mine.size).tolist()
    # a second run goes on where the first one ended
    live = streams.Live.__new__(streams.Live)
    live.turns, live.pkg = turns, None
    made = pd.DataFrame({"source": stream.source, "task": nodes})
    made["seq"] = made.groupby("source").cumcount()
    live.served("shuffle", made.sample(frac=1, random_state=0))
    both = streams.Stream(*(np.concatenate([one, one]) for one in stream[:3]), 2.0)
    whole = streams.sent(both, "shuffle", streams.HASH, None, turns)
    assert live.sent(stream, "shuffle", streams.HASH).tolist() == whole[nodes.size :].tolist()


def test_what_storm_itself_takes_is_added_to_predicted_latencies(module, tmp_path):
    results = module("storm", "results")
    row = {"grouping": "shuffle", "run": 0, "ratio predicted": 1.0, "ratio measured": 1.0}
    rows = [{"load": 0.05, **row, "median predicted": 20.0, "median measured": 22.0, "p99 predicted": 20.0, "p99 measured": 30.0},
            {"load": 0.5, **row, "median predicted": 24.0, "median measured": 25.0, "p99 predicted": 90.0, "p99 measured": 95.0}]  # fmt: skip
    frame = pd.DataFrame(rows).assign(**{"mean predicted": 20.0, "mean measured": 21.0})
    frame.to_csv(tmp_path / "storm_latency.csv", index=False)
    assert results.own_time(tmp_path) == 2.0
    read = results.read(tmp_path, "latency")
    assert read["median predicted"].tolist() == [22.0, 26.0]
    assert read["p99 predicted"].tolist() == [22.0, 92.0]
    part = next(part for part in results.PARTS if part.name == "latency")
    assert results.summed(read, part)["median off %"].round(3).tolist() == [0.0, round(100 * (25 / 26 - 1), 3)]
