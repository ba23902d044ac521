"""The numbers that tune searches, bounds and solvers: one file for all formulations, and one of the user's over it."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keyshift.models.answer import Settings
from keyshift.models.base.disk import read_text
from keyshift.models.base.guards import Count
from keyshift.models.errors import InputError

OVER = "KEYSHIFT_SETTINGS"
"""The variable that names a file of the user's own."""


def _numbers() -> dict[str, dict[str, Any]]:
    """The numbers of every formulation, by name."""
    known: dict[str, dict[str, Any]] = tomllib.loads(read_text(Path(__file__).with_name("settings.toml"), 100_000))
    name = os.environ.get(OVER)
    if name:
        try:
            over = tomllib.loads(read_text(Path(name), 100_000))
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{OVER}: {name} is not TOML: {error}") from None
        for table, given in over.items():
            if table not in known or not isinstance(given, dict):
                raise InputError(f"{OVER}: {name} has a table {table!r:.60}; there are {', '.join(known)}")
            for key, value in given.items():
                _take(known[table], f"{OVER}: {name}, {table}", key, value)
    return known


def _take(known: dict[str, Any], where: str, key: str, value: Any) -> None:
    if key not in known:
        raise InputError(f"{where}.{key}: there is no such number; there are {', '.join(known)}")
    whole = isinstance(known[key], int)
    fits = type(value) is int if whole else type(value) in (int, float)
    if not fits or not 0 <= value < float("inf"):
        raise InputError(f"{where}.{key} = {value!r:.60} must be a {'whole ' if whole else ''}number, at least 0")
    known[key] = value if whole else float(value)


# What the numbers of each table mean; `solve(settings=[...])` takes others for one call -------------------------------

