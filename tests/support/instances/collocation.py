"""Instances of collocated allocation."""

from __future__ import annotations

import numpy as np

import keyshift as ks

NAME = ks.CollocatedAllocation.name


def random_problem(rng: np.random.Generator, p: int, n: int, levels: float = 0.3) -> ks.CollocatedAllocation:
    """One random instance with every option on or off: ties, zeros, odd capacities, draining nodes, tight limits.

    A share of `levels` of them has traffic that costs by level; 0 for tests of what works on one level alone.
    """
    load = (
        rng.integers(0, 5, p).astype(float),
        rng.random(p),
        rng.random(p) * 1e6,
        rng.choice([0.0, 3.0], p),
    )[rng.integers(4)]
    traffic = (
        np.where(rng.random((p, p)) < 0.4, rng.integers(0, 6, (p, p)), 0),
        np.where(rng.random((p, p)) < 0.3, rng.random((p, p)), 0),
        np.diag(np.full(p - 1, 4.0), 1) if p > 1 else np.zeros((1, 1)),
    )[rng.integers(3)]
    draining = rng.random(n) < 0.25
    draining[rng.integers(n)] = False
    racks, zones = rng.integers(0, 3, n), rng.integers(0, 2, n)  # racks may lie across zones
    w = ks.Workload(
        load=load,
        state=rng.integers(0, 4, p),
        current=rng.integers(0, n, p),
        nodes=rng.choice([1.0, 2.0, 1.1, 0.7], n) if rng.random() < 0.3 else n,
        draining=draining,
        traffic=traffic,
        resources={"memory": rng.integers(0, 4, p)},
        domains={"rack": racks.tolist(), "zone": zones.tolist()},
    )
    costly, leveled = rng.random() < 0.5, rng.random() < levels
    costs = {"node": float(rng.integers(0, 2)), "rack": float(rng.integers(1, 4)), "zone": float(rng.integers(4, 6))}
    if len({*zip(racks, zones, strict=True)}) == len({*zones.tolist()}):  # each zone within a rack
        costs.pop("zone")
    per_tuple = float(rng.choice([0.1, 0.5])) * float(load.mean()) / max(1.0, float(traffic.mean()))
    unit = str(rng.choice(["percent", "percent", "load"]))
    percent = float(rng.choice([5, 30, 60, 120]))
    return ks.CollocatedAllocation(
        w,
        max_load_distance=None
        if rng.random() < 0.1
        else percent
        if unit == "percent"
        else percent / 100 * load.sum() / n,
        max_migrations=rng.choice([None, 0, 1, 2, 3]),
        max_migration_cost=rng.choice([None, None, 0, 3.5]),
        alpha=float(rng.choice([1.0, 0.5])),
        minimise="remote_traffic" if leveled else str(rng.choice(["remote_traffic", "total_load"])),
        serialisation=per_tuple if costly and not leveled else 0.0,
        deserialisation=per_tuple / 2 if costly and not leveled else 0.0,
        costs=costs if leveled else None,
        distance_unit=unit,
        into_draining=bool(rng.random() < 0.3),
        resource_capacity={"memory": int(rng.integers(3, 12))} if rng.random() < 0.3 else None,
        sides="upper" if rng.random() < 0.2 else "both",
    )


