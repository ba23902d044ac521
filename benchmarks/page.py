"""A benchmark as a script: its command line, and where the folder of data is; the page that it writes is of `keyshift.papers.page`."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keyshift.generators.real import DATA
from keyshift.papers.page import Page, Part

if (beside := Path(__file__).resolve().parents[2] / "shared" / "data").is_dir():
    os.environ.setdefault(DATA, str(beside))


def run(name: str, title: str, doc: str, parts: Iterable[Part], **options: dict[str, Any]) -> None:
    """Run a script's parts: the docstring of each is its heading and what is said below it; it writes what it has when it ends."""
    known = {part.__name__: part for part in parts}
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, for a look")
    parser.add_argument("--only", nargs="+", choices=known, default=list(known), help="renew the sections of these")
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks"))
    for option, settings in options.items():
        parser.add_argument(f"--{option}", **settings)
    given = parser.parse_args()
    page = Page(name, given.out, given.quick, given)
    for part in page.given.only:
        began = time.perf_counter()
        heading, *text = (line.strip() for line in (known[part].__doc__ or part).strip().splitlines())
        page.begin(heading.rstrip("."), *text[1:])
        known[part](page)
        page.write(title, doc.strip().split("\n\n")[-1])
        print(f"== {part}: {time.perf_counter() - began:.0f} s", flush=True)
