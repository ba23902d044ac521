"""Topologies from Python and YAML, what they refuse before any job starts, and the check for Java."""

from __future__ import annotations

import json
import os

import numpy as np
import pandas as pd
import pytest

import keyshift as ks
from keyshift.cli import main
from keyshift.commands.stats import read_cluster
from keyshift.spark_stats import Operator, Topology
from keyshift.spark_stats import session as sessions
from keyshift.spark_stats.statistics_files import units_of

GOOD = """
operators:
  - {name: extract, key: tail}
  - {name: sum, key: tail, filter: delay IS NOT NULL, cost: 1 + delay, state: "8", windows: 2}
edges:
  - [extract, sum]
"""


def test_yaml_and_python_say_the_same(tmp_path):
    (tmp_path / "t.yaml").write_text(GOOD)
    read = Topology.from_yaml(tmp_path / "t.yaml")
    made = Topology(
        operators=[
            Operator(name="extract", key="tail"),
            Operator(name="sum", key="tail", filter="delay IS NOT NULL", cost="1 + delay", state="8", windows=2),
        ],
        edges=[("extract", "sum")],
    )
    assert read.to_dict() == made.to_dict()
    assert Topology.from_dict(read.to_dict()).names == ("extract", "sum")


OPERATORS = [{"name": n, "key": "k"} for n in "abc"]
REFUSED = {
    "loop without a sender": ({"operators": OPERATORS, "edges": [["a", "a"]]}, "edge a -> a: a tuple has one key there; give the key that sent it"),
    "unsafe sender": ({"operators": OPERATORS, "edges": [["a", "b", "reflect('a', 'b')"]]}, "edge a -> b: the sender's key"),
    "edge of four": ({"operators": OPERATORS, "edges": [["a", "b", "k", "k"]]}, "must be a pair of operator names, or these and"),
    "unknown operator": ({"operators": OPERATORS, "edges": [["a", "z"]]}, "edge a -> z: there is no operator 'z'; there are a, b, c"),
    "edge twice": ({"operators": OPERATORS, "edges": [["a", "b"], ["a", "b"]]}, "is given twice"),
    "name twice": ({"operators": [*OPERATORS, {"name": "a", "key": "k"}]}, "'a'"),
    "no operator": ({"operators": []}, "operator"),
    "no key": ({"operators": [{"name": "a"}]}, "operator 'a' has no key"),
    "unknown field": ({"operators": [{"name": "a", "key": "k", "speed": 1}]}, "operator 'a' has no field 'speed'"),
    "unknown part": ({"operators": OPERATORS, "sinks": []}, "a topology has operators and edges, not 'sinks'"),
    "no list": ({"operators": OPERATORS, "edges": "a -> b"}, "edges must be a list"),
    "no mapping": (["a"], "a topology is a mapping with operators and edges, not a list"),
    "no share": ({"operators": OPERATORS, "transitions": 2}, "transitions = 2 must be a target utilisation"),
    "no name": ({"operators": OPERATORS, "keys": [3]}, "keys[0] = 3 must be the name of an operator"),
    "no operator at all": ({"operators": ["a"]}, "operator 'a' must be a mapping"),
    "no window": ({"operators": [{"name": "a", "key": "k", "windows": 0}]}, "windows"),
}  # fmt: skip


@pytest.mark.parametrize(("description", "message"), REFUSED.values(), ids=REFUSED)
def test_a_bad_topology_is_refused(description, message):
    with pytest.raises(ks.InputError, match=message.replace("[", r"\[")):
        Topology.from_dict(description)


@pytest.mark.parametrize(("text", "message"), [(None, "does not exist"), ("a: [", "is not readable YAML")])
def test_a_bad_file_is_refused_at_the_shell(tmp_path, capsys, text, message):
    path = tmp_path / "t.yaml"
    if text is not None:
        path.write_text(text)
    code = main(["stats", str(tmp_path), "--topology", str(path), "--out", str(tmp_path / "out")])
    assert code == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


