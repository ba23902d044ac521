"""What each part of a portfolio is worth: every phase, move, bound and rule switched off in turn.

An instance is solved with everything, then again without one part. Clocks count the processor's seconds, so that what else a machine does
matters less; the row *everything again* is the same run twice and says how much chance is left.

*Lines* are those that hold code. *Proven* and *gap* are with everything and without the part; a gap is objective less bound, in percent of
the problem's scale (where no answer is found, of the current assignment's value). *Worse* and *better* count instances whose answer, and
*lower* and *higher* those whose bound, moved by more than a millionth of the scale. *Time* is the processor's, without the part as a multiple of with it,
over what both prove (geometric mean).
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import teaching_sizes
from house import code_lines
from never_beaten import drawn as at_random
from page import run

import keyshift as ks
from keyshift.models import Answer
from keyshift.papers.page import Page
from keyshift.solvers.intervals.ssm import sequence_bound

Off = Callable[[], contextlib.AbstractContextManager[object]]
Named = tuple[str, ks.Problem]
NOTICED = 1e-6
PROCESSOR = SimpleNamespace(**{**vars(time), "monotonic": time.process_time})


@dataclass(frozen=True)
class Part:
    """A part of a portfolio: what holds its code - modules, classes, functions - and how to do without it."""

    name: str
    code: tuple[str, ...]
    off: Off


def found(path: str) -> Any:
    """What a dotted name below keyshift.solvers means."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        with contextlib.suppress(ModuleNotFoundError):
            what = importlib.import_module(".".join(["keyshift.solvers", *parts[:end]]))
            for name in parts[end:]:
                what = getattr(what, name)
            return what
    raise LookupError(path)


def instead(path: str, other: object) -> Off:
    """Something else in place of an attribute."""
    holder, name = path.rsplit(".", 1)
    return lambda: mock.patch.object(found(holder), name, other, create=True)


def set_to(path: str, value: object) -> Off:
    """A setting with another value."""
    holder, name = path.rsplit(".", 1)
    kind = found(holder)
    made = {field.name: field.default for field in fields(kind)} | {name: value}
    return lambda: mock.patch.object(kind.__init__, "__defaults__", tuple(made.values()))


def several(*offs: Off) -> Off:
    @contextlib.contextmanager
    def both() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for off in offs:
                stack.enter_context(off())
            yield

    return both


GUIDED = (
    "insert", "swap_targets", "replace", "retarget", "replace_source", "reinsert", "go_home", "reroute_chain", "shorten_chain",
    "lengthen_chain",
)  # fmt: skip
"""The moves of key-group allocation."""


def without_move(name: str) -> Off:
    """A move of key-group allocation that is never drawn; the others are, as often in proportion."""

    def off() -> contextlib.AbstractContextManager[object]:
        from keyshift.solvers.allocation import search
        from keyshift.solvers.search.moves import MOVES

        shares = np.diff(search.SHARES, prepend=0.0)
        shares[MOVES.index(name)] = 0.0
        return mock.patch.object(search, "SHARES", np.cumsum(shares / shares.sum()))

    return off


def lines_of(path: str) -> int:
    """Lines that hold code: no blank lines, no comments, no docstrings."""
    what = found(path)
    what = getattr(what, "py_func", what)
    text = inspect.getsource(what.fget if isinstance(what, property) else what)
    text = inspect.cleandoc("\n" + text) if text[0].isspace() else text
    return code_lines(text)


@dataclass(frozen=True)
class Outcome:
    """A run: what was found and proven, and how long it took; a gap without an answer is that of where all runs now."""

    objective: float
    bound: float
    proven: bool
    seconds: float

    @classmethod
    def of(cls, problem: ks.Problem, seconds: float, **options: Any) -> Outcome:
        began = time.process_time()
        clocks = [mock.patch(f"keyshift.models.{where}.time", PROCESSOR) for where in ("answer", "base.compiling")]
        with clocks[0], clocks[1]:
            answer = ks.solve(problem, time_limit=seconds, gap=0.0, seed=1, **options)
        took = time.process_time() - began
        nothing = problem.scale if answer.status != "infeasible" else 0.0
        objective = nothing if answer.objective is None else answer.objective
        bound = objective if answer.status == "infeasible" else answer.bound or 0.0
        return cls(objective / problem.scale, bound / problem.scale, answer.status in ("optimal", "infeasible"), took)


