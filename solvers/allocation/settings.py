"""The numbers by which "milp" can be tuned."""

from __future__ import annotations

from dataclasses import dataclass

from keyshift.models.answer import Settings


@dataclass(frozen=True)
class AllocationSettings(Settings):
    """Tuning parameters of key-group allocation.

    Attributes
    ----------
    small, first_effort : int, float
        Up to so many (key group, node) pairs CP-SAT runs first, for so many deterministic seconds, which solves most such
        instances.
    stated : int
        Over k windows, and for a bound under rules, statements are built for at most this many (key group, node,
        window) triples.
    steps : int
        Steps of a round of annealing, and of all on small instances.
    steps_for_each, endless : int
        Steps of search for each pair before a solver takes over; with more than `endless` pairs none does while there is time.
    exchanges : int
        Exchanges between three nodes in a row that may fail.
    priced : float
        What prices ask in vain takes no more than this share of the search's time.
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
    asked, solver_effort, last_effort : int, float, float
        With at most `asked` pairs, CP-SAT gets `solver_effort` deterministic seconds after some turns: if few key groups have
        heavy-tailed loads, a solver often proves the optimum in a second. Last it gets `last_effort`, before HiGHS takes over.
    second_stage, second_effort : int, float
        The second stage is solved for at most so many pairs, in so many deterministic seconds.
    """

    small: int = 300
    first_effort: float = 2.0
    stated: int = 20_000
    steps: int = 300_000
    steps_for_each: int = 15_000
    endless: int = 5_000
    exchanges: int = 100
    priced: float = 1.0
    knots: int = 24
    most_out: int = 6
    most_in: int = 5
    most_work: float = 3e8
    most_columns: int = 3_000
    evened: int = 1_000
    tries: int = 24
    asked: int = 3_000
    solver_effort: float = 3.0
    last_effort: float = 20.0
    second_stage: int = 3_000
    second_effort: float = 5.0
