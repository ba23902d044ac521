"""The local search: what a step says that it changes is what summing anew says, for every move and every term."""

from __future__ import annotations

import numpy as np
import pytest

from keyshift.models.base import compiling
from keyshift.models.base.compiling import COMPILING, generator
from keyshift.models.objectives import Searched
from keyshift.models.rules.lowered import Lowered, Merged, MoveBudget, Rooms
from keyshift.models.workload import MoveSpace
from keyshift.solvers.search import annealing, moves, terms
from keyshift.solvers.search.annealing import Cooling, LocalSearch, shares_of
from keyshift.solvers.search.program import Aim, Placing
from keyshift.solvers.search.second_moments import SecondMoments


def placed(rng: np.random.Generator, merged: bool = False, serialised: bool = False) -> Placing:
    """A program with every part: windows, bands, traffic in rows, rules, budgets, goals; loads from 1e-9 to 1e12."""
    p, n, k = 14, 4, int(rng.integers(1, 4))
    current, every = rng.integers(0, n, p), np.arange(p)
    load = rng.uniform(0.5, 1.5, (k, p)) * 10.0 ** rng.choice([-9, 0, 12], p)
    load /= load.sum(axis=1)[:, None] / n
    first, second = np.triu_indices(p, 1)
    some = rng.random(first.size) < 0.3
    traffic = rng.random((k if rng.random() < 0.5 else 1, int(some.sum())))
    closed = rng.random((p, n)) < 0.1
    closed[:, 0] = False
    rooms = Rooms(every[:8], rng.uniform(0, 2, 8), np.array([0, 0, 1, -1]), np.array([1.0, 0.0]), np.array([3.0, 2.0]))
    budget = MoveBudget(every, rng.uniform(0.1, 1, p), rng.random(n) < 0.7, 2.0)
    groups = [Merged(np.array([0, 1, 2])), Merged(np.array([5, 6]))] if merged else []
    low = Lowered.of([*groups, rooms, budget], current, n)
    it = Searched(
        load, MoveSpace.of(current, np.ones(n, dtype=bool)).without(closed), {}, np.ones(k),
        pairs=(first[some], second[some], traffic / traffic.sum()), per_tuple=0.3 if serialised else 0.0,
        rooms=((rng.uniform(0, 1, p), np.full(n, 3.0)),),
        bands=np.tile(np.array([0.1, 0.9, 0.0, 0.2])[:, None, None], (1, k, n)),
    )  # fmt: skip
    return Placing(
        it, low, rng.choice([1.0, 2.0], n), draining=np.arange(n) == n - 1,
        goals=Lowered(current, budgets=(MoveBudget(every, rng.uniform(0.1, 1, p), np.ones(n, dtype=bool), 0.0),)),
        max_moves=int(rng.integers(3, p)), guided=True,
    )  # fmt: skip


def aims(rng: np.random.Generator, placing: Placing) -> list[Aim]:
    """Deviations, squares, traffic and rows, over windows in every way."""
    k, rows = placing.program.loads.load.shape[1], len(placing.program.graph.weight)
    most = np.full(k, 0.8)
    apart = placing.program.graph.weight.sum(axis=1) / 2
    return [
        Aim(int(rng.integers(1, 4)), 0.7, most=most, apart=apart),
        Aim(2, 0.7, 0.1, most=most, worst=False, level=0.2, apart=apart),
        Aim(1, squares=True, apart=apart),
        Aim(cut=1.0, most=most[:rows] if rows > 1 else most, worst=False, level=0.1, apart=apart, blend=0.2),
        Aim(goal=1.0, apart=apart, most_cut=0.5),
    ]


def energy(aim, state):
    """What the search lowers, from a state that was summed anew."""
    powers = 0.0
    if aim.doublings:
        over = np.maximum(state.powers[1] - aim.level / aim.unit, 0.0)
        powers = state.powers[0].sum() if aim.worst else 2.0**aim.doublings * float(aim.most @ over)
    return powers + aim.cut * terms.cut_of(state.together, aim, aim.blend) + aim.goal * state.missed[0]


