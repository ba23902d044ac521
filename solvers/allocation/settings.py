"""Tuning numbers of "milp": of its phases, and of their rounds."""

from __future__ import annotations

from dataclasses import dataclass, field

from keyshift.models.answer import Settings


@dataclass(frozen=True)
class RoundSettings(Settings):
    """Tuning numbers of the rounds.

    Attributes
    ----------
    cycle : tuple of str
        The phases of the rounds, over and over: "anneal", "plan" (and polish what was planned), "exchange" (only where moves
        are many) or "price". Prices are asked again as long as they help; where there is nothing to plan, annealing takes
        the turn.
    cycle_of_few : tuple of str
        The same where moves are many and rounds are short.
    cycle_of_small : tuple of str
        The same where the pairs are `few_pairs` at most and the bound is next to 0: plans and prices say nothing there.
    cycle_of_windows : tuple of str
        The same over more than one window, where plans, exchanges and prices know no way.
    starts : dict
        From what exchanges set out, in turns, and for how many turns each pauses at most: cooled down anew, the best heated up
        again, a plan realised.
    least_steps, most_steps, steps_for_each : int
        Steps of search before the rounds end: at least, at most, and for each (key group, node) pair.
    few_pairs, early_nodes, early_effort : int, int, float
        With no more pairs than this many, HiGHS gets so many nodes of its tree after the first cycle, and CP-SAT so many
        deterministic seconds: few key groups with heavy tails are a matter of arithmetic, and a solver proves in a second
        what no search can.
    within_reach, least_pairs : float, int
        Unless moves are many and the best distance is within this share of the mean of the bound: no solver closes such a gap;
        and with more pairs than this many rounds use up a time limit.
    counted_pairs, counted_share : int, tuple of float
        With more pairs than this many, counting departures and arrivals may take a share of the time left: the first where
        fewer key groups may move than there are nodes, else the second.
    first_share : float
        Covers by sets near the mean, and choices of a few moves, may each take this share of the time left before plans and
        prices had a turn.
    relaxed_share, roundings : float, int
        Over more than one window their joint relaxation may take this share of the time left; so many assignments are drawn
        from it, of which a fresh round takes the best.
    endless_pairs : int
        With more pairs than this many, rounds use up a time limit: no solver would use the time better.
    planned_at : tuple of float
        Where between the bound and the best distance plans aim, in turns.
    planned_steps : int
        Steps that realise a plan.
    resample_every : int
        Every so many plans, arrivals are drawn from the departures of the last one instead of from everybody.
    exchanges_tried, exchange_steps : int
        Exchanges that may be of no use in a row, and the steps of search that take as long.
    near : float
        Exchanges that end within so many times the best are tried again at the next turn.
    priced_at : tuple of float
        Where prices aim, in turns; at 1, they ask for a proof again.
    priced_steps : int
        Steps of search that take as long as one question to the prices.
    branch_work, most_branches : float, int
        The first question to the prices may take as many branches as amount to this much work; each further question a
        quarter more.
    tight : float
        Where moves are many and the counts leave more moves a node than this, prices pause after they were of no use.
    fewer_branches : float
        As many times fewer branches there.
    narrow_pairs, narrow_tries, narrow_again : int
        With no more pairs than the first, covers by sets near the mean are looked at; key groups of a few nodes are shared out
        until so many tries in a row are of no use, fewer after exchanges.
    most_few, few_first, few_again : int
        Where no more key groups than this may move, all choices are looked at: so many branches before the turns, so many more
        after the first cycle.
    attempts : int
        Annealings that try to realise a plan of the prices: now and then the right key groups meet, mostly they do not.
    """

    cycle: tuple[str, ...] = (
        *("anneal", "exchange", "plan") * 2, "price", *("anneal", "exchange", "plan") * 2,
    )  # fmt: skip
    cycle_of_few: tuple[str, ...] = ("exchange", "anneal", "exchange") * 4 + ("price",)
    cycle_of_small: tuple[str, ...] = ("exchange",)
    cycle_of_windows: tuple[str, ...] = ("anneal",)
    starts: dict[str, int] = field(default_factory=lambda: {"cooled": 4, "heated": 2, "planned": 8})
    least_steps: int = 6_000_000
    most_steps: int = 200_000_000
    steps_for_each: int = 15_000
    few_pairs: int = 3_000
    early_nodes: int = 500
    early_effort: float = 3.0
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
    branch_work: float = 4e8
    most_branches: int = 512
    tight: float = 0.3
    fewer_branches: float = 32.0
    narrow_pairs: int = 1_000
    narrow_tries: int = 24
    narrow_again: int = 4
    most_few: int = 14
    few_first: int = 2_000_000
    few_again: int = 100_000_000
    attempts: int = 8


@dataclass(frozen=True)
class PortfolioSettings(Settings):
    """Tuning numbers of the portfolio.

    Attributes
    ----------
    small : int
        About instances of at most this many (key group, node) pairs CP-SAT is asked first: most need nothing else.
    first_effort : float
        Deterministic seconds that it gets then.
    cpsat_effort : float
        Deterministic seconds that CP-SAT gets before HiGHS takes over.
    second_stage_pairs : int
        The second stage is solved for this many (key group, node) pairs at most.
    second_stage_effort : float
        Deterministic seconds for it.
    stated : int
        Over k windows, and for a bound under rules, statements are written for this many (key group, node, window) triples.
    linear_share : float
        The share of the time that the linear relaxation may take where rules have rows.
    rounds : RoundSettings
    """

    small: int = 300
    first_effort: float = 2.0
    cpsat_effort: float = 20.0
    second_stage_pairs: int = 3_000
    second_stage_effort: float = 5.0
    stated: int = 20_000
    linear_share: float = 0.1
    rounds: RoundSettings = field(default_factory=RoundSettings.now)
