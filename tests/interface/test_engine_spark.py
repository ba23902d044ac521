"""A plan applied in Spark: the native column is the table's look-up on every key, and rows land where it says."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from spark_frames import frame
from spark_oracle import spark_key_group

import keyshift as ks
from keyshift.models.placement import placement
from keyshift.spark_stats import Operator, Topology, collect_keys

pytest.importorskip("pyspark")
spark_engine = pytest.importorskip("keyshift.engines.spark")

pytestmark = pytest.mark.spark
SIGNS = (",", "\n", '"', "é", " ")
ODD = ["a,b", "c\nd", 'e"f', "", "é", "`g`", None, *[f"w{i}" for i in range(60)]]


def homes_of(keys, groups, nodes):
    """Home of each key; Spark's hash of nothing is its seed."""
    return placement("ranges", groups, nodes)[[42 % groups if k is None else spark_key_group(k, groups) for k in keys]]


def test_route_is_the_tables_lookup_on_odd_keys(spark):
    labels = [key for key in ODD if key is not None]
    home = homes_of(ODD, 16, 5)
    table = ks.RoutingTable(np.arange(0, len(labels), 3), (home[[ODD.index(k) for k in labels[::3]]] + 1) % 5)
    events = frame(spark, enumerate(ODD), "id int, `odd key` string")
    routed = spark_engine.route(events, table, key="odd key", nodes=5, labels=labels, key_groups=16)
    position = {key: i for i, key in enumerate(labels)}
    expected = [
        int(home[i]) if key is None else int(table.lookup([position[key]], [home[i]])[0]) for i, key in enumerate(ODD)
    ]
    assert [row["node"] for row in routed.orderBy("id").collect()] == expected
    assert routed.columns == ["id", "odd key", "node"]
    plan = routed._jdf.queryExecution().toString()
    assert "Python" not in plan
    assert "BroadcastHashJoin" in plan


