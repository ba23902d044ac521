"""The price of each restriction, over families of instances: the same instances with and without it.

    python benchmarks/prices.py [--quick] --out DIR [--results out/prices] [--workers 2]

A killed run goes on where it stopped, from the folder of results. An instance is drawn again by the family and the seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from page import run

from keyshift.papers.page import Case, Page, cases, grid, studied

Side = tuple[str, str, dict[str, Any]]
"""A method, whose value is taken (its bound, where it is a relaxation), a family and its parameters."""
BY, OF = ["restriction", "setting", "objective"], ["restriction", "setting", "of"]
QUARTILES = {"least": 0, "quarter": 0.25, "median": 0.5, "three quarters": 0.75, "most": 1}


def restrictions() -> Iterator[tuple[str, str, str, Side, Side]]:
    """Every restriction, in two or three settings: what is paid, with it and without it."""
    for tau in (0.1, 0.2, 0.4):
        step = {"tasks": 24, "nodes": 4, "nodes_after": 5, "tau": tau}
        yield "contiguity", f"tau {tau}", "state moved", ("ssm", "ding-step", step), ("free", "ding-step", step)
    for size in (15, 8, 5):
        keys = {"keys": 300, "nodes": 5, "window": 5, "theta_max": 0.08}
        short, long = (("milp", "fang-routing", {**keys, "max_table_size": most}) for most in (size, None))
        yield "table size", f"{size} entries", "state moved", short, long
    for restriction, method, family, more in (
        ("not splitting", "milp", "nasir-placement", {}), ("deciding online", "pkg", "nasir-splitting", {}),
        ("one choice instead of two", "flow", "nasir-splitting", {"choices": 1}),
    ):  # fmt: skip
        for exponent in (0.8, 1.4):
            stream = {"messages": 2000, "keys": 200, "exponent": exponent, "workers": 5}
            best = ("flow", "nasir-splitting", stream)
            yield restriction, f"Zipf {exponent}", "largest load", (method, family, stream | more), best
    for changes in (2, 5):
        known, said = ("ding-sequence", {"tasks": 24, "changes": changes}), f"{changes} changes"
        yield "looking one step ahead", said, "state moved", ("ssm", *known), ("oms", *known)
    chain = ("ding-policy", {"tasks": 16})
    yield "looking one step ahead", "a Markov chain", "expected state moved", ("ssm", *chain), ("mtm", *chain)
    for share in (0.5, 1.0):
        talk = ("madsen-collocation", {"nodes": 3, "key_groups": 20, "one_to_one": share, "max_migrations": 6})
        said = f"{share:.0%} one to one"
        yield "ignoring collocation", said, "remote traffic", ("allocation-milp", *talk), ("milp", *talk)


def measured(page: Page) -> pd.DataFrame:
    """A row for each price and seed; proven is one where neither side could be better, or the rule is what it is."""
    seeds = list(range(3 if page.quick else 20))

    def drawn(method: str) -> Iterator[Case]:
        for *said, held, free in restrictions():
            for side, (by, family, parameters) in {"with": held, "without": free}.items():
                if by == method:
                    for seed, problem in cases(family, **parameters, seed=seeds):
                        yield dict(zip(OF, said, strict=True)) | seed | {"side": side}, problem

    methods = dict.fromkeys(by for *_, held, free in restrictions() for by in (held[0], free[0]))
    how = {"time_limit": 20.0, "patience": 900, "out": page.given.results, "workers": page.given.workers}
    solves = pd.concat(studied(drawn(method), [method], **how) for method in methods).rename(columns={"objective": "paid"})  # fmt: skip
    solves = solves.rename(columns={"of": "objective"}).set_index([*BY, "seed"])
    order = [(*said, seed) for *said, _, _ in restrictions() for seed in seeds]
    held, free = (solves[solves["side"] == side].loc[order] for side in ("with", "without"))
    least = free["paid"].where(free["status"] == "optimal", free["bound"])
    sure = (free["status"] == "optimal") | (free["kind"] == "relaxation") & (free["termination"] != "time_limit")
    return pd.DataFrame({
        "restricted": held["paid"], "free": least, "price": ((held["paid"] - least) / held["paid"]).where(held["paid"] != least, 0.0),
        "restricted_by": held["method"], "free_by": free["method"], "status": held["status"],
        "proven": sure & ((held["kind"] == "heuristic") | (held["status"] == "optimal")),
    }).reset_index()  # fmt: skip


def prices(page: Page) -> None:
    """What each restriction costs.

    Not on one instance that was chosen to show it, but on twenty drawn ones in each setting. Every row below compares the same instances
    with the restriction and without it. The price is the share of what is paid *with* the restriction that would be saved without it:
    (restricted - free) / restricted, in percent; 50 means twice as much. The lesson {doc}`../../lessons/prices` says what each
    restriction is.

    ![A dot for each instance, grouped by restriction and setting](prices.png)

    *no answer*: instances that the restriction leaves without any answer (their price has no limit, and no dot). *proven*: both sides
    are proven optima, or the restricted side is a rule that is what it is (deciding online, one step at a time, ignoring collocation) and
    the free side a proven optimum; the other prices are upper limits, because one side is not proven. *free*: instances on which the
    restriction costs nothing. Every number: {download}`prices.csv`.
    """
    rows = measured(page)
    rows.to_csv(page.out / "prices.csv", index=False)
    by = rows.groupby(BY, sort=False)
    table = {"instances": by.size(), "no answer": by["restricted"].agg(lambda paid: paid.isna().sum()), "proven": by["proven"].sum(),
             "free": by["price"].agg(lambda price: (price < 1e-9).sum())}  # fmt: skip
    page.table(table | {name: (100 * by["price"].quantile(share)).round(2) for name, share in QUARTILES.items()})
    figure, (axes,) = grid(1, 1, (7.5, 6))
    rng = np.random.default_rng(0)
    for place, own in enumerate(100 * part["price"].dropna() for _, part in by):
        axes.plot(own, place + rng.uniform(-0.25, 0.25, len(own)), "o", ms=3.5, alpha=0.45, color="#0072B2", mew=0)
        axes.plot([own.median()] * 2, [place - 0.38, place + 0.38], color="black", lw=2)
    axes.set_yticks(range(by.ngroups), [f"{restriction}, {setting}" for restriction, setting, _ in by.size().index])
    axes.invert_yaxis()
    axes.set_xlabel("price in percent of what is paid (bar: median)")
    axes.grid(axis="x", alpha=0.3)
    figure.savefig(page.out / "prices.png", dpi=110)
    page.table(pd.DataFrame({
        "restriction": said[0], "with it": f"`{held[0]}` on `{held[1]}`", "without": f"`{free[0]}` on `{free[1]}`",
        "parameters of the free side": ", ".join(f"{k}={v}" for k, v in free[2].items())
    } for *said, held, free in restrictions()).drop_duplicates())  # fmt: skip


if __name__ == "__main__":
    run("prices", "Prices of restrictions, over families", __doc__, (prices,),
        results={"type": Path, "default": Path("out/prices")}, workers={"type": int, "default": 2})  # fmt: skip
