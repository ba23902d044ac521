"""The price of each restriction, over families of instances: the same instances with and without it.

    python benchmarks/prices.py --out docs/benchmarks/0.2.0 --results out/prices [--quick]

The price is a share of what is paid with the restriction: (restricted - free) / restricted. A killed run goes on.
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from markdown_table import markdown

import keyshift as ks

LIMIT, COUNT = 20.0, 30
INK = "#0072B2"


@dataclass(frozen=True)
class Side:
    """Instances, and the method whose value is taken: its bound, where the method is a relaxation."""

    family: str
    parameters: dict[str, Any]
    method: str

    def drawn(self, count: int) -> Any:
        return ks.family(self.family, count=count, **self.parameters)


@dataclass(frozen=True)
class Price:
    """A restriction in one setting."""

    restriction: str
    setting: str
    objective: str
    restricted: Side
    free: Side


def prices() -> list[Price]:
    """Every restriction, in two or three settings."""
    made = []
    for tau in (0.1, 0.2, 0.4):
        step = ("ding-step", {"tasks": 24, "nodes": 4, "nodes_after": 5, "tau": tau})
        made.append(Price("contiguity", f"tau {tau}", "state moved", Side(*step, "ssm"), Side(*step, "free")))
    for size in (15, 8, 5):
        keys = {"keys": 300, "nodes": 5, "window": 5, "theta_max": 0.08}
        short, long = {**keys, "max_table_size": size}, {**keys, "max_table_size": None}
        made.append(
            Price("table size", f"{size} entries", "state moved",
                  Side("fang-routing", short, "milp"), Side("fang-routing", long, "milp"))
        )  # fmt: skip
    for exponent in (0.8, 1.4):
        stream = {"messages": 2000, "keys": 200, "exponent": exponent, "workers": 5}
        said = f"Zipf {exponent}"
        split = Side("nasir-splitting", stream, "flow")
        made += [
            Price("not splitting", said, "largest load", Side("nasir-placement", stream, "milp"), split),
            Price("deciding online", said, "largest load", Side("nasir-splitting", stream, "pkg"), split),
            Price("one choice instead of two", said, "largest load",
                  Side("nasir-splitting", {**stream, "choices": 1}, "flow"), split),
        ]  # fmt: skip
    for changes in (2, 5):
        known = ("ding-sequence", {"tasks": 24, "changes": changes})
        made.append(
            Price(
                "looking one step ahead", f"{changes} changes", "state moved", Side(*known, "ssm"), Side(*known, "oms")
            )
        )
    chain = ("ding-policy", {"tasks": 16})
    made.append(
        Price(
            "looking one step ahead", "a Markov chain", "expected state moved", Side(*chain, "ssm"), Side(*chain, "mtm")
        )
    )
    for share in (0.5, 1.0):
        talk = ("madsen-collocation", {"nodes": 3, "key_groups": 20, "one_to_one": share, "max_migrations": 6})
        made.append(
            Price("ignoring collocation", f"{share:.0%} one to one", "remote traffic",
                  Side(*talk, "allocation-milp"), Side(*talk, "milp"))
        )  # fmt: skip
    order = list(dict.fromkeys(p.restriction for p in made))
    return sorted(made, key=lambda p: order.index(p.restriction))


def measured(all_prices: list[Price], count: int, results: Path, workers: int) -> pd.DataFrame:
    """A row for each price and seed, from one study for each method's instances."""
    frames = []
    sides = list({repr(s): s for p in all_prices for s in (p.restricted, p.free)}.values())
    for method, own in itertools.groupby(sorted(sides, key=lambda s: s.method), key=lambda s: s.method):
        instances = itertools.chain.from_iterable(side.drawn(count) for side in own)
        study = ks.study(instances, [method], time_limit=LIMIT, out=results, workers=workers)
        frames.append(study.to_frame())
        print(f"{method}: {study}", flush=True)
    solves = pd.concat(frames).set_index(["instance", "method"])
    rows = []
    for price in all_prices:
        for (held, _), (free, _) in zip(price.restricted.drawn(count), price.free.drawn(count), strict=True):
            with_it, without = solves.loc[(held, price.restricted.method)], solves.loc[(free, price.free.method)]
            rows.append(_row(price, held, with_it, without))
    return pd.DataFrame(rows)


