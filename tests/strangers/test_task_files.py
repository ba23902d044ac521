"""Storm and Kafka Streams: rules name components, supervisors, subtopologies and hosts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import keyshift as ks
from keyshift.engines import kafka_streams, storm
from keyshift.rules import read_rule

CLUSTERS = Path(__file__).parent / "data" / "clusters"


def test_components_and_supervisors_of_storm():
    w = storm.read_workload(CLUSTERS / "f13-storm.json")
    assert w.groups["component"] == ("count",) * 4 + ("ack",) * 2
    assert w.domains["supervisor"] == ("n1", "n1", "n2")
    found = ks.solve(
        ks.KeyGroupAllocation(w, rules=[read_rule("even component"), read_rule("even component supervisor")])
    )
    for component, most in (("count", 2), ("ack", 1)):
        held = np.bincount(found.assignment[[c == component for c in w.groups["component"]]], minlength=3)
        assert held.max() == most


def test_subtopologies_and_hosts_of_streams(tmp_path):
    w = kafka_streams.read_workload(CLUSTERS / "f2-streams.json")
    assert set(w.groups["subtopology"]) == {"0", "1"}
    assert w.domains == {}
    content = json.loads((CLUSTERS / "f2-streams.json").read_text())
    content["processes"][0]["host"] = "a"
    (tmp_path / "f.json").write_text(json.dumps(content))
    with pytest.raises(
        ks.InputError, match="some processes have a host, and 00000000-0000-0000-0000-000000000002 has none"
    ):
        kafka_streams.read_workload(tmp_path / "f.json")
    content["processes"][1]["host"] = "b"
    (tmp_path / "f.json").write_text(json.dumps(content))
    w = kafka_streams.read_workload(tmp_path / "f.json")
    assert w.domains["host"] == ("a", "b")
    found = ks.solve(ks.KeyGroupAllocation(w, rules=[read_rule("even subtopology host")]))
    assert np.bincount(found.assignment[:8]).tolist() == [4, 4]