def test_an_unknown_placement_is_refused_before_spark_starts(tmp_path, capsys):
    (tmp_path / "t.yaml").write_text(GOOD)
    code = main(["stats", str(tmp_path), "--topology", str(tmp_path / "t.yaml"), "-o", "out", "--placement", "nearby"])
    assert code == 2
    assert "nearby" in capsys.readouterr().err


JAVAS = {
    "none": (None, "Spark needs Java 17 or newer and"),
    "old": ("echo 'openjdk version \"11.0.2\"' >&2", "is Java 11: install it"),
    "ancient": ("echo 'java version \"1.8.0_292\"' >&2", "is Java 8: install it"),
    "silent": ("true", "does not tell its version"),
}


@pytest.mark.parametrize(("script", "message"), JAVAS.values(), ids=JAVAS)
def test_a_java_that_will_not_do_is_one_sentence(tmp_path, monkeypatch, script, message):
    if script is not None:
        (tmp_path / "bin").mkdir()
        java = tmp_path / "bin" / "java"
        java.write_text(f"#!/bin/sh\n{script}\n")
        java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ks.models.MissingDependencyError, match=message):
        sessions.check_java()


def test_no_java_on_the_path(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(ks.models.MissingDependencyError, match="none is on the PATH"):
        sessions.check_java()


@pytest.fixture
def log(tmp_path):
    """Two hours of events of six keys as JSON lines, one row without a key."""
    rng = np.random.default_rng(2)
    folder = tmp_path / "log"
    folder.mkdir()
    rows = [
        {
            "ts": f"2024-01-01 {6 + i // 30:02d}:{i % 30:02d}:00",
            "tail": f"N{rng.integers(6)}",
            "delay": int(rng.integers(5)),
        }
        for i in range(60)
    ]
    rows[7]["tail"] = None
    (folder / "a.json").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "t.yaml").write_text(GOOD)
    return folder, rows