def ablate(page: Page, name: str, parts: list[Part], instances: list[Named], **options: Any) -> None:
    """A row for each part, over all instances; every run is kept, and those of parts that are not asked for now stay."""
    words, kept = page.given.part, page.csv(f"{name}_runs")
    rows = pd.read_csv(kept).to_dict("records") if words and kept.exists() else []
    given = instances[: 3 if page.quick else None]
    plain: dict[str, Outcome] = {}
    parts = [Part("everything again", (), contextlib.nullcontext), *parts]
    for part in parts:
        if words and not any(word in part.name for word in words):
            continue
        rows = [row for row in rows if row["part"] != part.name]
        if not plain:
            Outcome.of(given[0][1], page.given.seconds, **options)  # compiles
            plain = {said: Outcome.of(problem, page.given.seconds, **options) for said, problem in given}
        for said, problem in given:
            with part.off():
                without = Outcome.of(problem, page.given.seconds, **options)
            rows.append(
                {"part": part.name, "instance": said, **said_of("with", plain[said]), **said_of("without", without)}
            )
        print(part.name, summary(pd.DataFrame([row for row in rows if row["part"] == part.name])), flush=True)
        page.keep(rows, f"{name}_runs")
    frame = pd.DataFrame(rows)
    if frame.empty:
        return  # none of its parts was asked for
    by_part = dict(list(frame.groupby("part")))
    page.table(
        [
            {"part": part.name, "lines": sum(map(lines_of, part.code)) or "", **summary(by_part[part.name])}
            for part in parts
            if part.name in by_part
        ],
        name,
    )


def said_of(when: str, run: Outcome) -> dict[str, float | bool]:
    return {f"{field} {when}": value for field, value in vars(run).items()}


def summary(runs: pd.DataFrame) -> dict[str, object]:
    """What a part's runs say, with everything / without the part."""
    answers, bounds = (runs[f"{figure} without"] - runs[f"{figure} with"] for figure in ("objective", "bound"))
    both = runs[runs["proven with"] & runs["proven without"]]
    took = np.log(both["seconds without"] / both["seconds with"])
    gaps = [(runs[f"objective {when}"] - runs[f"bound {when}"]).clip(lower=0).mean() * 100 for when in ("with", "without")]  # fmt: skip
    return {
        "proven": f"{runs['proven with'].sum()} / {runs['proven without'].sum()}",
        "gap %": " / ".join(f"{gap:.4g}" for gap in gaps),
        "worse": int((answers > NOTICED).sum()), "better": int((answers < -NOTICED).sum()),
        "lower": int((bounds < -NOTICED).sum()), "higher": int((bounds > NOTICED).sum()),
        "time": round(math.exp(took.mean()), 2) if len(took) else "",
    }  # fmt: skip


def drawn(family: str, count: int = 1, **parameters: Any) -> list[Named]:
    """The first instances of a family."""
    said = " ".join(f"{value}" for value in parameters.values())
    return [(f"{family} {said} {seed}", next(ks.family(family, seed=seed, **parameters))[1]) for seed in range(count)]


def hard(problem: str, *kinds: str) -> list[Named]:
    """A giant, two scales, draining: what the papers' settings lack."""
    kinds = kinds or ("giant", "two-scales", "draining")
    return [case for kind in kinds for case in drawn(f"hard-{problem}", kind=kind)]


def small(draw: Callable[[np.random.Generator], tuple[ks.Problem, str]], count: int) -> list[Named]:
    """Instances of teaching size, of loads of every kind."""
    made = [draw(np.random.default_rng([77, number])) for number in range(count)]
    return [(f"teaching, {loads} {number}", problem) for number, (problem, loads) in enumerate(made)]


def dozens() -> list[Named]:
    """MCLB of dozens of key groups in few windows: what sets near the mean and splits of two nodes are for."""
    made = []
    for nodes, key_groups, windows, share in ((3, 32, 3, None), (4, 32, 6, 0.2), (5, 36, 6, None), (4, 60, 4, None), (10, 100, 3, None)):  # fmt: skip
        rng = np.random.default_rng([6, nodes, key_groups, windows])
        w = ks.Workload(load=rng.uniform(1, 10, (windows, key_groups)), state=rng.uniform(1, 10, key_groups), current=rng.integers(0, nodes, key_groups), nodes=nodes)  # fmt: skip
        limit = None if share is None else share * float(w.state.sum())
        made.append((f"{nodes} nodes, {key_groups} key groups, {windows} windows", ks.MCLB(w, max_state_moved=limit)))
    return made


