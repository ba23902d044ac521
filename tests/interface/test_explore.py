"""The page that one can play with: its arithmetic is the check's, its names are harmless, what it saves is read."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import keyshift as ks
from keyshift.cli import main
from keyshift.models.base.figures import figure
from keyshift.report.drawings import SCRIPTS
from keyshift.report.exploring import as_json, model_record
from keyshift.rules import Apart, Count, Moves, Never, Pinned, Spread, Together, Use

node = pytest.mark.skipif(
    shutil.which("node") is None, reason="node is not installed: the page's arithmetic cannot run"
)
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
        ["node", "--input-type=module", "-e", script],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
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
@pytest.mark.parametrize("edits", [120, pytest.param(1000, marks=pytest.mark.slow)])
def test_edits_are_valued_as_check_values_them(name, edits):
    problem = PROBLEMS[name]()
    rng = np.random.default_rng(0)
    place, places = problem.workload.current.copy(), []
    for at in range(edits):
        if at % 100 == 0:  # back to the start: there few limits are broken
            place = problem.workload.current.copy()
        place[rng.integers(40)] = rng.integers(7)
        places.append(place.copy())
    model = as_json(model_record(problem, []))
    found = in_node("arithmetic.mjs", CHECK, {"model": model, "places": as_json(places), "scale": problem.scale})
    wrong = [
        (at, f, s) for at, (f, p) in enumerate(zip(found, places, strict=True)) if f != (s := said_by_check(problem, p))
    ]
    assert not wrong, (len(wrong), wrong[0])
    assert {rule for _, _, rules in found for rule in rules}


@node
def test_figures_read_as_everywhere():
    rng = np.random.default_rng(1)
    values = [
        *rng.normal(size=300),
        *np.exp(rng.uniform(-40, 40, 2000)),
        *(rng.integers(0, 10**7, 500) / 2),
        *rng.integers(0, 9999, 500) / 8,
    ]
    values += [
        0.0,
        -0.0,
        1e15,
        999999.5,
        1000000.5,
        123456.5,
        123457.5,
        1e-5,
        0.00012345650,
        99999.95,
        1234567.5,
        1234566.5,
    ]
    values = [float(v) for v in values]
    code = "console.log(JSON.stringify(given.map((v) => [page.figure(v), page.shown(v, 1)])));"
    assert in_node("figures.mjs", code, values) == [[figure(v), figure(v, 1, 5)] for v in values]


# The page as a file -----------------------------------------------------------------------------------------------------

HOSTILE = "</script><img src=x onerror=alert(1)>\u2028<b onclick='x'>\x1b[31m"


def small(**more):
    rng = np.random.default_rng(5)
    given = {
        "load": rng.uniform(1, 9, 24), "state": rng.uniform(1, 9, 24), "current": rng.integers(0, 3, 24), "nodes": 4,
        "keys": [f"{HOSTILE}{k}" for k in range(24)], "node_names": [f"{HOSTILE}{i}" for i in range(4)],
        "groups": {HOSTILE: [HOSTILE, "b"] * 12}, "domains": {HOSTILE: ["r", HOSTILE] * 2},
    }  # fmt: skip
    return ks.Workload(**{**given, **more})


class Tags(HTMLParser):
    """The elements of a page, their attributes, and where they point."""

    def __init__(self, text):
        super().__init__()
        self.names, self.attributes, self.links = [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value for name, value in attrs if name == "href"]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explore")
    ks.write_workload(small(), folder / "w")
    problem = ks.KeyGroupAllocation(small(), max_migrations=6, rules=[Count(at_most=9)])
    points = ks.explore(
        problem, path=folder / "e.html", budgets=5, time_limit=90, title=HOSTILE, checkpoint=folder / "c.json"
    )
    return folder, points, (folder / "e.html").read_text()


def content_of(text):
    return json.loads(re.search(r'(?s)<script type="application/json" id="data">(.*?)</script>', text).group(1))


def test_the_page_carries_the_front_and_asks_for_nothing(page):
    folder, points, text = page
    content = content_of(text)
    assert [p["objective"] for p in content["points"]] == pytest.approx([s.objective for s in points])
    for record, s in zip(content["points"], points, strict=True):
        place = np.array(content["model"]["current"])
        for k, target in record["moves"]:
            place[k] = target
        assert place.tolist() == s.assignment.tolist()
        assert len(record["schedule"]["rows"]) == len(record["moves"])
    assert {r["method"] for r in content["rivals"]} & {"flux", "potc", "drain-first"}
    assert "default-src 'none'" in text
    assert "unsafe" not in text.split("</head>")[0]
    tags = Tags(text)
    assert set(tags.names) <= {"html", "head", "meta", "title", "style", "link", "body", "h1", "p", "div", "section", "h2", "table",
                               "thead", "tr", "th", "tbody", "td", "span", "script"}  # fmt: skip
    assert not [name for name in tags.attributes if name.startswith("on") or name in ("style", "src", "action")]
    assert tags.links == ["data:,"]
    assert tags.names.count("script") == 2
    assert "\u2028" not in text
    again = ks.explore(points[0].problem.__class__(small(), max_migrations=6, rules=[Count(at_most=9)]), path=folder / "f.html",
                       budgets=5, time_limit=90, checkpoint=folder / "c.json")  # fmt: skip
    assert [s.objective for s in again] == [s.objective for s in points]


def test_what_a_heuristic_finds_beyond_the_front_is_on_the_slider(tmp_path, monkeypatch):
    """As where the front's time is up before its last budgets; nothing is called impossible beyond the last one."""
    problem = ks.KeyGroupAllocation(small(), max_migrations=6)
    front = ks.pareto(problem, 2, time_limit=5)
    short = dataclasses.replace(front, solutions=front.solutions[:1])
    monkeypatch.setattr("keyshift.report.exploring.pareto", lambda *_, **__: short)
    points = ks.explore(problem, path=tmp_path / "e.html", time_limit=5)
    assert points[0].method == "pareto"
    assert len(points) > 1
    assert all(a.metrics["migrations"] < b.metrics["migrations"] and a.objective > b.objective
               for a, b in pairwise(points))  # fmt: skip