def battery() -> dict[str, ks.Problem]:
    """The instances every method must survive, by label."""

    def make(load, current, nodes, edges, **options):
        p = len(current)
        traffic = np.zeros((p, p))
        for k, other, t in edges:
            traffic[k, other] = t
        given = {name: options.pop(name) for name in ("draining", "operator", "domains") if name in options}
        state = options.pop("state", np.ones(p))
        w = ks.Workload(load=load, state=state, current=current, nodes=nodes, traffic=traffic, **given)
        return ks.CollocatedAllocation(w, **options)

    rng = np.random.default_rng(11)
    chain = [(k, k + 8, float(t)) for k, t in enumerate(rng.integers(5, 20, 8))]
    spread = [
        (k, 8 + int(other), float(t))
        for k in range(8)
        for other, t in zip(rng.permutation(8)[:3], (9, 2, 1), strict=True)
    ]
    two = np.repeat([0, 1], 8)
    return {
        "ties": make([2] * 6, [0, 0, 1, 1, 2, 2], 3, [(0, 2, 1), (1, 3, 1), (2, 4, 1), (3, 5, 1)], max_migrations=2),
        "zeros": make([0] * 4, [0, 0, 1, 1], 2, [], state=np.zeros(4)),
        "one node": make([3, 1, 2], [0, 0, 0], 1, [(0, 1, 4)]),
        "one key group": make([5], [1], 3, [], max_migrations=1),
        "draining all but one": make(
            [4, 2, 1, 3], [0, 1, 2, 2], 3, [(0, 1, 5), (2, 3, 5)], draining=[True, False, True], max_load_distance=None
        ),
        "nothing may move": make([5, 5], [0, 1], 2, [(0, 1, 3)], max_migrations=0),
        "unequal nodes": make([5, 4, 3, 2, 1, 1], [0, 0, 0, 1, 1, 1], [1.0, 3.0], [(0, 3, 7), (1, 4, 5), (2, 5, 1)], max_load_distance=40),
        "heavy side alone": make(
            [5, 4, 3, 2, 1, 1], [0, 1, 2, 0, 1, 2], 3, [(0, 3, 7), (1, 4, 5), (2, 5, 1)], max_load_distance=30, sides="upper"
        ),
        "racks": make(
            [5, 4, 3, 2, 1, 1], [0, 1, 2, 3, 0, 1], 4, [(0, 3, 7), (1, 4, 5), (2, 5, 1), (0, 1, 2)], max_load_distance=70,
            max_migrations=3, domains={"rack": ["a", "a", "b", "b"]}, costs={"node": 1, "rack": 3},
        ),
        "racks across zones": make(
            [2] * 6, [0, 1, 2, 3, 0, 1], 4, [(k, j, k + j) for k in range(6) for j in range(k)], max_load_distance=None,
            max_migrations=4, draining=[False, True, False, False], costs={"rack": 1e-9, "zone": 1e12},
            domains={"rack": ["a", "a", "b", "b"], "zone": ["x", "y", "x", "y"]},
        ),
        "infeasible": make([5, 4, 3], [0, 1, 1], 2, [(0, 1, 3)], max_load_distance=1),
        "billionths": make(
            [3e-9, 1e-9, 2e-9, 2e-9], [0, 0, 1, 1], 2, [(0, 2, 1e-9), (1, 3, 3e-9), (0, 3, 2e-9)],
            state=[1e-9, 2e-9, 1e-9, 3e-9], max_load_distance=60, max_migration_cost=3e-9,
        ),
        "trillions": make(
            [3e12, 1e12, 2e12, 2e12], [0, 0, 1, 1], 2, [(0, 2, 1e12), (1, 3, 3e12), (0, 3, 2e12)],
            state=[1e12, 2e12, 1e12, 3e12], max_load_distance=60, max_migration_cost=3e12, serialisation=0.1,
        ),
        "mixed scales": make(
            [3e-9, 1e12, 2e12, 2.0], [0, 0, 1, 1], 2, [(0, 2, 1e12), (1, 3, 3e-9), (0, 3, 2.0)],
            state=[1e12, 2e-9, 1.0, 3e-9], max_load_distance=60, max_migration_cost=4e-9,
        ),
        "three windows": make(
            [[5, 4, 3, 2], [2, 3, 4, 5], [3, 3, 3, 3]], [0, 0, 1, 1], 2, [(0, 2, 5), (1, 3, 3), (0, 3, 1)], max_load_distance=45,
            windows=3,
        ),
        "scenarios with a cost of traffic": make(
            [1, 1, 1, 1], [0, 0, 1, 1], 2, [(0, 2, 5), (1, 3, 3)], max_load_distance=60, serialisation=0.1,
            minimise="total_load", scenarios=[[3, 1, 2, 2], [1, 2, 2, 1]],
        ),
        "one to one": make(
            rng.integers(8, 12, 16), [*range(4), *range(4), *range(1, 4), 0, *range(1, 4), 0], 4, chain, operator=two,
            max_migrations=4, max_load_distance=25,
        ),
        "partial": make(
            rng.integers(8, 12, 16), np.tile(range(4), 4), 4, spread, operator=two, max_migrations=3,
            max_load_distance=30, serialisation=0.1, deserialisation=0.1, minimise="total_load",
        ),
    }  # fmt: skip
