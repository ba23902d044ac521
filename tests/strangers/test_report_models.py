"""Public reports of modellers - bins, partitions, shards, territories: the right value is found by trying all assignments."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

import keyshift as ks
from keyshift.models import InputError
from keyshift.rules import Apart, Never, Only, Together

BOTH = ("load_distance", "migrations")


def least(load, current, nodes, keeps=lambda place: True, capacity=1.0) -> tuple[float, int]:
    """The least load distance, and the fewest moves with it: all assignments are tried."""
    load, capacity = np.array(load, float), np.broadcast_to(np.array(capacity, float), nodes)
    mean = load.sum() / capacity.sum()
    tried = (place for place in itertools.product(range(nodes), repeat=len(load)) if keeps(place))
    return min(
        (
            round(float(np.abs(np.bincount(place, load, nodes) / capacity - mean).max()), 9),
            sum(map(int.__ne__, place, current)),
        )
        for place in tried
    )


def told(problem) -> tuple[float, int]:
    """Load distance and moves of an answer that is proven."""
    answer = ks.solve(problem)
    assert answer.status == "optimal"
    return round(answer.objective, 9), int(answer.metrics["migrations"])


def test_or_tools_4599_bins_that_are_too_small():
    """Weights are multiples of 6 and sum to 444, so four bins need 114 where 100 is given: tried."""
    weights = [48, 30, 42, 36, 36, 48, 42, 42, 36, 24, 30, 30]
    w = ks.Workload(load=weights, state=weights, current=[0] * 12, nodes=4)
    assert ks.solve(ks.KeyGroupAllocation(w, resource_capacity={"load": [113] * 4})).status == "infeasible"
    assert ks.solve(ks.KeyGroupAllocation(w, resource_capacity={"load": [114] * 4})).status == "optimal"
    limit = next(
        r for r in ks.remedies(ks.KeyGroupAllocation(w, resource_capacity={"load": [100] * 4})) if "load" in r.limit
    )
    assert (limit.value, limit.proven) == (pytest.approx(1.14), True)


def test_or_tools_1799_scores_under_two_capacities():
    cpu, memory, score = [4, 3, 2, 6, 1, 5, 2], [8, 2, 9, 4, 4, 1, 6], [3, 7, 1, 4, 9, 2, 6]
    most = {"cpu": [10, 8, 6], "mem": [12, 14, 12]}
    w = ks.Workload(load=score, state=[1] * 7, current=[0] * 7, nodes=3, resources={"cpu": cpu, "mem": memory})

    def fits(place):
        sums = {"cpu": np.bincount(place, cpu, 3), "mem": np.bincount(place, memory, 3)}
        return all((sums[name] <= limit).all() for name, limit in most.items())

    right = least(score, [0] * 7, 3, fits)
    assert told(ks.KeyGroupAllocation(w, resource_capacity=most, priorities=BOTH)) == right
    assert right[0] == pytest.approx(4 / 3)


@pytest.mark.parametrize("words", [False, True], ids=["python", "words"])
def test_citus_docs_900_a_hot_shard_on_the_large_worker_alone(words):
    """Shard ids of digits, sizes on disk, a worker of double size that runs shard 102008 and no other."""
    ids = [f"1020{n:02}" for n in range(8, 15)]
    size, now = [90, 10, 20, 30, 25, 15, 40], [0, 0, 1, 1, 1, 0, 0]
    w = ks.Workload(load=size, state=size, current=now, nodes={"w-1": 1, "w-2": 1, "w-3": 2}, keys=ids)
    rules = (
        ["only 102008 w-3", f"never {','.join(ids[1:])} w-3"]
        if words
        else [Only("102008", "w-3"), Never(ids[1:], "w-3")]
    )
    right = least(size, now, 3, lambda place: place[0] == 2 and 2 not in place[1:], [1, 1, 2])
    assert told(ks.KeyGroupAllocation(w, rules=rules, priorities=BOTH)) == right == (12.5, 3)


def test_citus_6739_tables_of_one_shard_move_by_colocation_group():
    load, group = [4, 4, 1, 1, 1, 6, 2], ["b", "b", "t", "t", "t", "u", "u"]
    w = ks.Workload(load=load, state=load, current=[0] * 7, nodes=2, groups={"colocation": group})
    right = least(load, [0] * 7, 2, lambda place: len(set(zip(group, place, strict=True))) == 3)
    problem = ks.KeyGroupAllocation(w, rules=[Together(by="colocation")], priorities=BOTH)
    assert told(problem) == right == (1.5, 2)


@pytest.mark.parametrize("words", [False, True], ids=["python", "words"])
def test_proxlb_35_virtual_machines_of_different_groups_never_share_a_host(words):
    """Ids are numbers; those of one group may share a host."""
    ids, group, load, now = (
        [101, 102, 103, 201, 202, 203, 301, 302],
        [1, 1, 1, 2, 2, 2, 3, 3],
        [7, 5, 3, 6, 2, 4, 5, 1],
        [0, 1, 2, 0, 1, 2, 0, 3],
    )
    w = ks.Workload(
        load=load, state=load, current=now, nodes=4, keys=ids, node_names=["igel53", "igel54", "igel55", "igel56"]
    )
    pairs = [(a, b) for (a, g), (b, h) in itertools.combinations(zip(ids, group, strict=True), 2) if g != h]
    rules = [f"apart key_groups={a},{b}" for a, b in pairs] if words else [Apart(list(pair)) for pair in pairs]
    right = least(load, now, 4, lambda place: len(set(zip(group, place, strict=True))) == len(set(place)))
    assert told(ks.KeyGroupAllocation(w, rules=rules, priorities=BOTH)) == right


def test_pvecontrol_68_machines_in_a_table_of_pandas():
    """Ids are texts of digits, and one node has no machine: it has to be named."""
    table = pd.DataFrame({"vmid": ["100", "101", "102", "110", "111", "200"], "node": ["pve-1", "pve-1", "pve-1", "pve-2", "pve-2", "pve-1"],
                          "mem": [8, 4, 4, 2, 2, 6]})  # fmt: skip
    w = ks.Workload.from_frame(table, load="mem", state="mem", key="vmid", nodes=["pve-1", "pve-2", "pve-3"])
    problem = ks.KeyGroupAllocation(w, rules=[Apart(["100", "101", "102"])], priorities=BOTH)
    right = least(table.mem, [0, 0, 0, 1, 1, 0], 3, lambda place: len(set(place[:3])) == 3)
    assert told(problem) == right


def test_pfizer_territories_between_two_limits():
    """Workloads 0.72, 1.00, 0.83 and 1.45 are to be between 0.8 and 1.2, with as few bricks as possible in other hands. Representatives 1 to 4."""
    load, now = [0.16, 0.21, 0.35, 0.30, 0.42, 0.28, 0.50, 0.33, 0.87, 0.58], [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]
    w = ks.Workload(load=load, state=[1] * 10, current=now, nodes=4, node_names=[1, 2, 3, 4])
    answer = ks.solve(ks.MovementWithinLimits(w, lower=0.8, upper=1.2, nodes_after=4))
    assert (answer.objective, answer.status) == (
        2,
        "optimal",
    )  # one brick moves: of 4, either 3 keeps too much or 1 too little
    sums = np.bincount(answer.assignment, load, 4)
    assert sums.min() >= 0.8 - 1e-9
    assert sums.max() <= 1.2 + 1e-9
    alone = (np.bincount([*now[:k], i, *now[k + 1 :]], load, 4) for k in range(10) for i in range(4))
    assert not any(sums.min() >= 0.8 and sums.max() <= 1.2 for sums in alone)


def test_prtpy_9_numbers_that_are_there_twice():
    assert (
        told(ks.KeyGroupAllocation(ks.Workload(load=[13, 9, 21, 21], state=[1] * 4, current=[0] * 4, nodes=2)))[0] == 2
    )


def test_prtpy_15_three_bins_that_are_exactly_full():
    """150 in bins of 50: three are enough, all full; of two bins the remedy says that."""
    load = [31, 12, 7, 20, 18, 9, 3, 25, 14, 11]
    w = ks.Workload(load=load, state=load, current=[0] * 10, nodes=3)
    assert told(ks.KeyGroupAllocation(w, rules=["use load 50"]))[0] == 0
    two = ks.KeyGroupAllocation(ks.Workload(load=load, state=load, current=[0] * 10, nodes=2), rules=["use load 50"])
    more = next(r for r in ks.remedies(two) if r.limit == "nodes")
    assert (more.value, more.proven) == (3, True)


@pytest.mark.parametrize("order", range(3))
def test_prtpy_17_the_order_of_the_numbers_does_not_matter(order):
    """Sixty numbers of five digits with an odd sum: halves that differ by 1 are best, and there are such."""
    load = np.random.default_rng(5).integers(10_000, 99_999, 60)
    load[-1] += 1 - load.sum() % 2
    load = np.random.default_rng(order).permutation(load)
    assert told(ks.KeyGroupAllocation(ks.Workload(load=load, state=load, current=[0] * 60, nodes=2)))[0] == 0.5


@pytest.mark.parametrize("method", ["milp", "cp-sat", "highs"])
def test_python_mip_337_optimal_is_a_proof(method):
    """Thirteen numbers of nine digits: the best halves differ by 715,041, tried; a bound within half a unit says so."""
    load = [
        482913377,
        291834411,
        775120933,
        118843209,
        663012857,
        905521143,
        377402291,
        540998761,
        820013467,
        159744031,
        702255019,
        436190729,
        268317753,
    ]
    right = min(abs(2 * sum(part) - sum(load)) for size in range(7) for part in itertools.combinations(load, size)) / 2
    w = ks.Workload(load=load, state=[1] * 13, current=[0] * 13, nodes=2)
    answer = ks.solve(ks.KeyGroupAllocation(w), method, gap=0)
    assert answer.objective == right == 357520.5
    assert answer.status != "optimal" or answer.bound > right - 0.5


def test_ompr_264_a_product_of_each_group_in_each_week():
    sales, group, now = [120, 90, 75, 60, 200, 40, 55, 110], ["g1"] * 4 + ["g2"] * 4, [0] * 4 + [1] * 4
    names = [f"week {n}" for n in range(1, 5)]
    w = ks.Workload(load=sales, state=[1] * 8, current=now, nodes=4, node_names=names, groups={"group": group})
    right = least(sales, now, 4, lambda place: len(set(place[:4])) == len(set(place[4:])) == 4)
    assert told(ks.KeyGroupAllocation(w, rules=["apart group"], priorities=BOTH)) == right == (72.5, 6)


def test_binpacking_6_at_most_three_in_a_bin():
    """42 in four bins are 11, 11, 10, 10 at best, so 11 is the least limit that has room."""
    load = [9, 8, 2, 2, 2, 1, 1, 1, 1, 6, 5, 4]
    w = ks.Workload(load=load, state=load, current=[0] * 12, nodes=4)
    assert told(ks.KeyGroupAllocation(w, rules=["count 3", "use load 11"]))[0] == 0.5
    use = next(r for r in ks.remedies(ks.KeyGroupAllocation(w, rules=["count 3", "use load 10"])) if "Use" in r.limit)
    assert (use.value, use.proven) == (11, True)


SHARDS = pd.DataFrame(
    {
        "index": ["logs", "logs", "metrics"],
        "shard": [0, 0, 0],
        "prirep": ["p", "r", "p"],
        "node": ["es-1", "es-2", "es-1"],
    }
)


def test_elasticsearch_75660_the_same_number_of_shards_of_other_sizes():
    """What `_cat/shards` prints has units: refused with the column and the value. In bytes, 5, 5 and 3 on three nodes are one each."""
    with pytest.raises(InputError, match=r"column 'store', row 0: '5\.1gb' is not a number"):
        ks.Workload.from_frame(
            SHARDS.assign(store=["5.1gb", "5.1gb", "890mb"]),
            load="store",
            state="store",
            key=["index", "shard", "prirep"],
        )
    w = ks.Workload.from_frame(SHARDS.assign(store=[5, 5, 3]), load="store", state="store", key=["index", "shard", "prirep"],
                               groups=["index"], nodes=["es-1", "es-2", "es-3"])  # fmt: skip
    assert told(ks.KeyGroupAllocation(w, rules=[Apart(by="index")], priorities=BOTH)) == (round(4 / 3, 9), 1)


def test_value_counts_are_sorted_by_count_and_sums_by_key():
    """The page "Value Counts and Unique": beside `groupby(...).sum()` the rows are in another order: aligned by label, or refused."""
    rows = pd.DataFrame({"key": list("aaabbc") + ["d"] * 4, "bytes": [1, 1, 1, 50, 50, 7, 2, 2, 2, 2]})
    try:
        w = ks.Workload(
            load=rows.key.value_counts(), state=rows.groupby("key").bytes.sum(), current=[0, 0, 1, 1], nodes=2
        )
    except InputError:
        return
    assert set(zip(w.last_load, w.state, strict=True)) == {(3, 3), (2, 100), (1, 7), (4, 8)}


@pytest.mark.parametrize("field", ["load", "state", "current", "nodes", "home"])
def test_koku_4762_columns_read_as_text_are_no_numbers(field):
    """The advice of that report is `read_csv(dtype=str)`: a column of texts is refused, whatever Python makes of 1_2 or 007."""
    given = {
        "load": [1, 2],
        "state": [1, 2],
        "current": [0, 1],
        "nodes": 2,
        field: pd.Series(["0_1", "001"], dtype=object),
    }
    with pytest.raises(InputError, match=rf"{field}\[0\] = '0_1' must be a number"):
        ks.Workload(**given)
