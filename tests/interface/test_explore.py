"""The page that one can play with: its arithmetic is the check's, its names are harmless, what it saves is read."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import keyshift as ks
from keyshift.models.figures import figure
from keyshift.report.explored import as_json, model_record
from keyshift.report.page import SCRIPTS
from keyshift.rules import Apart, Count, Moves, Never, Pinned, Spread, Together, Use

EDITS = 1000
node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed: the page's arithmetic cannot run")
RULES = (
    Pinned([3]),
    Apart(by="partition", domain="rack"),
    Never({"topic": "a"}, {"rack": "r2"}),
    Together([5, 6]),
    Count(at_most=12),
    Spread({"topic": "b"}, "rack", at_least=2),
    Use("state", {"r0": 160.0}, "rack"),
    Moves(9, into=[1, 2]),
)


def workload(seed, scale=1.0, **more):
    """Forty key groups on seven nodes of three racks, one of them draining, in three windows."""
    rng = np.random.default_rng(seed)
    traffic = sp.random_array((40, 40), density=0.15, rng=rng, data_sampler=lambda size: rng.uniform(0.1, 9, size))
    given = {
        "load": rng.uniform(0.1, 9, (3, 40)) * scale, "state": rng.uniform(0.1, 9, 40) * scale,
        "current": rng.integers(0, 7, 40), "nodes": 7, "draining": [False] * 6 + [True], "home": rng.integers(0, 7, 40),
        "traffic": traffic * scale, "resources": {"memory": rng.uniform(1, 3, 40)},
        "groups": {"topic": ["a", "b", "c", "d"] * 10, "partition": [k // 4 for k in range(40)]},
        "domains": {"rack": ["r0", "r1", "r2", "r0", "r1", "r2", "r0"]},
    }  # fmt: skip
    return ks.Workload(**{**given, **more})


PROBLEMS = {
    "allocation": lambda: ks.KeyGroupAllocation(
        workload(1), max_migrations=20, max_migration_cost=90.0, alpha=1.1, resource_capacity={"memory": 13.0}, rules=RULES,
        distance_floor=True,
    ),
    "allocation, three windows": lambda: ks.KeyGroupAllocation(
        workload(2, 1e-6, nodes=[1, 2, 1.5, 1, 1, 3, 1]), windows=3, over="cvar", level=0.5, mean="exact", rules=RULES,
    ),
    "allocation, rules that give way": lambda: ks.KeyGroupAllocation(
        workload(3), rules=RULES, priorities=("broken_rules", "load_distance"), into_draining=True
    ),
    "collocation": lambda: ks.CollocatedAllocation(
        workload(4), max_load_distance=40, max_migrations=20, serialisation=0.02, deserialisation=0.01, rules=RULES
    ),
    "collocation, three windows": lambda: ks.CollocatedAllocation(
        workload(5), max_load_distance=30, windows=3, over="max", minimise="total_load", distance_unit="load"
    ),
    "mclb": lambda: ks.MCLB(workload(6, 1e9), max_state_moved=5e10, rules=RULES[:5]),
    "mclb, nothing drains": lambda: ks.MCLB(workload(7, draining=[False] * 7), rules=RULES),
    "routing": lambda: ks.MixedRouting(workload(8), 0.2, 25, sides="both", rules=RULES),
    "routing, three windows": lambda: ks.MixedRouting(workload(9), 0.1, windows=3),
}  # fmt: skip


def in_node(module: str, code: str, given: object) -> list:
    """What a script says that imports one of the page's modules and reads JSON."""
    script = f"import * as page from {json.dumps((SCRIPTS / module).as_uri())};\n{READ}\n{code}"
    done = subprocess.run(
        ["node", "--input-type=module", "-e", script], input=json.dumps(given), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


READ = 'import fs from "node:fs";\nconst given = JSON.parse(fs.readFileSync(0, "utf8"));'
CHECK = (
    f"import {{ figure }} from {json.dumps((SCRIPTS / 'figures.mjs').as_uri())};\n"
    "const said = given.places.map((place) => { const r = page.check(given.model, place); return ["
    "figure(r.objective, given.scale), Object.fromEntries(Object.entries(r.metrics).map(([n, v]) => [n, figure(v)])),"
    "[...new Set(r.violations.map((v) => v.rule))].sort()]; });\nconsole.log(JSON.stringify(said));"
)


def said_by_check(problem, place):
    report = problem.check(place)
    return [
        figure(report.objective, problem.scale),
        {name: figure(value) for name, value in report.metrics.items()},
        sorted({v.rule for v in report.violations}),
    ]


@node
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_thousand_edits_are_valued_as_check_values_them(name):
    problem = PROBLEMS[name]()
    rng = np.random.default_rng(0)
    place, places = problem.workload.current.copy(), []
    for at in range(EDITS):
        if at % 100 == 0:  # back to the start: there few limits are broken
            place = problem.workload.current.copy()
        place[rng.integers(40)] = rng.integers(7)
        places.append(place.copy())
    model = as_json(model_record(problem, []))
    found = in_node("arithmetic.mjs", CHECK, {"model": model, "places": as_json(places), "scale": problem.scale})
    wrong = [(at, f, s) for at, (f, p) in enumerate(zip(found, places, strict=True)) if f != (s := said_by_check(problem, p))]
    assert not wrong, (len(wrong), wrong[0])
    assert {rule for _, _, rules in found for rule in rules}


@node
def test_figures_read_as_everywhere():
    rng = np.random.default_rng(1)
    values = [*rng.normal(size=300), *np.exp(rng.uniform(-40, 40, 2000)), *(rng.integers(0, 10**7, 500) / 2), *rng.integers(0, 9999, 500) / 8]
    values += [0.0, -0.0, 1e15, 999999.5, 1000000.5, 123456.5, 123457.5, 1e-5, 0.00012345650, 99999.95, 1234567.5, 1234566.5]
    values = [float(v) for v in values]
    code = "console.log(JSON.stringify(given.map((v) => [page.figure(v), page.shown(v, 1)])));"
    assert in_node("figures.mjs", code, values) == [[figure(v), figure(v, 1, 5)] for v in values]
