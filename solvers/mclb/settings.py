"""What can be tuned about MCLB."""

from __future__ import annotations

from dataclasses import dataclass

from keyshift.models.answer import Settings


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

    by_search: float = 0.25
    runs: int = 15
    steps_for_each: int = 2_000
    annealed: int = 1500
    split_windows: int = 8
    by_near_sets: float = 0.5
    most_numbers: int = 50_000_000
    stated: float = 0.8
    small: int = 30
    hopeless: int = 60
    bounding: float = 0.5
    largest: int = 700
    margin: float = 0.5
    point: int = 200
