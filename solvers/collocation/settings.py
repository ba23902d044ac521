"""What can be tuned about collocated allocation."""

from __future__ import annotations

from dataclasses import dataclass

from keyshift.models.answer import Settings
from keyshift.models.guards import Count


@dataclass(frozen=True)
class CollocationSettings(Settings):
    """Tuning parameters of "milp" for collocated allocation.

    Attributes
    ----------
    turns : int
        Turns of search and bound before the exact stage.
    searching, bounding, proving : float
        Shares of the time left for a turn's search, for its bound, and finally for HiGHS; the rest is for the search.
    few : int
        Few key groups may move if less than this part of all: 8 for an eighth. The linear relaxation is near the optimum there,
        and HiGHS near a proof.
    semidefinite : float
        Share of the time left for the semidefinite bound, of what the Lagrangian one leaves unproven.
    by_sets : float
        Share of the time left for set partitioning.
    partitioning : float
        Share of the time for graph partitioning at the beginning if many key groups may move; nine tenths of it for more than
        `provable` key groups.
    provable : int
        Up to so many key groups most of the time is for proofs.
    further : int
        Steps of the search from the second turn on.
    most_columns : int
        The most variables for HiGHS, since neither building a model nor its first relaxation can be interrupted. Further pairs,
        those with least traffic first, are bounded instead.
    confirmed : int
        Up to this many (pair, node) combinations, HiGHS's result on the remaining problem is checked in whole numbers.
    """

    turns: Count = 6
    searching: float = 0.6
    bounding: float = 0.5
    proving: float = 0.7
    few: Count = 8
    semidefinite: float = 0.25
    by_sets: float = 0.85
    partitioning: float = 0.2
    provable: int = 300
    further: int = 3_000_000
    most_columns: int = 60_000
    confirmed: int = 3_000