def tails_within_a_budget() -> list[Named]:
    """MCLB of heavy tails, of which two per cent of the state may move: one window, two, and four."""
    loads = [heavy(1, 6, 80), heavy(2, 9, 180), heavy(3, 8, 128), heavy(4, 5, 400, 4), heavy(5, 20, 400, 2)]
    return [(f"heavy tails {w.key_groups}, {w.windows} windows", ks.MCLB(w, max_state_moved=0.02 * float(w.state.sum()))) for w in loads]  # fmt: skip


def heavy(seed: int, nodes: int, key_groups: int, windows: int | None = None) -> ks.Workload:
    """A workload of heavy tails, anywhere; over windows each load is drawn again, up to 40 % off."""
    rng = np.random.default_rng([5, seed])
    load = rng.pareto(1.2, key_groups) + 0.1
    load = load if windows is None else load * rng.uniform(0.6, 1.4, (windows, key_groups))
    return ks.Workload(load=load, state=rng.uniform(1, 10, key_groups), current=rng.integers(0, nodes, key_groups), nodes=nodes)  # fmt: skip


NEVER = property(lambda _: False)
PHASES, SEARCH = (
    "allocation.portfolio.Portfolio",
    ("allocation.search", "search.annealing", "search.moves", "search.terms"),
)
ALLOCATION = [
    Part("exchanges between three nodes", ("allocation.exchanges.Exchanges", f"{PHASES}._exchange", "allocation.search.Search.cool"), instead(f"{PHASES}._exchanges", NEVER)),
    Part("bound by prices", ("allocation.pricing.bound", "allocation.pricing.kernels", "allocation.pricing.tree", f"{PHASES}._price"), instead("allocation.portfolio.price_trees", lambda *given: [])),
    Part("plans by counts", ("allocation.counting.CountPlanner", f"{PHASES}._plan"), instead(f"{PHASES}._plan", lambda self: None)),
    Part("plans of the prices", ("allocation.pricing.tree.dealt", f"{PHASES}._realise", "allocation.search.Search.realise"), instead(f"{PHASES}._realise", lambda *given: False)),
    Part("bound by counts", ("allocation.counting",), instead("allocation.counting.CountBound.bound", lambda self: 0.0)),
    Part("annealing", SEARCH, instead(f"{PHASES}._anneal", lambda self, start, todo, turn: self.found.budget.spend(2 * todo.steps))),
    Part("few nodes shared out anew", ("allocation.exchanges.even_out", "allocation.exchanges.Subproblem"), set_to("tuning.AllocationSettings.evened", 0)),
    Part("CP-SAT first", (), set_to("tuning.AllocationSettings.small", 0)),
    Part("CP-SAT", (f"{PHASES}.cpsat_turns",), instead(f"{PHASES}.cpsat_turns", lambda self: iter(()))),
    Part("HiGHS", (f"{PHASES}.highs_turns",), instead(f"{PHASES}.highs_turns", lambda self: iter(()))),
    Part("whole loads", ("allocation.arrays.WholeLoads",), instead("allocation.portfolio.whole_loads", lambda problem: None)),
]  # fmt: skip
JOINT = "allocation.joint_relaxation"
WINDOWS = [
    Part("annealing over windows", SEARCH, instead(f"{PHASES}._anneal", lambda self, start, todo, turn: self.found.budget.spend(2 * todo.steps))),
    Part("joint relaxation", (JOINT,), instead(f"{PHASES}.joint_turns", lambda self: iter(()))),
    Part("its linear program", (f"{JOINT}.MoveMaster",), instead(f"{JOINT}.JointRelaxation.improve", lambda self, expired, rounds=60: (setattr(self, "ended", True), self.best)[1])),
]  # fmt: skip
RULED = [
    Part("linear relaxation", (f"{PHASES}.linear_turns",), instead(f"{PHASES}.linear_turns", lambda self: iter(()))),
    Part("bound by prices", (), instead("allocation.portfolio.price_trees", lambda *given: [])),
    Part("exchanges between three nodes", (), instead(f"{PHASES}._exchanges", NEVER)),
]  # fmt: skip


MOVES = [
    *(Part(move, (f"search.moves.{move}",), without_move(move)) for move in GUIDED),
]  # fmt: skip


