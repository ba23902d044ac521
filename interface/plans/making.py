"""plan: from an answer to what an operator carries out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from keyshift.files.problem import parameters_of
from keyshift.models import Budget, InputError, Problem, Solution, Workload
from keyshift.models.base.figures import apart, figure, percent
from keyshift.models.base.guards import positive, real, whole
from keyshift.models.base.labels import by_label, ordered
from keyshift.models.plans.transfers import RuledWay, TransferScheduling, Way, durations
from keyshift.models.rules.ruled import Ruled
from keyshift.models.workload import FloatArray, IntArray
from keyshift.plans.made_for import MadeFor
from keyshift.plans.plan import Plan
from keyshift.plans.targets import Phase, Target, read_target, staying, thin
from keyshift.solvers.plans import Order, Phases, Schedule, cut, fast_schedule, order_of, overload_of, ruled_phases
from keyshift.solving import interruptible


def plan(
    problem: Problem,
    solution: Solution | ArrayLike,
    bandwidth: float | ArrayLike | None = None,
    parallel: int = 1,
    *,
    phase_moves: int | None = 100,
    max_on_the_way: Mapping[str, float | ArrayLike | Mapping[str | int, float]] | None = None,
    step: int = 0,
    nodes_after: int | None = None,
    min_gain: float | None = None,
    time_limit: float | None = 10.0,
    seed: int = 0,
) -> Plan:
    """Turn an answer into moves with an order and a schedule.

    Parameters
    ----------
    problem : Problem
        Any problem that moves key groups between nodes.
    solution : Solution or array_like
        The answer to carry out, or an assignment that passes `check`.
    bandwidth : float or array_like of shape (n,), optional
        Units of state a second that one transfer moves; for each node, the slower end of a transfer counts. Without it a
        unit of state takes one second.
    parallel : int, default 1
        Transfers that a node takes part in at once, sending or receiving.
    phase_moves : int or None, default 100
        The most moves in a phase. Plans with more moves are cut into phases, after each of which the load distance is
        no worse than before the plan; if no such cut is found, a phase has more moves. None: one phase.
    max_on_the_way : mapping of str to float, array_like of shape (n,) or mapping of node names to float, optional
        The most that a node may hold of "load", or of a resource of the workload, at any time: a key group counts at
        both ends while it moves. If no order keeps the limits, all are raised by the smallest share with which an order
        keeps them, and the plan reports it (`Plan.overload`).
    step : int, default 0
        For a migration sequence: which step to carry out.
    nodes_after : int, optional
        For a migration policy: the next node count.
    min_gain : float, optional
        Leave out moves that gain less than this for each unit of state, the least useful first; a note says what that
        costs.
    time_limit : float or None, default 10.0
        Seconds for the schedules; None: no limit. There is no gap to choose: a phase has the best list schedule that was
        found, and `Phase` says how long any schedule must take.
    seed : int, default 0

    Returns
    -------
    Plan

    Raises
    ------
    InputError
        For a solution without assignment, for one that breaks a rule, for limits that name no resource.
    """
    limit = real("time_limit", time_limit)
    most = whole("phase_moves", phase_moves, least=1)
    dropped = None if min_gain is None else thin(problem, solution, real("min_gain", min_gain, optional=False))
    reached = read_target(problem, solution if dropped is None else dropped.solution, step, nodes_after)
    work = _Work.of(reached, bandwidth, whole("parallel", parallel, least=1, optional=False), max_on_the_way or {})
    order = order_of(work.problem, work.way, work.load)
    ruled = _ruled(problem, reached, work, order, most)
    if ruled is None:
        phases = cut(order.order, work.problem, work.way, work.load, most)
    else:
        phases = ruled.moves
        sequence = np.concatenate(phases)
        order = Order(sequence, overload_of(work.problem, sequence), order.bound)
    budget = Budget(limit)
    with interruptible(budget.interrupt):
        made = _schedule(work, order, phases, budget, whole("seed", seed, optional=False))
    found = _assemble(problem, reached, work, order, made)
    if ruled is not None and ruled.broken > 0:
        said = (*found.notes, _broken_on_the_way(ruled))
        found = replace(found, broken_rules=ruled.broken, broken_rules_bound=ruled.bound, notes=said)
    dropping = () if dropped is None else (str(dropped),)
    further = filter(None, [problem.note_on_plans])
    return replace(found, notes=(*found.notes, *staying(problem, reached.target), *dropping, *further))


@dataclass(frozen=True, eq=False)
class _Work:
    """The moves of a target as a scheduling problem."""

    way: Way
    moving: IntArray
    load: FloatArray
    problem: TransferScheduling
    resources: tuple[str, ...]
    bandwidth: FloatArray | None
    notes: tuple[str, ...]

    @classmethod
    def of(cls, reached: Target, bandwidth: Any, parallel: int, limits: Mapping[str, Any]) -> _Work:
        w = reached.workload
        way = Way.of(w, w.current, reached.target, reached.may_leave)
        moving = np.flatnonzero(w.current != reached.target)
        source, target = w.current[moving], reached.target[moving]
        bandwidth = ordered("bandwidth", bandwidth, w.node_names, w.nodes, "nodes")
        speed = None if bandwidth is None else _above_0("bandwidth", bandwidth, way.nodes)
        names = tuple(limits)
        use = [_use(w, name) for name in names]
        held = _table([np.bincount(w.current, weights=u, minlength=way.nodes) for u in use], way.nodes)
        after = _table([np.bincount(reached.target, weights=u, minlength=way.nodes) for u in use], way.nodes)
        asked = _table([_limit(name, limits[name], w, way.nodes) for name in names], way.nodes)
        # A node above its limit before or after the plan, whatever the order, must at least go no higher.
        limit = np.maximum(asked, np.maximum(held, after))
        problem = TransferScheduling(
            source, target, durations(w.state[moving], source, target, speed), way.nodes, parallel,
            held=held, usage=_table([u[moving] for u in use], moving.size), limit=limit,
        )  # fmt: skip
        notes = _already_over(reached.workload, names, asked, limit)
        return cls(way, moving, w.last_load[moving], problem, names, speed, notes)


def _already_over(workload: Workload, names: tuple[str, ...], asked: FloatArray, limit: FloatArray) -> tuple[str, ...]:
    found = []
    for r, i in np.argwhere(limit > asked * (1 + 1e-9)).tolist():
        held, most = apart(limit[r, i], asked[r, i], shown=figure)
        found.append(
            f"node {workload.node(i)} has {held} of {names[r]} before or after the plan, above its limit {most}: "
            "it goes no higher on the way"
        )
    return tuple(found)


def _table(rows: list[FloatArray], width: int) -> FloatArray:
    return np.array(rows, dtype=float).reshape(len(rows), width)


def _above_0(name: str, given: Any, nodes: int) -> FloatArray:
    full = np.full(nodes, float(given)) if np.ndim(given) == 0 else given
    return positive(name, full, length=nodes, of="nodes")


def _use(workload: Workload, name: str) -> FloatArray:
    known = {**workload.resources, "load": workload.last_load}
    if name not in known:
        raise InputError(f"max_on_the_way names {name!r}; the workload has {', '.join(sorted(known))}")
    return known[name]


def _limit(name: str, given: Any, workload: Workload, nodes: int) -> FloatArray:
    said = f"max_on_the_way[{name!r}]"
    given = by_label(said, given)
    if isinstance(given, Mapping):  # while it moves, a key group counts twice
        given = workload.names_of_nodes.grown(nodes).values(said, given, 2 * float(_use(workload, name).sum()))
    return _above_0(said, given, nodes)


def _ruled(problem: Problem, reached: Target, work: _Work, order: Order, most: int | None) -> Phases | None:
    """Phases that keep the problem's rules; None where no two moves could break one together."""
    if not isinstance(problem, Ruled) or not problem.rules:
        return None
    way = RuledWay.of(problem.lowered, reached.workload.current, reached.target, work.moving)
    if not way.held.size and way.units == work.moving.size:
        return None
    found, loads, phases = ruled_phases(way, order.order), work.way.before.copy(), list[IntArray]()
    for moves in found.moves:
        if most is None or moves.size <= most:
            phases.append(moves)
        elif way.units == work.moving.size:
            phases += cut(moves, work.problem, replace(work.way, before=loads.copy()), work.load, most)
        else:  # what moves as one stays in one phase
            starts = np.flatnonzero(np.diff(way.unit[moves], prepend=-1))
            ends = [starts[np.searchsorted(starts, stop, side="right") - 1] for stop in range(most, moves.size, most)]
            phases += [part for part in np.split(moves, sorted({end for end in ends if end})) if part.size]
        np.subtract.at(loads, work.problem.source[moves], work.load[moves])
        np.add.at(loads, work.problem.target[moves], work.load[moves])
    return replace(found, moves=phases)


