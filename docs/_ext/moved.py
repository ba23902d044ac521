"""Leave a page where one used to be that leads to where its text is now, so that old links and bookmarks still arrive."""

from __future__ import annotations

import os
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

MOVED = {
    "benchmarks/ablation": "benchmarks/index",
    "benchmarks/gaps": "benchmarks/index#how-far-from-the-optimum",
    "benchmarks/outside": "benchmarks/index#benchmarks-that-others-wrote",
    "benchmarks/releases": "benchmarks/index",
    "bounds": "primer#what-is-a-linear-program-a-dual-a-bound",
    "coming-from": "which-problem#coming-from-another-tool",
    "containers": "reference-engines#containers",
    "dependencies": "stability#dependencies",
    "engines/cruise-control": "engines/kafka#cruise-control",
    "engines/flink": "engines/index#flink",
    "engines/kafka-streams": "engines/index#kafka-streams",
    "engines/redis": "engines/index#redis-cluster",
    "explore": "explore-and-replay#explore-a-page-to-play-with",
    "glossary": "conventions#glossary",
    "key-groups": "primer#what-is-a-key-group",
    "lessons/another-solver": "lessons/own-formulation#replace-highs",
    "lessons/index": "paths",
    "lessons/mclb-slip": "lessons/errata#what-eq-3-5-gets-wrong",
    "lessons/price-of-a-rule": "lessons/prices#the-price-of-a-rule",
    "lessons/proof": "lessons/five-bounds#proof-you-can-hold",
    "lessons/proving-it": "lessons/proving-by-counting",
    "lessons/stating-it-better": "lessons/open-the-model#stating-it-better",
    "lessons/studies": "lessons/your-own#how-far-from-the-optimum",
    "logs": "files#logs-and-topologies",
    "methods": "which-problem",
    "problems/movement": "problems/mclb#movement-within-limits",
    "replay": "explore-and-replay#replay-what-happened",
    "settings": "reference-engines#settings",
    "walks": "paths#two-walks",
}
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>This page has moved</title>
<meta http-equiv="refresh" content="0; url={to}"></head>
<body><p>This page has moved: <a href="{to}">go on there</a>.</p></body></html>
"""


def leave(app: Sphinx, error: Exception | None) -> None:
    """Write the pages that lead on."""
    if error is not None or app.builder.name != "html":
        return
    for old, new in MOVED.items():
        page, _, anchor = new.partition("#")
        if page not in app.env.found_docs or old in app.env.found_docs:
            raise ExtensionError(f"moved: {old} cannot lead to {page}")
        path = Path(app.outdir) / f"{old}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        target = os.path.relpath(f"{page}.html", Path(old).parent)
        path.write_text(PAGE.format(to=f"{target}#{anchor}" if anchor else target))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("build-finished", leave)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