def allocation(page: Page) -> None:
    """Key-group allocation.

    `milp` on the papers' settings, hard instances, heavy tails and teaching sizes.
    """
    tails = [(f"heavy tails {n}/{p} {limit}", ks.KeyGroupAllocation(heavy(p, n, p), max_migrations=limit)) for n, p, limit in ((6, 60, None),)]  # fmt: skip
    instances = [
        *drawn("madsen-allocation"), *drawn("madsen-allocation", nodes=40, key_groups=800, max_migrations=20),
        *drawn("madsen-allocation", nodes=10, key_groups=200, max_migrations=40), *hard("allocation"), *tails,
        *small(teaching_sizes.allocation, 3),
    ]  # fmt: skip
    ablate(page, "allocation", ALLOCATION, instances)


def moves(page: Page) -> None:
    """Moves of the search for allocation.

    Six rounds of search from the current assignment, without prices and solvers: no clock is asked, and the bound is that of counting.
    """
    instances = [
        *drawn("madsen-allocation", 3), *drawn("madsen-allocation", nodes=40, key_groups=800, max_migrations=60),
        *drawn("madsen-allocation", 2, nodes=10, key_groups=200, max_migrations=40), *hard("allocation"),
        *[(f"heavy tails {p}", ks.KeyGroupAllocation(heavy(p, 10, p), max_migrations=30)) for p in (200, 201)],
    ]  # fmt: skip
    ablate(page, "moves", MOVES, instances, rounds=6)


def windows(page: Page) -> None:
    """Key-group allocation over several windows.

    `milp` on the papers' setting, its loads fluctuating.
    """
    size = {"nodes": 10, "key_groups": 200}
    instances = [case for over in ("mean", "max", "cvar") for case in drawn("madsen-windows", **size, over=over)]
    ablate(page, "windows", WINDOWS, instances)


MCLB = [
    Part("sets near the mean", ("mclb.near_sets",), instead("mclb.near_sets.NearMeanSets.suits", lambda core: False)),
    Part("splits of two nodes", ("mclb.pair_splits.PairSplits", "mclb.pair_splits.nearest_subset"), instead("mclb.pair_splits.PairSplits.suits", lambda core: False)),
    Part("SCIP on one window with a budget", ("mclb.portfolio.MCLBPortfolio.scip_turns",), instead("mclb.portfolio.MCLBPortfolio.for_scip", False)),
    Part("CP-SAT on few nodes with a budget", ("mclb.portfolio.MCLBPortfolio.by_cpsat",), instead("mclb.portfolio.MCLBPortfolio.for_cpsat", False)),
    Part("semidefinite bound", ("mclb.sdp",), instead("mclb.portfolio.climb", lambda *given, **options: iter(()))),
    Part("its cuts", ("mclb.sdp.SemidefiniteDual.add_cuts",), instead("mclb.sdp.SemidefiniteDual.add_cuts", lambda self, rng: None)),
    Part("quadratic bound", ("mclb.bounds",), instead("mclb.portfolio.shared_squares", lambda *given: iter(()))),
    Part("window by window bound", ("mclb.bounds",), instead("mclb.portfolio.window_bound", lambda *given: 0.0)),
    Part("annealing", ("mclb.local_search._Annealing", "search.second_moments"), set_to("tuning.MCLBSettings.annealed", 0)),
    Part("softened runs", ("mclb.local_search._Annealing._softened", "mclb.local_search._Annealing._capped", "mclb.local_search._next_kind"), instead("mclb.local_search.SOFTNESS", ())),
    Part("runs that go on from the best", (), instead("mclb.local_search.REHEATED", (0.0, 0.0))),
    Part("swaps of neighbours in size", ("mclb.local_search_kernels.swap_alike",), instead("mclb.local_search_kernels.swap_alike", lambda load, chosen, sums, state, current, spent, *rest: (0.0, spent))),
]  # fmt: skip


def mclb(page: Page) -> None:
    """Minimum-cost load balancing.

    `branch-and-bound` on the papers' settings, hard instances, teaching sizes, and heavy tails of which little state may move.
    """
    instances = [
        *drawn("guo-mclb", nodes=5, key_groups=30, windows=20), *drawn("guo-mclb", nodes=5, key_groups=50, windows=20, share_moved=0.1),
        *drawn("guo-mclb", share_moved=0.05), *drawn("guo-mclb", nodes=20, key_groups=2000, windows=20),
        *hard("mclb"), *small(teaching_sizes.mclb, 3), *dozens(), *tails_within_a_budget(),
    ]  # fmt: skip
    ablate(page, "mclb", MCLB, instances)


def without_sets() -> Off:
    return instead("collocation.portfolio.CollocationSets.suits", staticmethod(lambda problem, data: False))


