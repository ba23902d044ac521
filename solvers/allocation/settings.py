"""The numbers by which "milp" can be tuned."""

from __future__ import annotations

from dataclasses import dataclass

from keyshift.models.answer import Settings
from keyshift.solvers.tuning import numbers

_NUMBERS = numbers("allocation")


@dataclass(frozen=True)
class AllocationSettings(Settings):
    """Tuning parameters of key-group allocation.

    Attributes
    ----------
    small, first_effort : int, float
        Up to so many (key group, node, window) triples CP-SAT begins after one round of search; a solver's first turn takes so
        many units of effort, and each next one twice as many.
    stated : int
        Over k windows, and for a bound under rules, statements are built for at most this many (key group, node,
        window) triples.
    steps : int
        Steps of a round of annealing, and of all on small instances.
    steps_for_each : int
        Steps of search for each pair before solvers begin.
    exchanges : int
        Exchanges between three nodes in a row that may fail.
    priced : float
        The share of the turns of prices, beside one for the search; none without any.
    knots : int
        Number of points of a price curve. With sixty the bounds were the same after two to three times the rounds.
    most_out, most_in : int
        The most departures and arrivals of a column that are priced one by one; beyond, a weaker bound is used.
    most_work : float
        The most elementary steps for one curve; on larger instances only the bound by counting is used.
    most_columns : int
        The most columns kept for other distances.
    evened, tries : int
        With at most `evened` pairs, the key groups of a few nodes are shared out anew until `tries` tries in a row fail.
    asked : int
        With at most `asked` pairs, CP-SAT begins early: if few key groups have heavy-tailed loads, it often proves the optimum
        in a second.
    second_stage, second_effort : int, float
        The second stage is solved for at most so many pairs, in so many deterministic seconds.
    """

    small: int = _NUMBERS["small"]
    first_effort: float = _NUMBERS["first_effort"]
    stated: int = _NUMBERS["stated"]
    steps: int = _NUMBERS["steps"]
    steps_for_each: int = _NUMBERS["steps_for_each"]
    exchanges: int = _NUMBERS["exchanges"]
    priced: float = _NUMBERS["priced"]
    knots: int = _NUMBERS["knots"]
    most_out: int = _NUMBERS["most_out"]
    most_in: int = _NUMBERS["most_in"]
    most_work: float = _NUMBERS["most_work"]
    most_columns: int = _NUMBERS["most_columns"]
    evened: int = _NUMBERS["evened"]
    tries: int = _NUMBERS["tries"]
    asked: int = _NUMBERS["asked"]
    second_stage: int = _NUMBERS["second_stage"]
    second_effort: float = _NUMBERS["second_effort"]
