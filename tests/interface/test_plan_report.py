"""The report of a plan: no network, no script but its own, and every figure on it is the one in its data."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import keyshift as ks
from keyshift.report.drawings import script, shown


class Page(HTMLParser):
    """Figures with their places in the data, the data itself, and everything that points elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.figures, self.links, self.tags, self.data = [], [], [], ""
        self._path, self._in_data = None, False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append(tag)
        self.links += [v for k, v in attrs if k in ("src", "href", "action", "xlink:href")]
        self._path = given.get("data-json")
        if self._path is not None:
            self.figures.append([self._path, ""])
        self._in_data = given.get("type") == "application/json"

    def handle_endtag(self, tag):
        self._path, self._in_data = None, False

    def handle_data(self, text):
        if self._in_data:
            self.data += text
        elif self._path is not None:
            self.figures[-1][1] += text


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    rng = np.random.default_rng(4)
    w = ks.Workload(
        load=rng.uniform(1, 9, 60), state=rng.uniform(1, 9, 60), current=rng.integers(0, 6, 60), nodes=6,
        keys=["</script><b>", *(f"k{k}" for k in range(59))], node_names=["<i>", "b", "c & d", '"e"', "f", "g"],
    )  # fmt: skip
    comparison = ks.compare(ks.KeyGroupAllocation(w, max_migrations=9), ["flux", "potc"])
    plan = comparison["potc"].plan(bandwidth=2, phase_moves=3, max_on_the_way={"load": 80})
    path = tmp_path_factory.mktemp("report") / "plan.html"
    plan.report(path, comparison=comparison, other=comparison["flux"].plan())
    return plan, path.read_text()


def test_every_figure_is_the_one_in_the_data(page):
    plan, text = page
    read = Page(text)
    data = json.loads(read.data)
    assert data["plan"] == json.loads(json.dumps(plan.as_record()))
    assert len(read.figures) > 150
    for path, said in read.figures:
        value = data
        for part in path.split("."):
            value = value[int(part)] if isinstance(value, list) else value[part]
        assert said in (shown(value), shown(value, "s")), path
    for name in (
        "Load of every node",
        "From node to node",
        "Schedule",
        "Phase by phase",
        "Limits",
        "Methods",
        "Two plans",
    ):
        assert name in text


def test_nothing_is_fetched_and_nothing_runs(page):
    read = Page(page[1])
    assert read.links == ["data:,"]
    assert read.tags.count("script") == 2  # the data, and what sorts tables and says values
    head, _, body = page[1].partition("</head>")
    assert "default-src 'none'; script-src 'sha256-" in head
    code = script("tables")
    assert body.count(f"<script>{code}</script>") == 1
    assert base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() in head
    assert not re.search(
        r"https?:|//cdn|url\(|@import|\bon[a-z]+=|style=", re.sub(r'(?s)<script type="application/json".*', "", page[1])
    )
    assert "<b>k" not in page[1]
    assert "</script><b>" not in page[1]


def test_an_empty_plan_has_a_report_too(tmp_path):
    w = ks.Workload(load=[1, 1], state=[1, 1], current=[0, 1], nodes=2)
    ks.plan(ks.KeyGroupAllocation(w), [0, 1]).report(tmp_path / "p.html", title="Nothing <to> do")
    assert "Nothing &lt;to&gt; do" in (tmp_path / "p.html").read_text()
    with pytest.raises(ks.InputError, match=r"cannot be written|does not exist"):
        ks.plan(ks.KeyGroupAllocation(w), [0, 1]).report(tmp_path / "no" / "p.html")


def test_large_plans_have_reports_of_bounded_size(tmp_path):
    rng = np.random.default_rng(0)
    w = ks.Workload(load=np.ones(3000), state=np.ones(3000), current=rng.integers(0, 100, 3000), nodes=100)
    ks.plan(ks.KeyGroupAllocation(w), rng.integers(0, 100, 3000), time_limit=0.5).report(tmp_path / "p.html")
    assert (tmp_path / "p.html").stat().st_size < 4e6