def shares(**shares: float) -> Off:
    """Moves of the search for collocation with other shares."""
    from keyshift.solvers.search.annealing import shares_of

    return instead(
        "collocation.local_search.SHARES", shares_of(**{"join": 0.375, "cluster": 0.4375, "swap": 0.1875, **shares})
    )


COLLOCATION = [
    Part("set partitioning", ("collocation.sets", "collocation.sets_kernels"), without_sets()),
    Part("Lagrangian bound", ("collocation.lagrangian",), instead("collocation.portfolio.tighten", lambda *given: 1.0)),
    Part("bounds from the shape of the traffic", ("collocation.structural_bounds",), instead("collocation.portfolio.most_by_structure", lambda *given: 1.0)),
    Part("closing nodes", ("collocation.lagrangian.LagrangianBound.close",), instead("collocation.lagrangian.LagrangianBound.close", lambda self, incumbent: 0)),
    Part("HiGHS on what is open", ("collocation.portfolio.CollocationPortfolio.by_highs",), instead("collocation.portfolio.CollocationPortfolio.highs_turns", lambda self: iter(()))),
    Part("CP-SAT", ("collocation.portfolio.CollocationPortfolio.by_cpsat",), instead("collocation.portfolio.CollocationPortfolio.by_cpsat", lambda self, turn: Answer(None))),
    Part("pairs bounded in place of modelled", ("collocation.lagrangian.LagrangianBound.beyond",), instead("collocation.portfolio._explicit", lambda data, open_to, room: np.ones(data.first.size, dtype=bool))),
    Part("second opinion", ("collocation.statement.second_opinion",), set_to("tuning.CollocationSettings.confirmed", 0)),
    Part("search", ("collocation.local_search", *SEARCH[1:]), instead("collocation.local_search.Annealing.go_on", lambda self, *given, **options: None)),
    Part("beginning again", (), instead("collocation.local_search.Annealing.settled", NEVER)),
    *(Part(f"move: {move}", (f"search.moves.{move}",), shares(**{move: 0.0})) for move in ("join", "cluster", "swap")),
    Part("rounds of two more temperatures", (), instead("collocation.local_search.HEATS", (1.0,))),
    Part("prices of broken limits", (), instead("collocation.local_search.FIRMNESS", (4.0,))),
]  # fmt: skip


def collocation(page: Page) -> None:
    """Collocated allocation.

    `milp` on the paper's settings, hard instances, teaching sizes, and heavy tails of which few may move.
    """
    instances = [
        *drawn("madsen-collocation"), *drawn("madsen-collocation", nodes=10, key_groups=200, one_to_one=1.0, max_migrations=40),
        *drawn("madsen-collocation", nodes=6, key_groups=60, max_migrations=10),
        *hard("collocation", "two-scales"), *small(teaching_sizes.collocation, 3), *at_random(150, 400_400, "tails, colloc"),
    ]  # fmt: skip
    ablate(page, "collocation", COLLOCATION, instances)


ROUTING = [
    Part("Lagrangian bound", ("routing.lagrangian",), set_to("tuning.RoutingSettings.rounds", 1)),
    Part("rounding", ("routing.rounding",), instead("routing.statement.rounded", lambda *given: iter(()))),
    Part("closing by reduced cost", ("routing.lagrangian.Relaxation.open_choices",), instead("routing.statement.RoutingPortfolio.open_choices", lambda self, dual: self.relaxation.open_choices(dual.prices, np.inf))),
    Part("the program of what is open", ("routing.statement.RoutingPortfolio.solver_turns",), instead("routing.statement.RoutingPortfolio.solver_turns", lambda self, solver, note: iter(()))),
    Part("fewest entries", ("routing.statement.fewest_entries",), instead("routing.statement.fewest_entries", lambda *given: 0)),
    Part("sums of whole states", ("routing.rounding.on_grid",), instead("routing.statement.on_grid", lambda problem, bound: bound)),
]  # fmt: skip


def routing(page: Page) -> None:
    """Mixed routing.

    `milp` on the paper's settings, hard instances and teaching sizes.
    """
    instances = [
        *drawn("fang-routing", keys=1000, max_table_size=300), *drawn("fang-routing", keys=1000, max_table_size=None, theta_max=0.02),
        *drawn("fang-routing"), *drawn("fang-routing", skew=1.1, keys=5000),
        *hard("routing"), *small(teaching_sizes.routing, 2),
    ]  # fmt: skip
    ablate(page, "routing", ROUTING, instances)


MAKESPAN = "splitting.makespan.Makespan"