def test_scripts_are_few_and_run_nothing_from_texts():
    modules = {path.name: path.read_text() for path in SCRIPTS.glob("*.mjs")}
    assert sum(text.count("\n") for text in modules.values()) < 1500
    for name, text in modules.items():
        assert not re.search(
            r"\beval\b|new Function|innerHTML|outerHTML|insertAdjacent|document\.write|fetch\(|XMLHttp|https?:(?!//www\.w3\.org/2000/svg)",
            text,
        ), name


def test_every_live_figure_of_a_lesson_is_there():
    docs = Path(__file__).parents[2] / "docs"
    used = [
        name
        for path in docs.rglob("*.md")
        for name in re.findall(r"^:::\{live\} (\w+)$", path.read_text(), re.MULTILINE)
    ]
    made = re.search(r"const FIGURES = \{ (.*?) \}", (SCRIPTS / "lessons.mjs").read_text())
    assert sorted(used) == sorted(made[1].split(", "))


def test_a_saved_assignment_is_read_by_check_and_plan(page, capsys):
    folder, points, _ = page
    (folder / "assignment.json").write_text(
        json.dumps({"problem": "key-group-allocation", "objective": 1.0, "assignment": points[-1].assignment.tolist()})
    )
    line = [str(folder / "w"), "--max-migrations", "6"]
    assert main(["check", *line, "-a", str(folder / "assignment.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["objective"] == pytest.approx(points[-1].objective)
    assert main(["plan", *line, "--solution", str(folder / "assignment.json"), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["moves"]) == points[-1].metrics["migrations"]
    assert main(["plan", *line[:1], "--max-migrations", "1", "--solution", str(folder / "assignment.json")]) == 2
    assert "the limit is 1" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (lambda: ks.MovementWithinLimits(small(), 10, 60), "How many nodes"),
        (lambda: ks.IntervalMigration(small(current=np.arange(24) * 4 // 24), 3, 0.9), "intervals"),
        (lambda: ks.KeySplitting([1, 1, 2, 3, 1, 4, 1], 3), "Messages"),
    ],
)
def test_the_others_say_what_they_show_instead(problem, said, tmp_path):
    ks.explore(problem(), path=tmp_path / "e.html", budgets=3, time_limit=5)
    content = content_of((tmp_path / "e.html").read_text())
    assert said in content["instead"]
    assert content["model"] is None or content["model"]["play"] is None


@node
def test_large_workloads_become_blocks_with_the_same_arithmetic(monkeypatch):
    monkeypatch.setattr("keyshift.report.exploring.MOST_KEY_GROUPS", 20)
    monkeypatch.setattr("keyshift.report.exploring.MOST_ALONE", 4)
    rng = np.random.default_rng(6)
    for name, make in PROBLEMS.items():
        problem = make()
        if getattr(problem, "soft_rule", None) is not None:
            continue
        current = problem.workload.current
        answers = [np.where(rng.random(40) < 0.2, rng.integers(0, 7, 40), current) for _ in range(3)]
        record = model_record(problem, answers)
        block = record["block"]
        assert 7 <= len(record["keys"]) < 40
        places = []
        for answer in answers:
            small = np.zeros(len(record["keys"]), dtype=int)
            small[block] = answer
            assert (small[block] == answer).all()
            places.append(small)
        found = in_node("arithmetic.mjs", CHECK, as_json({"model": record, "places": places, "scale": problem.scale}))
        assert found == [said_by_check(problem, a) for a in answers], name


# In a browser -----------------------------------------------------------------------------------------------------------

MODULES = [os.environ.get("NODE_PATH", ""), str(Path(__file__).parents[2] / ".ci/scripts/node_modules")]
PLAYWRIGHT = next((folder for folder in MODULES if folder and (Path(folder) / "playwright-core").is_dir()), None)


@node
@pytest.mark.skipif(
    shutil.which("chromium") is None or PLAYWRIGHT is None, reason="needs chromium and playwright-core (make lint)"
)
def test_a_person_can_play_with_it(page):
    folder = page[0]
    done = subprocess.run(
        ["node", str(Path(__file__).parent / "browser.mjs"), str(folder / "e.html"), str(folder)],
        env={**os.environ, "NODE_PATH": PLAYWRIGHT}, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["faults"] == []
    assert set(seen["widths"].values()) == {0}
    problem = ks.KeyGroupAllocation(small(), max_migrations=6, rules=[Count(at_most=9)])
    saved = json.loads(Path(seen["file"]).read_text())
    report = ks.check(problem, saved["assignment"])
    assert saved["objective"] == report.objective
    assert saved["assignment"][seen["k"]] == seen["row"]
    assert seen["row"] == seen["rows"][2]
    assert seen["dragged"]["now"].startswith(f"load distance {figure(report.objective, problem.scale)}")
    assert ("All limits" in seen["dragged"]["status"]) == report.feasible
    assert seen["undone"] == seen["start"] != seen["slid"]
    assert "moved from" in seen["keyed"]["said"]
    assert seen["keyed"]["now"] != seen["start"]["now"]
    assert seen["listed"]["now"] != seen["keyed"]["now"]
    assert "differ" in seen["compared"]
    assert seen["tables"] > 7
    assert seen["elements"]["handlers"] == []
    assert len(seen["elements"]["foreign"]) == 3
    assert min(edit for edit, _ in seen["edits"]) < 50
