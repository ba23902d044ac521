"""Tuning parameters of "milp": of its phases, and of their rounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from keyshift.models.answer import Settings
from keyshift.models.guards import Whole

Phase = Literal["anneal", "plan", "exchange", "price"]
Beginning = Literal["cooled", "heated", "planned"]


@dataclass(frozen=True)
class RoundSettings(Settings):
    """Tuning parameters of the rounds.

    Attributes
    ----------
    cycle : tuple of str
        The phases of the rounds, over and over: "anneal", "plan" (and polish what was planned), "exchange" (only if
        many key groups may move) or "price". A phase of prices is repeated as long as it helps; if there is nothing to
        plan, annealing runs instead.
    cycle_of_few : tuple of str
        The same if many key groups may move and rounds are short.
    cycle_of_small : tuple of str
        The same with at most `few_pairs` pairs and a bound near 0, where plans and prices do not help.
    cycle_of_windows : tuple of str
        The same over more than one window, for which there are no plans, exchanges or prices.
    starts : dict
        The assignments that exchanges begin from, in turn, and for how many turns each may pause: a fresh annealing,
        the best one reheated, a realised plan.
    least_steps, most_steps, steps_for_each : int
        Steps of search before the rounds end: the least, the most, and the number for each (key group, node) pair.
    few_pairs, early_nodes, early_effort, early_share : int, int, float, float
        With at most `few_pairs` pairs, HiGHS gets `early_nodes` nodes after the first cycle and CP-SAT `early_effort`
        deterministic seconds: if few key groups have heavy-tailed loads, a solver often proves the optimum in a second. Where
        the best distance is within reach of the bound, only heavy tails are asked about, in a share of the time left.
    within_reach, least_pairs : float, int
        With more than `least_pairs` pairs rounds use the whole time limit, unless many key groups may move and the best
        distance is within `within_reach` times the mean of the bound, a gap that more search closes sooner than a solver.
    counted_pairs, counted_share : int, tuple of float
        With more than `counted_pairs` pairs the bound by counting may take a share of the time left: the first share if
        fewer key groups may move than there are nodes, else the second.
    first_share : float
        Covers by sets near the mean, and the enumeration of a few moves, may each take this share of the time left
        before the first plans and prices.
    relaxed_share, roundings : float, int
        Over more than one window their joint relaxation may take the share `relaxed_share` of the time left;
        `roundings` assignments are drawn from it, and a fresh round begins from the best.
    endless_pairs : int
        With more pairs than this, rounds use the whole time limit.
    planned_at : tuple of float
        Targets of plans between the bound and the best distance, used in turn.
    planned_steps : int
        Steps of search to realise a plan.
    resample_every : int
        In one of this many plans, arrivals are drawn from the departures of the last plan instead of from all key
        groups.
    exchanges_tried, exchange_steps : int
        Exchanges in a row that may fail, and the steps of search that take as long as one.
    near : float
        Exchanges that end within this factor of the best distance are tried again at the next turn.
    priced_at : tuple of float
        Targets of prices, used in turn; at 1, they search for a proof.
    priced_steps : int
        Steps of search that take as long as one run of prices.
    work_of_step, uneven_curves : float
        Elementary steps of prices that take as long as a step of search. Where loads are uneven under rules, prices
        seldom help: they wait until the search has taken as long as `uneven_curves` curves.
    branch_work, most_branches : float, int
        The first run of prices may take branches for this much work, each further run a quarter more.
    tight : float
        If many key groups may move and the bound by counting leaves more moves per node than this, prices pause after a
        run that did not help.
    fewer_branches : float
        Divisor of the number of branches in this case.
    narrow_pairs, narrow_tries, narrow_again : int
        With at most `narrow_pairs` pairs, covers by sets near the mean are searched; the key groups of a few nodes are
        then redistributed until `narrow_tries` tries in a row fail, `narrow_again` after exchanges.
    most_few, few_first, few_each, few_most : int
        If at most `most_few` key groups may move, all choices are enumerated: `few_first` branches before the first
        cycle, `few_each` more after each turn from the end of it, `few_most` in all.
    attempts : int
        Annealings that try to realise a plan from prices; most of them fail.
    """

    cycle: tuple[Phase, ...] = (
        *("anneal", "exchange", "plan") * 2, "price", *("anneal", "exchange", "plan") * 2,
    )  # fmt: skip
    cycle_of_few: tuple[Phase, ...] = ("exchange", "anneal", "exchange") * 4 + ("price",)
    cycle_of_small: tuple[Phase, ...] = ("exchange",)
    cycle_of_windows: tuple[Phase, ...] = ("anneal",)
    starts: dict[Beginning, Whole] = field(default_factory=partial(dict, cooled=4, heated=2, planned=8))
    least_steps: int = 6_000_000
    most_steps: int = 200_000_000
    steps_for_each: int = 15_000
    few_pairs: int = 3_000
    early_nodes: int = 500
    early_effort: float = 3.0
    early_share: float = 0.4
    within_reach: float = 0.01
    least_pairs: int = 300
    counted_pairs: int = 1_000_000
    counted_share: tuple[float, float] = (0.7, 0.2)
    first_share: float = 0.2
    relaxed_share: float = 0.5
    roundings: int = 30
    endless_pairs: int = 5_000
    planned_at: tuple[float, ...] = (0.5, 0.75, 0.25, 0.9, 0.02, 0.6, 0.35, 0.97, 0.1)
    planned_steps: int = 150_000
    resample_every: int = 3
    exchanges_tried: int = 100
    exchange_steps: int = 1_000_000
    near: float = 3.0
    priced_at: tuple[float, ...] = (0.5, 0.75, 0.25, 0.9, 1.0, 0.05, 0.6, 0.35, 0.97, 1.0, 0.1)
    priced_steps: int = 2_000_000
    work_of_step: float = 100.0
    uneven_curves: float = 240.0
    branch_work: float = 4e8
    most_branches: int = 512
    tight: float = 0.3
    fewer_branches: float = 32.0
    narrow_pairs: int = 1_000
    narrow_tries: int = 24
    narrow_again: int = 4
    most_few: int = 14
    few_first: int = 2_000_000
    few_each: int = 3_000_000
    few_most: int = 100_000_000
    attempts: int = 8


@dataclass(frozen=True)
class PortfolioSettings(Settings):
    """Tuning parameters of the portfolio.

    Attributes
    ----------
    small : int
        Up to this many (key group, node) pairs CP-SAT runs first, which solves most such instances.
    first_effort, first_share : float
        Deterministic seconds of this first run, and its share of the time: the search may have the answer at once.
    cpsat_effort : float
        Deterministic seconds that CP-SAT gets before HiGHS takes over.
    second_stage_pairs : int
        The second stage is solved for at most this many (key group, node) pairs.
    second_stage_effort : float
        Deterministic seconds for the second stage.
    stated : int
        Over k windows, and for a bound under rules, statements are built for at most this many (key group, node,
        window) triples.
    linear_share : float
        The share of the time for the linear relaxation if rules add rows or nodes drain.
    rounds : RoundSettings
    """

    small: int = 300
    first_effort: float = 2.0
    first_share: float = 0.25
    cpsat_effort: float = 20.0
    second_stage_pairs: int = 3_000
    second_stage_effort: float = 5.0
    stated: int = 20_000
    linear_share: float = 0.1
    rounds: RoundSettings = field(default_factory=RoundSettings.now)
