"""Labels are kept: whatever has them is put into one order, at every door, or refused with both orders named."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keyshift as ks
from keyshift.engines import flink
from keyshift.generators.routing import ZipfStream
from keyshift.heuristics.splitting.chooser import choose_splitting
from keyshift.models import InputError
from keyshift.models.intervals.policy.transitions import node_counts, transition_matrix
from keyshift.models.placement import rehashed
from keyshift.models.routing.table import RoutingTable
from keyshift.plans.saved import compare_measured

ROOT = Path(__file__).parents[2]
KEYS, NODES, STEPS = ["b", "a", "d", "c"], ["n2", "n0", "n1"], [10, 20, 30]
ROWS = ["r3", "r1", "r2", "r0"]
ORDERS = {"key": KEYS, "node": NODES, "row": ROWS, "row in time": ROWS, "time": STEPS, "": None}
FIXED = ("row in time", "time", "")
LOAD, STATE, CURRENT, HOME = [4, 1, 2, 3], [7.0, 5, 6, 9], [0, 1, 1, 2], [1, 1, 2, 0]
TRAFFIC = np.arange(16.0).reshape(4, 4) * (1 - np.eye(4))

Give = Callable[..., Any]


class Giver:
    """Hands data to a door: as they are; or some of them with labels, in an order of their own."""

    def __init__(self, rng: np.random.Generator | None = None, share: float = 0.0) -> None:
        self.rng, self.share, self.cast = rng, share, dict[str, bool]()

    def __call__(self, name: str, values: Any, *axes: str) -> Any:
        """Data with an axis of keys, nodes, rows or times for each dimension; rows are all labelled, or none, times in order."""
        shared = "rows" if any(axis.startswith("row") for axis in axes) else name
        if self.rng is None or not self.cast.setdefault(shared, self.rng.random() < self.share):
            return values
        table, rng = np.asarray(values), self.rng
        orders = [
            np.arange(n) if axis in FIXED else rng.permutation(n) for n, axis in zip(table.shape, axes, strict=True)
        ]
        labels = [ORDERS[axis] and [ORDERS[axis][i] for i in order] for axis, order in zip(axes, orders, strict=True)]
        table = table[np.ix_(*orders)]
        return pd.Series(table, labels[0]) if table.ndim == 1 else pd.DataFrame(table, *labels)


PLAIN = Giver()


def workload(give: Give = PLAIN, **more: Any) -> ks.Workload:
    given = {
        "load": give("load", [LOAD, LOAD[::-1], LOAD], "time", "key"), "state": give("state", STATE, "key"),
        "current": give("current", CURRENT, "key"), "home": give("home", HOME, "key"),
        "operator": give("operator", [0, 1, 1, 0], "key"), "traffic": give("traffic", TRAFFIC, "key", "key"),
        "resources": {"memory": give("resources", [1, 2, 3, 4], "key")},
        "groups": {"topic": give("groups", ["t", "u", "t", "v"], "key")}, "keys": KEYS,
        "nodes": give("nodes", [1.0, 2.0, 3.0], "node"), "draining": give("draining", [False, True, False], "node"),
        "domains": {"rack": give("domains", ["x", "y", "z"], "node")}, "node_names": NODES,
    }  # fmt: skip
    return ks.Workload(**(given | more))


def shown(w: ks.Workload) -> Any:
    return [
        str(w.arguments() | {"traffic": w.traffic.toarray().tolist()}),
        [t.toarray().tolist() for t in w.window_traffic],
    ]


def allocation(give: Give) -> Any:
    limits = {"memory": give("resource_capacity", [9, 4, 8], "node")}
    p = ks.KeyGroupAllocation(
        workload(), resource_capacity=limits, over="mean",
        scenarios=give("scenarios", [[1, 2, 3, 4], [4, 4, 1, 1], [2, 2, 9, 0], [7, 1, 0, 0]], "row", "key"),
        probabilities=give("probabilities", [0.125, 0.25, 0.5, 0.125], "row"),
    )  # fmt: skip
    rows = sorted(zip(p.planned.share.tolist(), p.planned.load.tolist(), strict=True))
    return rows, p.resource_capacity["memory"].tolist()


def checked(give: Give) -> Any:
    given = give("assignment", [0, 2, 2, 0], "key")
    problems = [
        ks.MCLB(workload(nodes=3)), ks.KeyGroupAllocation(workload(nodes=3)), ks.CollocatedAllocation(workload(nodes=3)),
        ks.MovementWithinLimits(workload(nodes=3), 0, 99), ks.MixedRouting(workload(nodes=3), theta_max=9, max_table_size=4),
        ks.IntervalMigration(workload(nodes=3), nodes_after=2, tau=9.0),
    ]  # fmt: skip
    table = RoutingTable.of(workload(nodes=3), give("assignment", [0, 2, 2, 0], "key"))
    return [p.canonical(given).tolist() for p in problems], table.keys.tolist(), table.nodes.tolist()


def started(give: Give) -> Any:
    p = ks.KeyGroupAllocation(workload(draining=None))
    best = ks.solve(p, "milp")
    return ks.solve(p, "milp", start=give("start", best.assignment, "key"), time_limit=0.0).objective


def planned(give: Give) -> Any:
    p = ks.KeyGroupAllocation(workload())
    made = ks.plan(
        p, give("solution", [0, 2, 0, 2], "key"), give("bandwidth", [1.0, 2.0, 4.0], "node"),
        max_on_the_way={"load": give("max_on_the_way", [20, 21, 22], "node")},
    )  # fmt: skip
    measured = compare_measured(made, {"load": give("measured", [1.0, 2.0, 3.0], "node")})
    return made.seconds, made.assignment.tolist(), made.limits["load"].tolist(), measured["measured"].tolist()


def splitting(give: Give) -> Any:
    p = ks.KeySplitting(
        give("stream", [7, 8, 9, 7], "row"), workers=2, weights=give("weights", [1.0, 2, 3, 4], "row"),
        feed="key", source_keys=give("source_keys", [1, 2, 3, 4], "row"), sources=2,
    )  # fmt: skip
    keys = [key for part in p.stream.chunks() for key in part.tolist()]
    return sorted(zip(keys, p.weights.tolist(), p.source_keys.tolist(), strict=True))


def partitioned(give: Give) -> Any:
    made = ks.Partitioner("greedy-d", 2, 2)
    made.feed(
        give("keys", [7, 7, 7, 7], "row"),
        give("weights", [5.0, 5.0, 5.0, 5.0], "row"),
        give("source_keys", [1, 1, 1, 1], "row"),
    )
    return made.imbalance


def tables(give: Give) -> Any:
    table = RoutingTable(give("keys", [3, 1, 0, 2], "row"), give("nodes", [1, 0, 2, 5], "row"))
    kept = sorted(zip(table.keys.tolist(), table.nodes.tolist(), strict=True))
    asked = give("lookup_keys", [9, 8, 7, 6], "row")
    return kept, sorted(table.lookup(asked, give("home", [1, 2, 3, 4], "row")).tolist())


def simulated(give: Give) -> Any:
    w = workload(load=[9, 9, 1, 1])
    run = ks.simulate(
        w, give("routing", [0, 1, 1, 2], "key"), service_rate=give("service_rate", [1.0, 2.0, 9.0], "node"), window_seconds=5,
        method="fluid",
    )  # fmt: skip
    return str(run.as_record())


def logged(give: Give) -> Any:
    log = (
        give("times", [0.0, 1.0, 2.0, 3.0], "row in time"), give("keys", [0, 0, 1, 1], "row"), give("work", [1.0, 1.0, 1.0, 1.0], "row")
    )  # fmt: skip
    return str(ks.simulate(log, [0, 0], service_rate=2.0, window_seconds=2, seed=1).as_record())


DOORS: dict[str, Callable[[Give], Any]] = {
    "workload": lambda give: shown(workload(give)),
    "allocation": allocation, "checked": checked, "started": started, "planned": planned, "splitting": splitting,
    "partitioned": partitioned, "tables": tables, "simulated": simulated,
    "sequence": lambda give: ks.MigrationSequence(workload(nodes=3), give("node_counts", [3, 2, 3], "time"), 2.0).counts,
    "in steps": lambda give: ks.MigrationSequence(workload(nodes=3), [3, 3], 9.0)
    .canonical(give("assignment", [[0, 0, 2, 2], [0, 2, 2, 0]], "", "key")).tolist(),
    "transitions": lambda give: (
        transition_matrix(give("counts", [3, 2, 3], "time")),
        node_counts(give("arrivals", [3.0, 2.0, 9.0], "time"), 1, 4).tolist(),
    ),
    "chooser": lambda give: choose_splitting(
        dict(zip(KEYS, LOAD, strict=True)) if isinstance(counts := give("histogram", LOAD, "key"), list) else counts, 2, 0.05,
    ).split,
    "flink": lambda give: flink.loads_of(give("groups", [3, 1, 1, 2], "row"), give("weights", [1.0, 2, 3, 4], "row"), 4).tolist(),
    "stream": lambda give: ZipfStream(frequencies=give("frequencies", [4.0, 1, 2, 3], "key"), nodes=2).keys,
    "rehashed": lambda give: rehashed(give("home", [0, 1, 1, 0], "row"), [0, 1, 2], 2).tolist(),
}  # fmt: skip


REFUSED = ("stream", "rehashed")
"""Doors at which nothing says an order."""


@pytest.mark.parametrize("door", DOORS)
@given(seed=st.integers(0, 2**32 - 1), share=st.sampled_from([0.3, 0.7, 1.0]))
@settings(max_examples=40, deadline=None)
def test_data_in_any_order_mean_the_same(door, seed, share):
    give = Giver(np.random.default_rng(seed), 1.0 if door in REFUSED else share)
    if door in REFUSED:
        with pytest.raises(InputError, match=r"labelled '.*', '.*'"):
            DOORS[door](give)
        return
    assert DOORS[door](give) == DOORS[door](PLAIN)


# That there is no other door ------------------------------------------------------------------------------------------------

ALONE = "one array, whose order is that of the answer, or which goes on to Workload"
WHERE = {
    "models/splitting/data.py read_speeds workers": ALONE, "models/intervals/step.py heaviest_matching one": "inside",
    "models/intervals/step.py heaviest_matching other": "inside", "models/placement.py _draws node": "inside",
    "models/base/disk.py digest_of_arrays arrays": "inside", "models/workload.py _capacities nodes": "workload",
    "interface/generators/routing.py consistent_hash keys": ALONE, "interface/generators/routing.py workload current": ALONE,
    "interface/simulation/changes.py Migration state": "refused", "interface/engines/flink.py read_workload shares": "refused",
    "interface/engines/flink.py workload_of shares": "refused", "interface/engines/flink.py _parts shares": "refused",
    "interface/engines/flink.py key_groups keys": ALONE, "interface/engines/flink.py subtasks groups": ALONE,
    "interface/engines/spark.py route plan": "refused", "interface/engines/spark.py _assignment plan": "refused",
    "heuristics/splitting/partitioner.py __init__ workers": ALONE, "heuristics/splitting/chooser.py _read histogram": "chooser",
    "interface/plans/making.py plan solution": "planned", "interface/plans/making.py plan bandwidth": "planned",
    "interface/plans/making.py plan max_on_the_way": "planned", "models/objectives.py OverWindows scenarios": "allocation",
    "models/objectives.py OverWindows probabilities": "allocation", "models/routing/problem.py MixedRouting scenarios": "allocation",
    "interface/simulation/running.py simulate service_rate": "simulated", "interface/simulation/running.py _setting service_rate": "simulated",
    "models/intervals/policy/transitions.py transition_matrix counts": "transitions", "models/placement.py rehashed home": "rehashed",
    "models/placement.py rehashed nodes": "a set of numbers", "models/intervals/step.py MigrationSequence node_counts": "sequence",
    "interface/generators/routing.py __init__ frequencies": "stream", "heuristics/splitting/chooser.py choose_splitting histogram": "chooser",
    "interface/engines/flink.py loads_of groups": "flink", "interface/engines/flink.py loads_of weights": "flink",
    **{f"heuristics/splitting/partitioner.py feed {name}": "partitioned" for name in ("keys", "weights", "source_keys")},
    **{f"models/routing/table.py __init__ {name}": "tables" for name in ("keys", "nodes")},
    **{f"models/routing/table.py lookup {name}": "tables" for name in ("keys", "home")},
    **{f"models/routing/table.py {name} home": "tables" for name in ("assignment", "migrations")},
    **{f"models/allocation/problem.py KeyGroupAllocation {name}": "allocation" for name in ("resource_capacity", "scenarios", "probabilities")},
    **{f"models/collocation/problem.py CollocatedAllocation {name}": "allocation"
       for name in ("resource_capacity", "scenarios", "probabilities")},
    **{f"models/workload.py __init__ {name}": "workload" for name in
       ("load", "state", "current", "nodes", "draining", "operator", "home", "resources")},
}  # fmt: skip
"""Every parameter that is annotated as an array, and the door above at which it is tried, or why it is not."""


def array_parameters() -> set[str]:
    found = set()
    for folder in ("models", "heuristics", "interface", "solvers"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                parts: list[tuple[str, ast.expr | None]] = []
                if isinstance(node, ast.FunctionDef):
                    every = [*node.args.args, *node.args.kwonlyargs]
                    parts = [(one.arg, one.annotation) for one in every]
                elif isinstance(node, ast.ClassDef):
                    parts = [
                        (one.target.id, one.annotation)
                        for one in node.body
                        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
                    ]
                at = f"{file.relative_to(ROOT)} {getattr(node, 'name', '')}"
                found |= {
                    f"{at} {name}" for name, kind in parts if kind is not None and "ArrayLike" in ast.unparse(kind)
                }
    return found


def test_every_parameter_that_takes_an_array_is_tried():
    missing = array_parameters() - set(WHERE) - {f"models/base/guards.py {name}" for name in ("non_negative values",)}
    assert {name for name in missing if not name.startswith(("models/base/guards.py", "solvers/"))} == set()
    assert set(WHERE) - array_parameters() == set()
    assert set(WHERE.values()) <= {*DOORS, ALONE, "inside", "refused", "a set of numbers"}


def test_every_parameter_of_a_workload_is_tried():
    class Noted(dict):
        def __call__(self, name, values, *axes):
            self[name] = axes
            return values

    noted = Noted()
    workload(noted)
    assert set(inspect.signature(ks.Workload).parameters) == {*noted, "keys", "node_names", "units"}


# What is not aligned by names alone -----------------------------------------------------------------------------------------


def test_the_labels_are_the_names_where_none_are_given():
    df = pd.DataFrame({"key": list("aabbbbbc"), "bytes": [1, 1, 2, 2, 2, 2, 2, 50]})
    load, state = df.key.value_counts(), df.groupby("key").bytes.sum()
    nodes = pd.Series({"x": 1.0, "y": 2.0})
    current = pd.Series({"c": 1, "a": 0, "b": 0})
    w = ks.Workload(load=load, state=state, current=current, nodes=nodes, draining=pd.Series({"y": True, "x": False}))
    assert w.keys == ("b", "a", "c")
    assert (w.last_load.tolist(), w.state.tolist(), w.current.tolist()) == ([5, 2, 1], [10, 2, 50], [0, 0, 1])
    assert (w.node_names, w.draining.tolist()) == (("x", "y"), [False, True])
    listed = ks.Workload(load=load, state=state, current=current, nodes=2, keys=["a", "b", "c"])
    assert listed.last_load.tolist() == [2, 5, 1]


def test_keys_with_labels_of_their_own_decide_by_name_or_by_label():
    frame = pd.DataFrame({"key": ["a", "b", "c"], "load": [1, 2, 3]}, index=[9, 4, 7])
    turned = frame.sort_index()
    w = ks.Workload(load=turned.load, state=frame.load, current=[0, 0, 0], nodes=1, keys=frame.key)
    assert (w.keys, w.last_load.tolist(), w.state.tolist()) == (("a", "b", "c"), [1, 2, 3], [1, 2, 3])
    by_name = ks.Workload(
        load=turned.set_index("key").load, state=[1, 2, 3], current=[0, 0, 0], nodes=1, keys=frame.key
    )
    assert by_name.last_load.tolist() == [1, 2, 3]


def test_a_default_index_says_nothing_unless_another_turns_it():
    frame = pd.DataFrame({"load": [1, 2, 3], "state": [4, 5, 6]})
    w = ks.Workload(
        load=frame.load, state=frame.sort_values("state", ascending=False).state, current=[0, 0, 0], nodes=1
    )
    assert (w.last_load.tolist(), w.state.tolist(), w.keys) == ([1, 2, 3], [4, 5, 6], None)
    named = ks.Workload(load=frame.load, state=pd.Series([4, 5, 6], ["a", "b", "c"]), current=[0, 0, 0], nodes=1)
    assert named.keys == ("a", "b", "c")


def test_frames_put_one_under_another_are_read_as_they_stand():
    frame = pd.concat([pd.DataFrame({"load": [1, 2]}), pd.DataFrame({"load": [3]})])
    w = ks.Workload(load=frame.load, state=frame.load, current=[0, 0, 0], nodes=1)
    assert (w.last_load.tolist(), w.keys) == ([1, 2, 3], None)


def test_several_levels_are_joined_as_from_frame_joins_them():
    frame = pd.DataFrame({"topic": ["t", "t", "u"], "partition": [0, 1, 0], "load": [1, 2, 3]})
    load = frame.groupby(["topic", "partition"]).load.sum()
    w = ks.Workload(load=load, state=load[::-1], current=[0, 0, 0], nodes=1)
    assert w.keys == ks.Workload.from_frame(frame.assign(state=1, node=0), key=["topic", "partition"]).keys
    assert w.state.tolist() == [1, 2, 3]


def test_mappings_are_labels_too():
    given = {"load": {"a": 1, "b": 2}, "state": {"b": 5, "a": 6}, "current": [0, 1], "nodes": {"x": 1.0, "y": 2.0}}
    w = ks.Workload(**given, groups={"topic": {"b": "t", "a": "u"}}, domains={"rack": {"y": "r", "x": "s"}})
    assert (w.keys, w.state.tolist()) == (("a", "b"), [6, 5])
    assert (w.groups["topic"], w.domains["rack"]) == (("u", "t"), ("s", "r"))


S = pd.Series


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"state": S([1, 2], ["a", "x"])},
            "state has no 'b', which load has: state is labelled 'a', 'x', and load 'a', 'b'",
        ),
        ({"state": S([1, 2, 3], ["a", "b", "b"])}, "state is labelled 'b' twice, at 1 and at 2"),
        ({"state": S([1], ["a"])}, "state has no 'b', which load has"),
        ({"keys": ["b", "c"]}, "load is labelled 'a', 'b', but keys are 'b', 'c'"),
        ({"load": S([1, 2], ["a", None])}, "load has no label at 1"),
        ({"traffic": pd.DataFrame(np.ones((2, 2)), ["a", "b"], ["a", "c"])}, "traffic has no 'b', which load has"),
        (
            {"load": pd.DataFrame({"w0": [1, 2], "w1": [3, 4]}, ["a", "b"]), "state": S([1, 2], ["b", "a"])},
            "give load.T",
        ),
        ({"load": pd.DataFrame([[1, 2], [3, 4]], [20, 10], ["a", "b"])}, "its labels do not rise: 20, 10"),
        ({"resources": {"memory": S([1, 2], ["a", "z"])}}, "resources['memory'] has no 'b'"),
        ({"keys": {"a", "b"}}, "keys must be a list, in order, not a set"),
        ({"groups": {"topic": {"t", "u"}}}, "groups['topic'] must be a list, in order, not a set"),
        (
            {"nodes": {"x": 1.0, "y": 1.0}, "draining": S([True], ["z"])},
            "draining is labelled 'z', but node_names are 'x', 'y'",
        ),
        ({"load": pl.DataFrame({"key": ["a", "b"], "count": [1, 2]})}, "load is a table (DataFrame), not an array"),
        ({"load": pl.LazyFrame({"key": ["a"], "count": [1]})}, "Workload.from_frame, which reads columns by name"),
        ({"state": pa.table({"key": ["a", "b"], "count": [1, 2]})}, "state is a table (Table), not an array"),
        ({"traffic": pl.DataFrame({"a": [0, 1], "b": [1, 0]})}, "traffic is a table"),
        ({"keys": pl.DataFrame({"key": ["a", "b"]})}, "keys is a table"),
    ],
)
def test_what_cannot_be_aligned_is_refused(change, said):
    given = {"load": S([1, 2], ["a", "b"]), "state": [1, 2], "current": [0, 0], "nodes": 2}
    with pytest.raises(InputError) as refused:
        ks.Workload(**(given | change))
    assert said in str(refused.value)


def test_columns_of_polars_and_arrow_have_no_labels():
    w = ks.Workload(
        load=pl.Series([1, 2]), state=pa.array([3, 4]), current=pl.Series([0, 1]), nodes=2, keys=pl.Series(["a", "b"])
    )
    assert (w.last_load.tolist(), w.state.tolist(), w.keys) == ([1, 2], [3, 4], ("a", "b"))


def test_an_assignment_is_held_against_the_keys():
    p = ks.KeyGroupAllocation(ks.Workload(load=[1, 2], state=[1, 1], current=[0, 0], nodes=2, keys=["a", "b"]))
    assert p.check(S({"b": 1, "a": 0})).metrics["migrations"] == 1
    assert p.canonical(S({"b": 1, "a": 0})).tolist() == [0, 1]
    assert p.canonical(S([0, 1])).tolist() == [0, 1]
    with pytest.raises(InputError, match="assignment is labelled 'x', 'a', and the workload's key groups 'a', 'b'"):
        p.check(S({"x": 1, "a": 0}))
    unnamed = ks.KeyGroupAllocation(ks.Workload(load=[1, 2], state=[1, 1], current=[0, 0], nodes=2))
    assert unnamed.canonical(S({1: 1, 0: 0})).tolist() == [0, 1]
    with pytest.raises(InputError, match="key groups 0, 1"):
        unnamed.check(S({"b": 1, "a": 0}))


def test_traffic_of_windows_is_aligned_window_by_window():
    one, other = (
        pd.DataFrame([[0, 1], [2, 0]], ["a", "b"], ["a", "b"]),
        pd.DataFrame([[0, 3], [4, 0]], ["b", "a"], ["b", "a"]),
    )
    w = ks.Workload(load=[[1, 2], [1, 2]], state=[1, 1], current=[0, 0], nodes=1, traffic=[one, other], keys=["a", "b"])
    assert [part.toarray().tolist() for part in w.window_traffic] == [[[0, 1], [2, 0]], [[0, 4], [3, 0]]]


def test_a_list_of_series_is_aligned_window_by_window():
    one, other = S({"a": 1, "b": 2}), S({"b": 4, "a": 3})
    w = ks.Workload(load=[one, other], state=S({"b": 6, "a": 5}), current=[0, 0], nodes=2)
    assert (w.load.tolist(), w.state.tolist(), w.keys) == ([[1, 2], [3, 4]], [5, 6], ("a", "b"))
    p = ks.KeyGroupAllocation(w, scenarios=[other, one])
    assert p.planned.load.tolist() == [[3, 4], [1, 2]]
    with pytest.raises(InputError, match=r"load\[1\] has no 'b', which load\[0\] has"):
        ks.Workload(load=[one, S({"a": 1, "c": 2})], state=[1, 1], current=[0, 0], nodes=2)
    with pytest.raises(InputError, match=r"stream\[0\] is labelled 'a', 'b'"):
        ks.simulate([one, other], [0, 0], service_rate=9, window_seconds=1)