def unbounding(name: str) -> Off:
    """A flow that says nothing of keys that stay whole."""
    path = f"splitting.statement.{name}"
    flow = found(path)
    return instead(
        path, lambda items, budget: replace(flow(items, budget), **({"bound": 0.0} if items.problem.one_place else {}))
    )


SPLITTING = [
    Part("program for what the flow leaves", (), instead("splitting.statement.search", lambda items, start, least, budget, *rest: Answer(start, least, budget.why))),
    Part("flow as a bound for whole keys", (), several(*map(unbounding, ("whole_flow", "fractional_flow")))),
    Part("bounds rounded up to loads that can occur", (), instead("splitting.statement.Items.next_possible_load", lambda self, bound: bound)),
    Part("search for a makespan, HiGHS in its place", ("splitting.makespan",), instead("splitting.statement.Items.interchangeable_workers", NEVER)),
    Part("keys of two workers exchanged", (f"{MAKESPAN}.deal_pairs", "splitting.makespan._halves"), instead(f"{MAKESPAN}.deal_pairs", lambda self, budget: None)),
    Part("keys of three workers exchanged", (f"{MAKESPAN}.deal_triples", "splitting.makespan.deal_to_three"), instead(f"{MAKESPAN}.deal_triples", lambda self, times, budget: None)),
    Part("bin completion", (f"{MAKESPAN}.complete_bins", "splitting.makespan.Packing"), instead(f"{MAKESPAN}.complete_bins", lambda self, most, budget: None)),
    Part("MultiFit", ("splitting.makespan.multifit", "splitting.makespan._first_fit"), instead("splitting.makespan.multifit", lambda *given: None)),
]  # fmt: skip


def makespans(count: int) -> list[Named]:
    """Whole keys of drawn weights that may go to any of ten workers."""
    rng = np.random.default_rng(7)
    weights = [rng.integers(1, 10_000, keys) for keys in (30, 50, 100)[:count]]
    return [(f"any worker, {w.size} keys", ks.KeyPlacement(range(w.size), workers=10, choices=None, weights=w)) for w in weights]  # fmt: skip


def splitting(page: Page) -> None:
    """Key splitting and placement.

    The default methods (`flow`, `milp`) on the paper's settings, hard instances, teaching sizes, and keys that may go to any worker.
    """
    instances = [
        *drawn("nasir-splitting"), *drawn("nasir-placement"), *hard("splitting", "two-scales", "draining"), *hard("placement", "ties", "two-scales"),
        *small(teaching_sizes.splitting, 1), *small(teaching_sizes.placement, 2), *makespans(3),
    ]  # fmt: skip
    ablate(page, "splitting", SPLITTING, instances)


AHEAD = "intervals.sequence.oms.restricted_sequence"
INTERVALS = [
    Part("sequence: sweeps over all partitions", ("intervals.sequence.oms._by_sweeps", "intervals.sequence.oms._forward"), instead("intervals.sequence.oms._by_sweeps", lambda problem, counted, start, budget: Answer(start, sequence_bound(problem), budget.why))),
    Part("sequence: a start from some partitions", ("intervals.sequence.restricted",), instead(AHEAD, lambda problem, *, budget, **options: Answer(None, sequence_bound(problem), budget.why))),
    Part("policy: potentials before enumeration", ("intervals.potentials.dual", "intervals.potentials.two_partitions_kernels"), instead("intervals.policy.mtm.potentials_policy", lambda problem, *, budget, **options: Answer(None, None, budget.why))),
    Part("policy: partitions that potentials lead to", ("intervals.policy.potentials.led_to",), instead("intervals.policy.potentials.led_to", lambda problem, *given: {n: {} for n in problem.reachable})),
]  # fmt: skip


def intervals(page: Page) -> None:
    """Migration sequences and policies.

    The default methods (`oms`, `mtm`) on the paper's settings and hard instances; one step has a single dynamic program, from which nothing can be taken.
    """
    instances = [
        *drawn("ding-sequence"), *drawn("ding-sequence", tasks=64), *hard("sequence", "ties", "two-scales"),
        *drawn("ding-policy"), *drawn("ding-policy", tasks=64), *hard("policy", "ties"),
    ]  # fmt: skip
    ablate(page, "intervals", INTERVALS, instances)


if __name__ == "__main__":
    run(
        "ablation", "What each part is worth", __doc__ or "", [allocation, moves, windows, mclb, collocation, routing, splitting, intervals],
        seconds={"type": float, "default": 4.0}, part={"nargs": "*", "default": (), "help": "only parts whose name has one of these words"},
    )  # fmt: skip
