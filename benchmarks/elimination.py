"""What earns its place: the parts of each portfolio leave one after another, the cheapest first, and none comes back.

An ablation takes out one part and puts it back, so that of two parts that stand in for each other neither is missed. Here they leave
jointly. The first look takes out each part alone, which gives the order; then the cheapest that is left is taken out of what is left, and
leaves if no proof, no answer and no bound goes with it. One that does cost something is tried again after the others, until no removal is free.
Proofs count first, then answers, then time: a proof is lost if both runs with everything have it, and won if neither has it.

Half of the instances are looked at while parts leave; the others, which no decision has seen, say in the end what each step costs.
Clocks count the processor's seconds, so that what else a machine does matters less. Every run is kept: a page that was broken off goes on.

*Proven* and *worse* are sums over all instances of what is left, beside everything: worse are answers, in hundredths of the problem's
scale, a mean of all; *lower* are bounds, likewise. *Time* is the processor's as a multiple of that with everything (geometric mean).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import teaching_sizes
from ablation import (
    ALLOCATION,
    INTERVALS,
    MOVES,
    ROUTING,
    RULED,
    SPLITTING,
    WINDOWS,
    Named,
    Outcome,
    Part,
    drawn,
    heavy,
    lines_of,
    makespans,
    several,
    small,
)
from page import run

import keyshift as ks
from keyshift.papers.page import Page

EVERYTHING, AGAIN = "everything", "everything again"
WARM = 0.4
"""Seconds of the processor for each instance before the first run that counts."""
LOWER = 5.0
"""Bounds may be lower by so many times what answers may be worse: they say how good an answer is, and are none."""


@dataclass(frozen=True)
class Price:
    """What is lost against everything: proofs, and the means of answers and bounds in hundredths of the scale."""

    proofs: int
    worse: float
    lower: float
    time: float

    @property
    def rank(self) -> tuple[float, ...]:
        return self.proofs, round(max(0.0, self.worse), 3), round(max(0.0, self.lower), 2), self.time


class Runs:
    """Every run of a formulation on its instances, read from a file and kept there."""

    def __init__(self, page: Page, name: str, instances: list[Named], seconds: float, options: dict[str, Any]) -> None:
        self.page, self.name, self.instances = page, f"{name}_runs", instances
        self.seconds, self.options = seconds, options
        path = page.csv(self.name)
        self.rows = pd.read_csv(path).to_dict("records") if path.exists() else []
        self.known = {(row["without"], row["instance"]): row for row in self.rows}
        self.warm = False

    def of(self, parts: Sequence[Part], instances: Iterable[Named], name: str = "") -> pd.DataFrame:
        """A row an instance, without these parts."""
        without = name or " + ".join(sorted(part.name for part in parts)) or EVERYTHING
        rows = []
        for said, problem in instances:
            if (without, said) not in self.known:
                self._add(without, parts, said, problem)
            rows.append(self.known[without, said])
        return pd.DataFrame(rows).set_index("instance")

    def _add(self, without: str, parts: Sequence[Part], said: str, problem: ks.Problem) -> None:
        with several(*(part.off for part in parts))():
            if not self.warm:
                for _, each in self.instances:
                    Outcome.of(each, WARM, **self.options)  # compiles, loads solvers
                self.warm = True
            found = Outcome.of(problem, self.seconds, **self.options)
        row = {"without": without, "instance": said, **vars(found)}
        self.known[without, said] = row
        self.rows.append(row)
        self.page.keep(self.rows, self.name)


@dataclass
class Elimination:
    """The parts of one formulation, and the instances on which they are tried.

    Parameters
    ----------
    runs : Runs
    parts : list of Part
    seen, aside : list
        Instances that decide, and those that have the last word.
    least : float
        Hundredths of the scale, in the mean of all instances, that answers may be worse.
    """

    runs: Runs
    parts: list[Part]
    seen: list[Named]
    aside: list[Named]
    least: float

    @cached_property
    def everything(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        return self._twice(self.seen)

    def _twice(self, instances: list[Named]) -> tuple[pd.DataFrame, pd.DataFrame]:
        return self.runs.of([], instances), self.runs.of([], instances, AGAIN)

    def price(self, gone: Sequence[Part], instances: list[Named] | None = None) -> Price:
        """Without some parts, on the instances that decide or on others."""
        both = self.everything if instances is None else self._twice(instances)
        return price(self.runs.of(gone, self.seen if instances is None else instances), *both)

    def free(self, cost: Price) -> bool:
        return cost.proofs <= 0 and cost.worse <= self.least and cost.lower <= LOWER * self.least

    def order(self) -> tuple[list[Part], list[tuple[Part, Price]]]:
        """The parts that leave, in their order, and those that stay with what their going would have cost."""
        gone: list[Part] = []
        left = sorted(self.parts, key=lambda part: self._look([part]).rank)
        refused: dict[str, Price] = {}
        while True:
            leaving = next((part for part in left if self._may_leave(part, gone, refused)), None)
            if leaving is None:
                return gone, [(part, refused[part.name]) for part in left]
            gone.append(leaving)
            left = [part for part in left if part is not leaving]
            later = [part for part in left if part.name in refused]
            left = [part for part in left if part.name not in refused] + later

    def _may_leave(self, part: Part, gone: list[Part], refused: dict[str, Price]) -> bool:
        cost = self._look([*gone, part])
        if self.free(cost):
            refused.pop(part.name, None)
            return True
        refused[part.name] = cost
        return False

    def _look(self, gone: list[Part]) -> Price:
        cost = self.price(gone)
        print(" + ".join(part.name for part in gone), cost, flush=True)
        return cost


def price(without: pd.DataFrame, full: pd.DataFrame, again: pd.DataFrame) -> Price:
    """What runs lost against two with everything."""
    lost = (full["proven"] & again["proven"] & ~without["proven"]).sum()
    won = (~full["proven"] & ~again["proven"] & without["proven"]).sum()
    best, best_bound = (full["objective"] + again["objective"]) / 2, (full["bound"] + again["bound"]) / 2
    worse, lower = without["objective"] - best, (best_bound - without["bound"]).clip(-1, 1)
    took = np.log(without["seconds"] / np.sqrt(full["seconds"] * again["seconds"]))
    return Price(int(lost - won), 100 * float(worse.mean()), 100 * float(lower.mean()), math.exp(float(took.mean())))


def eliminate(
    page: Page, name: str, parts: list[Part], instances: list[Named], *, seconds: float = 1.0, **options: Any
) -> None:
    """The order in which the parts of a formulation leave, the price of each step, and what stays; a table of each."""
    parts = [part for part in parts if not page.given.part or any(word in part.name for word in page.given.part)]
    instances = instances[:4] if page.quick else instances
    runs = Runs(page, name, instances, page.given.seconds or seconds, options)
    said = Elimination(runs, parts, instances[::2], instances[1::2], page.given.least)
    gone, stays = said.order()
    lines = {part.name: sum(map(lines_of, part.code)) or "" for part in parts}
    steps = [{"step": 0, "gone": "nothing: everything again", "lines": "", **shown(said, [])}]
    for step, part in enumerate(gone, 1):
        steps.append({"step": step, "gone": part.name, "lines": lines[part.name], **shown(said, gone[:step])})
    page.table(steps, f"{name}_steps")
    page.say("What stays, and what its going as the next would have cost on the half that decides:")
    rows = [
        {"stays": part.name, "lines": lines[part.name], "proofs lost": cost.proofs, "worse": f"{cost.worse:.3g}", "lower": f"{cost.lower:.3g}", "time": f"{cost.time:.2f}"}
        for part, cost in stays
    ]  # fmt: skip
    page.table(rows, f"{name}_stays")


def shown(said: Elimination, gone: list[Part]) -> dict[str, object]:
    """A step's figures on both halves."""
    made: dict[str, object] = {}
    for half, instances in (("", said.seen), (" aside", said.aside)):
        full, again = said._twice(instances)
        now = said.runs.of(gone, instances) if gone else again
        cost = price(now, full, full)
        made |= {f"proven{half}": f"{now['proven'].sum()} of {len(now)}", f"worse{half}": f"{cost.worse:.3g}", f"lower{half}": f"{cost.lower:.3g}", f"time{half}": f"{cost.time:.2f}"}  # fmt: skip
    return made