@pytest.mark.parametrize("stream", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_stats_at_the_shell_end_in_a_workload(spark, log, tmp_path, capsys, stream):
    folder, rows = log
    line = ["stats", folder, "--topology", tmp_path / "t.yaml", "--out", tmp_path / "out", "--time", "ts"]
    line += ["--window", "1 hour", "--key-groups", "4", "--nodes", "2", "--format", "json", "--json"]
    line += ["--schema", "ts timestamp, tail string, delay int"]
    (tmp_path / "now.csv").write_text("operator,key_group,node\nsum,3,0\n")
    if stream:
        line += ["--stream"]
    else:  # keys and transitions may stand in the file, too
        (tmp_path / "t.yaml").write_text(GOOD + "keys: [sum]\ntransitions: 0.5\n")
        line += ["--current", tmp_path / "now.csv", "--capacities", "2,1"]
    assert main([str(part) for part in line]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["operators"] == ["extract", "sum"]
    assert record["windows"] == 2
    assert sum(record["rejected"].values()) >= 1
    w = ks.read_workload(tmp_path / "out")
    assert (w.key_groups, w.nodes, w.windows) == (8, 2, 2)
    if not stream:
        assert (w.capacity.tolist(), w.current.tolist()) == ([2, 1], [0, 0, 1, 1, 0, 0, 1, 0])
        assert json.loads((tmp_path / "out" / "transitions.json").read_text())
        keys = pd.read_parquet(next((tmp_path / "out" / "runs").iterdir()) / "keys")
        counted = pd.DataFrame(rows).dropna().assign(load=lambda row: 1 + row["delay"]).groupby("tail")["load"].sum()
        assert keys.groupby("key")["load"].sum().to_dict() == counted.to_dict()
    kept = [row for row in rows if row["tail"] is not None]
    assert w.load[:, :4].sum() == len(kept)
    assert w.load[:, 4:].sum() == sum(1 + row["delay"] for row in kept)
    assert main(["solve", str(tmp_path / "out"), "--max-migrations", "2", "-m", "flux", "--json"]) == 0


UNITS = {
    "bytes": (["bytes", "event.sizeInBytes", "8"], {}, {"state": "bytes"}),
    "tuples and bytes": (["bytes", "1"], {}, {}),
    "numbers alone": (["8", "16"], {}, {}),
    "no bytes any more": (["bytes / 1000"], {}, {}),
    "named": (["bytes / 1000"], {"state": "KB", "load": "ms"}, {"state": "KB", "load": "ms"}),
    "named otherwise": (["bytes"], {"state": "pages"}, {"state": "pages"}),
}


@pytest.mark.parametrize(("states", "named", "units"), UNITS.values(), ids=UNITS)
def test_units_are_those_named_or_bytes_of_columns_called_so(states, named, units):
    topology = Topology([Operator(f"o{o}", key="k", state=state) for o, state in enumerate(states)])
    assert units_of({"topology": topology.to_dict(), **({"units": named} if named else {})}) == units


def test_the_shell_says_units_and_prints_them_beside_what_it_reads(spark, tmp_path, capsys):
    (tmp_path / "t.yaml").write_text("operators: [{name: a, key: tail, state: bytes, filter: bytes > 0}]")
    (tmp_path / "a.csv").write_text("tail,bytes\n" + "".join(f"N{i},3000\n" for i in range(20)))
    line = ["stats", tmp_path / "a.csv", "--topology", tmp_path / "t.yaml", "-o", tmp_path / "out", "--key-groups", "4"]
    line += ["--nodes", "2", "--schema", "tail string, bytes long"]
    for further, unit in (([], "bytes"), (["--state-unit", "KB"], "KB"), ([], "KB")):  # what was named stays
        assert main([str(part) for part in [*line, *further]]) == 0
        assert f"state in {unit}" in " ".join(capsys.readouterr().out.split())
        assert ks.read_workload(tmp_path / "out").units == {"state": unit}
    assert main(["solve", str(tmp_path / "out"), "--max-migrations", "0", "-m", "flux"]) == 0
    assert "state moved 0 KB" in " ".join(capsys.readouterr().out.split())


WRONG = {
    "another number": ({"nodes": 3, "capacities": "1,2"}, "--capacities names 2 nodes, --nodes 3"),
    "no capacity": ({"capacities": "1,0"}, "a capacity must be above 0"),
    "a word": ({"capacities": "1,b"}, "'b' is not a number"),
    "no such node": ({"nodes": 2, "draining": "2"}, "must be a whole number from 0 to 1"),
    "all go": ({"nodes": 2, "draining": "0,1"}, "at least one node must stay"),
    "no nodes": ({"draining": "0"}, "need --nodes or --capacities"),
    "no header": ({"nodes": 2, "current": "sum,0,1\n"}, "needs a header line"),
    "no operator": ({"nodes": 2, "current": "operator,key_group,node\nx,0,1\n"}, "line 2: there is no operator 'x'"),
    "no group": ({"nodes": 2, "current": "operator,key_group,node\nsum,4,1\n"}, "key_group = '4' must be"),
    "twice": (
        {"nodes": 2, "current": "operator,key_group,node\nsum,0,1\nsum,0,0\n"},
        "line 3: the key group is named twice",
    ),
    "no file": ({"nodes": 2, "current": None}, "does not exist"),
}


@pytest.mark.parametrize(("given", "message"), WRONG.values(), ids=WRONG)
def test_a_cluster_that_does_not_fit_is_refused(tmp_path, given, message):
    options = {"nodes": None, **given}
    if "current" in options:
        file = tmp_path / "now.csv"
        if options["current"] is not None:
            file.write_text(options["current"])
        options["current"] = file
    with pytest.raises(ks.InputError, match=message):
        read_cluster(("sum",), 4, options.pop("nodes"), "ranges", **options)
