"""What can be tuned about MCLB."""

from __future__ import annotations

from dataclasses import dataclass

from keyshift.models.answer import Settings
from keyshift.solvers.tuning import numbers

_NUMBERS = numbers("mclb")


@dataclass(frozen=True)
class MCLBSettings(Settings):
    """Tuning parameters of the branch and bound, of its search and of its bounds.

    Attributes
    ----------
    by_search : float
        The share of the time for the search at first; three times as much with more than `hopeless` key groups.
    runs, steps_for_each : int
        Runs of the annealing at `effort` 1, after each so many of which their length doubles; steps of one for each key group.
    annealed : int
        Up to this many key groups the annealing uses the second-moment matrix; above, sweeps use the loads themselves.
    split_windows : int
        In more windows even the best split of two nodes is far from the mean, and annealing finds better.
    by_near_sets, most_numbers : float, int
        The share of the time left that `NearMeanSets` has, where it suits; half of it before CP-SAT. The most loads of
        subsets that it may list.
    stated : float
        The share of the time left for CP-SAT or SCIP, where one of them suits.
    small, hopeless : int
        With more than `small` key groups a budget of one window is SCIP's; with more than `hopeless` the search has its time.
    bounding, largest : float, int
        The share of the time left for the semidefinite bound; the most rows for which its eigenvalues are computed.
    margin : float
        Only what improves by more than this share of the problem's tolerance is looked for.
    point : int
        Nodes of the tree over sets for one point of a front: small instances end in a proof, others keep the root bound.
    """

    by_search: float = _NUMBERS["by_search"]
    runs: int = _NUMBERS["runs"]
    steps_for_each: int = _NUMBERS["steps_for_each"]
    annealed: int = _NUMBERS["annealed"]
    split_windows: int = _NUMBERS["split_windows"]
    by_near_sets: float = _NUMBERS["by_near_sets"]
    most_numbers: int = _NUMBERS["most_numbers"]
    stated: float = _NUMBERS["stated"]
    small: int = _NUMBERS["small"]
    hopeless: int = _NUMBERS["hopeless"]
    bounding: float = _NUMBERS["bounding"]
    largest: int = _NUMBERS["largest"]
    margin: float = _NUMBERS["margin"]
    point: int = _NUMBERS["point"]