def _broken_on_the_way(ruled: Phases) -> str:
    least = "no order does better"
    if ruled.broken > ruled.bound * (1 + 1e-9):
        less = f"no order breaks less than {figure(ruled.bound)}"
        least = less if ruled.bound else "whether another order does better is open"
    return f"on the way rules are broken by {figure(ruled.broken)} at the worst: {least}"


def _schedule(
    work: _Work, order: Order, phases: list[IntArray], budget: Budget, seed: int
) -> list[tuple[IntArray, Schedule]]:
    """The moves of every phase and their schedule, each phase from its own start."""
    raised = replace(work.problem, limit=work.problem.limit * (1 + order.overload))
    held, made = work.problem.held, []
    for chosen in phases:
        part = raised.part(chosen, held)
        one_by_one = np.arange(chosen.size) if part.limited else None
        made.append((chosen, fast_schedule(part, budget, seed, one_by_one)))
        held = part.after()
    return made


def _assemble(
    problem: Problem, reached: Target, work: _Work, order: Order, made: list[tuple[IntArray, Schedule]]
) -> Plan:
    count = work.moving.size
    starts, phase_of = np.empty(count), np.empty(count, dtype=np.int64)
    begin, spans = 0.0, []
    for number, (chosen, schedule) in enumerate(made):
        starts[chosen] = begin + schedule.starts
        phase_of[chosen] = number
        spans.append((begin, begin + schedule.seconds, schedule.bound))
        begin += schedule.seconds
    rows = np.lexsort((work.moving, starts, phase_of))
    w, p, way = reached.workload, work.problem, work.way
    source, target = p.source[rows], p.target[rows]
    loads, phases = way.before.copy(), []
    for number, (start, end, bound) in enumerate(spans):
        mine = np.flatnonzero(phase_of[rows] == number)
        np.subtract.at(loads, source[mine], work.load[rows][mine])
        np.add.at(loads, target[mine], work.load[rows][mine])
        phases.append(Phase(number, tuple(mine.tolist()), start, end, bound, float(way.distance(loads))))
    moving = work.moving[rows]
    return Plan(
        problem=problem.name, parameters=parameters_of(problem), made_for=MadeFor.of(w),
        method=reached.method, status=reached.status, objective=reached.objective, bound=reached.bound,
        measure=reached.measure, assignment=reached.target.copy(), key_group=moving, source=source, target=target,
        load=work.load[rows], state=w.state[moving],
        gain=reached.gains(moving),
        start=starts[rows], end=starts[rows] + p.seconds[rows], phase=phase_of[rows], phases=tuple(phases),
        capacity=way.capacity, leaving=way.leaving, bandwidth=work.bandwidth, parallel=p.parallel,
        limits=dict(zip(work.resources, p.limit, strict=True)),
        usage=dict(zip(work.resources, p.usage[:, rows], strict=True)),
        held=dict(zip(work.resources, p.held, strict=True)),
        overload=order.overload, overload_bound=order.bound, notes=_notes(work, order, phases, way),
    )  # fmt: skip


def _notes(work: _Work, order: Order, phases: list[Phase], way: Way) -> tuple[str, ...]:
    said = list(work.notes)
    if order.overload > 0:
        proven = order.overload <= order.bound * (1 + 1e-9)
        least = "no order does better" if proven else f"no order stays below {percent(order.bound)}"
        said.append(f"on the way some node exceeds its limit by {percent(order.overload)}: {least}")
    before, after = float(way.distance(way.before)), float(way.distance(way.after))
    if after > before * (1 + 1e-9) and len(phases) > 0:
        low, high = apart(before, after, shown=figure)
        said.append(f"the plan itself raises the load distance, from {low} to {high}: it serves another purpose")
    elif worse := [p.number for p in phases if p.load_distance > before * (1 + 1e-9)]:
        said.append(f"after phase {worse[0]} the load distance is above that of the start")
    return tuple(said)