@pytest.mark.slow
def test_route_is_the_tables_lookup_on_ten_million_keys(spark):
    """Texts with commas, newlines and quotes, and nulls; a table of 100,000 exceptions."""
    from pyspark.sql import functions as F

    def odd(i):
        return "k" + SIGNS[i % 5] + str(i)

    count, groups, nodes = 10_000_000, 1000, 20
    sign = F.element_at(F.array(*map(F.lit, SIGNS)), (F.col("id") % 5 + 1).cast("int"))
    text = F.when(F.col("id") % 1009 != 0, F.concat(F.lit("k"), sign, F.col("id")))
    events = spark.range(0, count, 1, 8).select("id", text.alias("k"))
    rng = np.random.default_rng(0)
    at = np.unique(rng.integers(0, count, 110_000))
    at = at[at % 1009 != 0][:100_000]
    table = ks.RoutingTable(np.arange(at.size), rng.integers(0, nodes, at.size))
    labels = [odd(i) for i in at.tolist()]
    routed = spark_engine.route(events, table, key="k", nodes=nodes, labels=labels, key_groups=groups)
    plan = routed._jdf.queryExecution().executedPlan().toString()
    assert "Python" not in plan
    homes = placement("ranges", groups, nodes)
    position = np.full(count, -1)
    position[at] = np.arange(at.size)
    seen = 0
    for first in range(0, count, count // 4):
        part = routed.where(f"id >= {first} and id < {first + count // 4}")
        found = part.select("id", "node", F.pmod(F.xxhash64("k"), F.lit(groups)).cast("int").alias("group")).toPandas()
        home = homes[found["group"].to_numpy()]
        entry = position[found["id"].to_numpy()]
        expected = np.where(entry >= 0, table.lookup(np.maximum(entry, 0), home), home)
        np.testing.assert_array_equal(found["node"], expected)
        seen += len(found)
        for i, group in found[["id", "group"]].iloc[1:200].itertuples(index=False):  # the hash is what it is said to be
            assert i % 1009 == 0 or group == spark_key_group(odd(i), groups)
    assert seen == count


def test_numbers_assignments_and_solutions(spark):
    events = spark.range(200).selectExpr("id % 50 as k")
    home = placement("ranges", 8, 4)
    group = {k: spark_key_group(k, 8) for k in range(50)}
    table = ks.RoutingTable([3, 49], [0, 2])
    routed = {
        row["k"]: row["node"] for row in spark_engine.route(events, table, key="k", nodes=4, key_groups=8).collect()
    }
    assert routed == {k: {3: 0, 49: 2}.get(k, home[g]) for k, g in group.items()}
    plan = (home + 1) % 4
    routed = {
        row["k"]: row["node"] for row in spark_engine.route(events, plan, key="k", nodes=4, key_groups=8).collect()
    }
    assert routed == {k: plan[g] for k, g in group.items()}

    chosen = events.where("k < 9 or id % 3 = 0")
    keys = collect_keys(chosen, Topology([Operator("a", key="k")]), key_groups=8)
    problem = keys.mixed_routing(4, 0.15, movable=30)
    solution = ks.solve(problem, "mixed")
    assert solution.assignment is not None
    routed = spark_engine.route(chosen, solution, key="k", nodes=4, key_groups=8)
    loads = Counter(row["node"] for row in routed.collect())
    assert max(loads.values()) <= 1.15 * sum(i % 50 < 9 or i % 3 == 0 for i in range(200)) / 4 + 1e-6


def test_a_partitioner_decides_as_it_does_outside(spark):
    keys = np.random.default_rng(1).integers(0, 20, 500)
    events = frame(spark, [(int(k),) for k in keys], "k bigint").coalesce(1)
    routed = spark_engine.route(events, ks.Partitioner("pkg", 5), key="k", nodes=5)
    expected = ks.Partitioner("pkg", 5).feed(keys)
    assert [row["node"] for row in routed.collect()] == expected.tolist()


def test_a_node_is_a_partition(spark):
    from pyspark.sql import functions as F

    events = spark.range(300).selectExpr("cast(id % 7 as int) as node")
    placed = spark_engine.partition_by_node(events, 7)
    pairs = placed.select("node", F.spark_partition_id().alias("p")).distinct().collect()
    assert {(row["node"], row["p"]) for row in pairs} == {(i, i) for i in range(7)}


WRONG = {
    "no column": ({"key": "x"}, "no column 'x'"),
    "a node too many": ({"plan": ks.RoutingTable([1], [4])}, "names node 4"),
    "no label": ({"plan": ks.RoutingTable([9], [1]), "labels": [1, 2]}, "there are 2 labels"),
    "labels of another type": ({"plan": ks.RoutingTable([0], [1]), "labels": ["a"]}, "does not fit column"),
    "a short plan": ({"plan": [0, 1]}, "plan"),
    "a node in a plan": ({"plan": [0, 1, 2, 3, 0, 1, 2, 4]}, "is not a node"),
    "no nodes": ({"nodes": 0}, "nodes = 0"),
    "workers": ({"plan": ks.Partitioner("pkg", 3)}, "has 3 workers, nodes = 4"),
}


@pytest.mark.parametrize(("changes", "message"), WRONG.values(), ids=WRONG)
def test_what_does_not_fit_is_refused(spark, changes, message):
    given = {"plan": ks.RoutingTable([1], [1]), "key": "id", "nodes": 4, "key_groups": 8, **changes}
    plan = given.pop("plan")
    with pytest.raises(ks.InputError, match=message):
        spark_engine.route(spark.range(5), plan, **given)


@pytest.mark.slow
def test_the_state_of_a_streaming_query(spark, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text("\n".join(f'{{"k": "key{i % 40}"}}' for i in range(200)))
    stream = spark.readStream.schema("k string").json(str(tmp_path / "in")).groupBy("k").count()
    writer = stream.writeStream.outputMode("complete").format("noop").option("checkpointLocation", str(tmp_path / "c"))
    writer.trigger(availableNow=True).start().awaitTermination()
    sizes = spark_engine.read_state(str(tmp_path / "c"), spark=spark)
    assert sizes["rows"].sum() == 40
    assert (sizes["bytes"] > 0).all()
    assert sizes["partition"].is_monotonic_increasing
    with pytest.raises(ks.InputError):
        spark_engine.read_state(str(tmp_path / "nowhere"), spark=spark)