def allocations() -> list[Named]:
    """The papers' settings with 10 to 40 moves, hard ones, heavy tails and teaching sizes; neighbours are of one kind."""
    size = [(20, 10), (20, 20), (40, 20), (60, 20), (20, 40), (40, 40)]
    made = [case for nodes, most in size for case in drawn("madsen-allocation", 2, nodes=nodes, key_groups=20 * nodes, max_migrations=most)]  # fmt: skip
    for kind in ("giant", "two-scales", "draining", "ties"):
        made += drawn("hard-allocation", 2, kind=kind)
    made += [(f"heavy tails {n}/{p} {limit}", ks.KeyGroupAllocation(heavy(p, n, p), max_migrations=limit)) for n, p, limit in ((6, 60, None), (6, 61, None), (10, 200, 30), (10, 201, 30))]  # fmt: skip
    return made + small(teaching_sizes.allocation, 6)


def allocation(page: Page) -> None:
    """Key-group allocation.

    `milp` on the papers' settings with 10 to 40 moves, hard instances, heavy tails and teaching sizes.
    """
    eliminate(page, "allocation", ALLOCATION, allocations(), seconds=2.0)


def windows(page: Page) -> None:
    """Key-group allocation over several windows.

    `milp` on the papers' setting, its loads fluctuating, over the mean, the worst window and CVaR.
    """
    size = {"nodes": 10, "key_groups": 200}
    cases = [
        case
        for most in (10, 20, 40)
        for over in ("mean", "max", "cvar")
        for case in drawn("madsen-windows", 2, **size, over=over, max_migrations=most)
    ]
    eliminate(page, "windows", WINDOWS, cases, seconds=2.0)