N = _numbers()


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
        The share of prices, beside 2 of the search and 1 of a solver; 0 leaves them out.
    knots : int
        Number of points of a price curve. With sixty the bounds were the same after two to three times the rounds.
    most_out, most_in : int
        The most departures and arrivals of a column that are priced one by one; beyond, a weaker bound is used.
    most_work : float
        The most elementary steps for one curve; on larger instances only the bound by counting is used.
    most_columns : int
        The most columns kept for other distances.
    listed : int
        The most columns of which a tree looks for an assignment.
    evened, tries : int
        With at most `evened` pairs, the key groups of a few nodes are shared out anew until `tries` tries in a row fail.
    asked : int
        With at most `asked` pairs, CP-SAT begins early: if few key groups have heavy-tailed loads, it often proves the optimum
        in a second.
    second_stage, second_effort : int, float
        The second stage is solved for at most so many pairs, in so many deterministic seconds.
    """

    small: int = N["allocation"]["small"]
    first_effort: float = N["allocation"]["first_effort"]
    stated: int = N["allocation"]["stated"]
    steps: int = N["allocation"]["steps"]
    steps_for_each: int = N["allocation"]["steps_for_each"]
    exchanges: int = N["allocation"]["exchanges"]
    priced: float = N["allocation"]["priced"]
    knots: int = N["allocation"]["knots"]
    most_out: int = N["allocation"]["most_out"]
    most_in: int = N["allocation"]["most_in"]
    most_work: float = N["allocation"]["most_work"]
    most_columns: int = N["allocation"]["most_columns"]
    listed: int = N["allocation"]["listed"]
    evened: int = N["allocation"]["evened"]
    tries: int = N["allocation"]["tries"]
    asked: int = N["allocation"]["asked"]
    second_stage: int = N["allocation"]["second_stage"]
    second_effort: float = N["allocation"]["second_effort"]


@dataclass(frozen=True)
class CollocationSettings(Settings):
    """Tuning parameters of "milp" for collocated allocation.

    Attributes
    ----------
    first : float
        Units of effort of the first turn of whatever begins again with twice as many: solvers, sets, the semidefinite bound.
    waits, late, small : float, float, int
        Sets and solvers wait until search and bound have done `waits` units of effort a key group and node, at most `late`;
        CP-SAT always so many if the statement has more than `small` variables.
    few : int
        Few key groups may move if less than this part of all: 8 for an eighth. The linear relaxation is near the optimum there,
        and HiGHS near a proof.
    partitioning : float
        The share of graph partitioning, beside one of the search, for more than `provable` key groups.
    provable : int
        Up to so many key groups most of the time is for proofs.
    most_columns : int
        The most variables for a solver, since neither building a model nor its first relaxation can be interrupted. Further
        pairs, those with least traffic first, are bounded instead.
    confirmed : int
        Up to this many (pair, node) combinations, HiGHS's result on the remaining problem is checked in whole numbers.
    """

    first: float = N["collocation"]["first"]
    waits: float = N["collocation"]["waits"]
    late: float = N["collocation"]["late"]
    small: int = N["collocation"]["small"]
    few: Count = N["collocation"]["few"]
    partitioning: float = N["collocation"]["partitioning"]
    provable: int = N["collocation"]["provable"]
    most_columns: int = N["collocation"]["most_columns"]
    confirmed: int = N["collocation"]["confirmed"]


@dataclass(frozen=True)
class MCLBSettings(Settings):
    """Tuning parameters of the branch and bound, of its search and of its bounds.

    Attributes
    ----------
    first : float
        Units of effort of the first turn of solvers and sets.
    runs, steps_for_each : int
        Runs of the annealing at `effort` 1, after each so many of which their length doubles; steps of one for each key group.
    annealed : int
        Up to this many key groups the annealing uses the second-moment matrix; above, sweeps use the loads themselves.
    split_windows : int
        In more windows even the best split of two nodes is far from the mean, and annealing finds better.
    most_numbers : int
        The most loads of subsets that `NearMeanSets` may list.
    small, hopeless : int
        With more than `small` key groups a budget of one window is SCIP's; with more than `hopeless` the search has its time.
    largest : int
        The most rows for which the eigenvalues of the semidefinite bound are computed.
    margin : float
        Only what improves by more than this share of the problem's tolerance is looked for.
    point : int
        Nodes of the tree over sets for one point of a front: small instances end in a proof, others keep the root bound.
    """

    first: float = N["mclb"]["first"]
    runs: int = N["mclb"]["runs"]
    steps_for_each: int = N["mclb"]["steps_for_each"]
    annealed: int = N["mclb"]["annealed"]
    split_windows: int = N["mclb"]["split_windows"]
    most_numbers: int = N["mclb"]["most_numbers"]
    small: int = N["mclb"]["small"]
    hopeless: int = N["mclb"]["hopeless"]
    largest: int = N["mclb"]["largest"]
    margin: float = N["mclb"]["margin"]
    point: int = N["mclb"]["point"]


@dataclass(frozen=True)
class RoutingSettings(Settings):
    """Tuning parameters of the exact methods and bounds of mixed routing.

    Attributes
    ----------
    rounds : int
        The most rounds of cutting planes of the Lagrangian dual.
    first : float
        Units of effort of the first turn of the search and of each solver.
    searched : int
        Up to so many keys are searched without rules, too.
    """

    rounds: int = N["routing"]["rounds"]
    first: float = N["routing"]["first"]
    searched: int = N["routing"]["searched"]


@dataclass(frozen=True)
class StageSettings(Settings):
    """Tuning parameters of problems with priorities.

    Attributes
    ----------
    rounds, steps : int
        Rounds of the local search; steps of each, between two checks of the clock, for each key group, 20,000 at most.
    most_columns : int
        The most variables of a statement that is solved after a search, if there is time for so many.
    """

    rounds: int = N["priorities"]["rounds"]
    steps: int = N["priorities"]["steps"]
    most_columns: int = N["priorities"]["most_columns"]


@dataclass(frozen=True)
class RuledSearchSettings(Settings):
    """Tuning parameters of the search for least movement, and of the searches under rules.

    Attributes
    ----------
    rounds : int
        Coolings in a row without gain before the search ends, at `effort` 1.
    first, most : int
        Steps of the first cooling for each item, which then double; the most steps.
    each_second : int
        The most numbers that one cooling reads for each second left, since the clock is not checked during it.
    """

    rounds: int = N["rules"]["rounds"]
    first: int = N["rules"]["first"]
    most: int = N["rules"]["most"]
    each_second: int = N["rules"]["each_second"]