@pytest.mark.parametrize("move", moves.MOVES)
@pytest.mark.parametrize("seed", range(6))
def test_a_step_changes_what_summing_anew_changes(move, seed):
    rng = np.random.default_rng([seed, moves.MOVES.index(move)])
    placing = placed(rng, merged=seed % 3 == 0, serialised=seed % 2 == 0)
    program, state, trial, fresh = placing.program, placing.state(), placing.trial(), placing.state()
    shares, draw, taken = shares_of(**{move: 1.0, "anywhere": 0.2}), generator(seed, 1), 0
    for aim in aims(rng, placing):
        terms.refresh(aim, program, state)
        for _ in range(60):
            before = energy(aim, state), state.bands[0], state.broken[0], state.missed[0]
            count = moves.propose(draw, shares, trial.step, program, state)
            if count == 0:
                continue
            nodes = terms.weigh(count, trial, program, state)
            rise, bands = terms.rise_of_nodes(nodes, aim, trial, program, state)
            rise += aim.cut * (
                terms.cut_of(trial.together, aim, aim.blend) - terms.cut_of(state.together, aim, aim.blend)
            )
            broken, missed = terms.shift_rows(count, False, state.held, program.rows, trial.step, state.placed.place)
            rise += aim.goal * missed
            fresh.placed.place[:] = state.placed.place
            fresh.placed.place[trial.step.who[:count]] = trial.step.where[:count]
            terms.refresh(aim, program, fresh)
            after = energy(aim, fresh), fresh.bands[0], fresh.broken[0], fresh.missed[0]
            for change, new, old in zip((rise, bands, broken, missed), after, before, strict=True):
                assert change == pytest.approx(new - old, abs=1e-9 * max(1.0, abs(new), abs(old)))
            if rng.random() < 0.5:
                terms.shift_rows(count, True, state.held, program.rows, trial.step, state.placed.place)
                continue
            taken += 1
            terms.accept(count, nodes, aim, trial, program, state)
            agree(program, state, fresh)
            terms.refresh(aim, program, state)
    assert taken > 0


def agree(program, state, fresh):
    """Every sum is that of the places; those that have moved are listed, by node, too."""
    for name in ("load", "raised", "on_node", "together", "held", "over"):
        np.testing.assert_allclose(getattr(state, name), getattr(fresh, name), rtol=1e-9, atol=1e-9, err_msg=name)
    moved = np.flatnonzero(state.placed.place != program.current)
    assert state.placed.moved[0] == moved.size <= program.guide.max_moves
    np.testing.assert_array_equal(np.sort(state.placed.movers[: moved.size]), moved)
    np.testing.assert_array_equal(state.placed.movers[state.placed.slot[moved]], moved)
    for i, first in enumerate(state.placed.arrivals):
        there, k = [], first
        while k >= 0:
            there.append(k)
            k = state.placed.links[0, k]
        assert sorted(there) == moved[state.placed.place[moved] == i].tolist()


@pytest.mark.parametrize("seed", range(8))
def test_the_best_is_within_the_limits_and_as_good_as_said(seed):
    rng = np.random.default_rng(seed)
    placing = placed(rng, merged=seed % 3 == 0, serialised=seed % 2 == 0)
    fresh = placing.state()
    for aim in aims(rng, placing):
        search = LocalSearch(placing, shares_of(**dict.fromkeys(moves.MOVES, 1.0)), seed, 2)
        search.begin(placing.items.lowered.current)
        _, value = search.cool(aim, Cooling(600, 1.0, 0.01, 0.1, 100.0, 1e-9))
        fresh.placed.place[:] = search.best
        terms.refresh(aim, placing.program, fresh)
        over = annealing.excess(aim, fresh.together, fresh.bands[0], fresh.broken[0])
        assert over == pytest.approx(search.fewest, abs=1e-8)
        if value < np.inf:
            assert over <= 2e-9
            assert terms.measure(aim, placing.trial(), placing.program, fresh) == pytest.approx(value)


def squares_of(rng: np.random.Generator, placing: Placing) -> SecondMoments:
    """Second moments of as many loads, and costs of moves that no row limits."""
    load = rng.random((placing.program.current.size, 6))
    return SecondMoments.of(
        placing, load @ load.T, rng.random(placing.program.enter.shape[::-1][:1] + load.shape[:1]), False
    )


@pytest.mark.parametrize("seed", range(5))
def test_annealing_is_the_same_compiled_or_not(seed):
    made, steps = [], 300 if seed < 4 else 20  # squares are summed in another order: the last digit differs
    for compiled in (False, True):
        rng = np.random.default_rng(seed)
        placing = placed(rng, serialised=seed % 2 == 0)
        aim = aims(rng, placing)[seed] if seed < 4 else Aim()
        squares = squares_of(rng, placing) if seed == 4 else None
        shares = shares_of(**dict.fromkeys(moves.MOVES, 1.0)) if squares is None else None
        search = LocalSearch(placing, shares, seed, 2, squares)
        search.begin(placing.program.current)
        if compiled:
            with COMPILING.at_once():
                made.append(search.cool(aim, Cooling(steps, 1.0, 0.01, 0.1, 100.0))[0])
        else:
            made.append(annealing_plain(search, aim, steps))
    np.testing.assert_array_equal(*made)


def annealing_plain(search, aim, steps):
    """A cooling in plain Python."""
    compiling._LEFT[:] = bytes(10_000_000)
    cooling = Cooling(steps, 1.0, 0.01, 0.1, 100.0)
    with np.errstate(over="ignore"):
        annealing.anneal.plain(
            search.rng, search.shares, cooling, aim, search.best, search.trial, search.placing.program, search.state,
            search.squares,
        )  # fmt: skip
    return search.placing.items.expanded(search.best)