def moves(page: Page) -> None:
    """Moves of the search for allocation.

    Six rounds of search from the current assignment, without prices and solvers: no clock is asked, and the bound is that of counting.
    """
    instances = [case for nodes, most in ((20, 20), (40, 60), (10, 40)) for case in drawn("madsen-allocation", 4, nodes=nodes, key_groups=20 * nodes, max_migrations=most)]  # fmt: skip
    instances += [
        (f"heavy tails {p}", ks.KeyGroupAllocation(heavy(p, 10, p), max_migrations=30)) for p in range(200, 204)
    ]
    for kind in ("giant", "two-scales", "draining", "ties"):
        instances += drawn("hard-allocation", 2, kind=kind)
    eliminate(page, "moves", MOVES, instances, seconds=20.0, rounds=6)


def ruled(page: Page) -> None:
    """Key-group allocation under rules.

    `milp` on partitions with replicas, racks and counts.
    """
    cases = [case for nodes, p in ((6, 60), (10, 120), (20, 400)) for case in drawn("replicas-allocation", 4, nodes=nodes, key_groups=p)]  # fmt: skip
    eliminate(page, "ruled", RULED, cases, seconds=2.0)


def routing(page: Page) -> None:
    """Mixed routing.

    `milp` on the paper's settings, large tables, hard instances and teaching sizes.
    """
    tables = ({"keys": 1000, "max_table_size": 300}, {"keys": 1000, "max_table_size": None, "theta_max": 0.02}, {}, {"skew": 1.1, "keys": 5000}, {"keys": 300, "nodes": 8, "max_table_size": 20, "theta_max": 0.1}, {"keys": 30_000, "nodes": 30, "theta_max": 0.01, "max_table_size": 3_000})  # fmt: skip
    cases = [case for setting in tables for case in drawn("fang-routing", 2, **setting)]
    for kind in ("giant", "two-scales", "draining", "ties"):
        cases += drawn("hard-routing", 2, kind=kind)
    eliminate(page, "routing", ROUTING, [*cases, *small(teaching_sizes.routing, 4)], seconds=2.0)


def splitting(page: Page) -> None:
    """Key splitting and placement.

    The default methods (`flow`, `milp`) on the paper's settings, hard instances, teaching sizes, and keys that may go to any worker.
    """
    cases = [*drawn("nasir-splitting", 2), *drawn("nasir-placement", 2)]
    for kind in ("ties", "two-scales", "draining"):
        cases += [*drawn("hard-splitting", 2, kind=kind), *drawn("hard-placement", 2, kind=kind)]
    cases += [
        *small(teaching_sizes.splitting, 2),
        *small(teaching_sizes.placement, 4),
        *makespans(3),
    ]
    eliminate(page, "splitting", SPLITTING, list(dict(cases).items()), seconds=2.0)


def intervals(page: Page) -> None:
    """Migration sequences and policies.

    The default methods (`oms`, `mtm`) on the paper's settings and hard instances.
    """
    cases = [
        *drawn("ding-sequence", 2),
        *drawn("ding-sequence", 2, tasks=64),
        *drawn("ding-policy", 2),
        *drawn("ding-policy", 2, tasks=64),
    ]
    for kind in ("ties", "two-scales"):
        cases += [*drawn("hard-sequence", 2, kind=kind), *drawn("hard-policy", 2, kind=kind)]
    eliminate(page, "intervals", INTERVALS, cases, seconds=2.0)


if __name__ == "__main__":
    run(
        "elimination", "Only what earns its place", __doc__ or "", [allocation, windows, moves, ruled, routing, splitting, intervals],
        seconds={"type": float, "default": None, "help": "of the processor, for each run"},
        least={"type": float, "default": 0.02, "help": "hundredths of the scale that answers may be worse in the mean"},
        part={"nargs": "*", "default": (), "help": "only parts whose name has one of these words"},
    )  # fmt: skip