def _row(price: Price, instance: str, held: pd.Series, free: pd.Series) -> dict[str, Any]:
    """The price on one instance; it is proven where neither side could be better, or the rule is what it is."""
    least = free["objective"] if free["status"] == "optimal" else free["bound"]
    paid = held["objective"]
    share = 0.0 if paid == least else (paid - least) / paid
    rule = held["kind"] == "heuristic"
    sure = free["status"] == "optimal" or (free["kind"] == "relaxation" and free["termination"] != "time_limit")
    return {
        "restriction": price.restriction, "setting": price.setting, "objective": price.objective,
        "seed": int(instance.rpartition("/")[2]), "restricted": paid, "free": least, "price": share,
        "restricted_by": price.restricted.method, "free_by": price.free.method, "status": held["status"],
        "proven": bool(sure and (rule or held["status"] == "optimal")),
    }  # fmt: skip


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Quartiles in percent, a row for each price."""
    made = []
    for (restriction, setting, objective), part in rows.groupby(["restriction", "setting", "objective"], sort=False):
        known = 100 * part["price"].dropna()
        low, middle, high = np.percentile(known, [25, 50, 75]) if len(known) else [np.nan] * 3
        made.append(
            {
                "restriction": restriction, "setting": setting, "of": objective, "instances": len(part),
                "no answer": int(part["restricted"].isna().sum()), "proven": int(part["proven"].sum()),
                "free": int((known < 1e-7).sum()), "least": known.min(), "quarter": low, "median": middle,
                "three quarters": high, "most": known.max(),
            }
        )  # fmt: skip
    return pd.DataFrame(made)


def draw(rows: pd.DataFrame, file: Path) -> None:
    """A dot for each instance, a bar at the median."""
    keys = list(dict.fromkeys(zip(rows["restriction"], rows["setting"], strict=True)))
    figure, axes = plt.subplots(figsize=(7.5, 6), layout="constrained")
    rng = np.random.default_rng(0)
    for place, (restriction, setting) in enumerate(keys):
        own = 100 * rows.loc[(rows["restriction"] == restriction) & (rows["setting"] == setting), "price"].dropna()
        axes.plot(own, place + rng.uniform(-0.25, 0.25, len(own)), "o", ms=3.5, alpha=0.45, color=INK, mew=0)
        axes.plot([own.median()] * 2, [place - 0.38, place + 0.38], color="black", lw=2)
    axes.set_yticks(range(len(keys)), [f"{restriction}, {setting}" for restriction, setting in keys])
    axes.invert_yaxis()
    axes.set_xlabel("price: share of what is paid with the restriction, in percent (bar: median)")
    axes.grid(axis="x", alpha=0.3)
    figure.savefig(file, dpi=110)
    plt.close(figure)


PAGE = """# Prices of restrictions, over families

What does a restriction cost - not on one instance that was chosen to show it, but on {count} drawn ones in each setting? Every row below compares the same
{count} instances with the restriction and without it. The price is the share of what is paid *with* the restriction that would be
saved without it: (restricted - free) / restricted, in percent; 50 means twice as much. The lesson
{{doc}}`../../lessons/prices` says what each restriction is.

![A dot for each instance, grouped by restriction and setting](prices.png)

{table}

*no answer*: instances that the restriction leaves without any answer (their price has no limit, and no dot). *proven*: both sides are proven optima, or the restricted side
is a rule that is what it is (deciding online, one step at a time, ignoring collocation) and the free side a proven optimum; the other prices are upper limits, because the
free side is a bound. *free*: instances on which the restriction costs nothing.

{settings}

Every number: {{download}}`prices.csv`. Made by `benchmarks/prices.py`; an instance is drawn again by the family and the seed.
"""


def settings(all_prices: list[Price]) -> str:
    """What was compared, a row for each restriction."""
    rows = []
    for price in all_prices:
        with_it = f"`{price.restricted.method}` on `{price.restricted.family}`"
        rows.append(
            {"restriction": price.restriction, "with it": with_it, "without": f"`{price.free.method}` on `{price.free.family}`",
             "parameters of the free side": ", ".join(f"{k}={v}" for k, v in price.free.parameters.items())}
        )  # fmt: skip
    return markdown(pd.DataFrame(rows).drop_duplicates())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="three instances of each")
    args = parser.parse_args()
    count = 3 if args.quick else COUNT
    all_prices = prices()
    rows = measured(all_prices, count, args.results, args.workers)
    args.out.mkdir(parents=True, exist_ok=True)
    rows.to_csv(args.out / "prices.csv", index=False, lineterminator="\n")
    draw(rows, args.out / "prices.png")
    table = markdown(summary(rows).round(2))
    (args.out / "prices.md").write_text(PAGE.format(count=count, table=table, settings=settings(all_prices)))
    print(table)


if __name__ == "__main__":
    main()
