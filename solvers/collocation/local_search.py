"""Local search for collocated allocation: good incumbents fast, for the exact method to start from."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from keyshift.models import Answer, Budget
from keyshift.models.base.guards import Whole
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.workload import IntArray
from keyshift.solvers.checked import kept
from keyshift.solvers.collocation.arrays import BOUNDED, Arrays
from keyshift.solvers.collocation.joining import joined
from keyshift.solvers.conductor import Incumbent
from keyshift.solvers.search.annealing import Cooling, LocalSearch, shares_of
from keyshift.solvers.search.lowering import Posed
from keyshift.solvers.search.program import Aim, State
from keyshift.solvers.search.terms import refresh

TURN, CHUNK, MOST_CHUNKS, GROW = 250_000, 12_500, 4, 8
"""Steps of a turn; of the first rounds, between two looks at the clock; later ones have so many chunks, one more every `GROW`."""
SHARES = shares_of(join=0.375, cluster=0.4375, swap=0.1875)
HEATS, COOL, FALL = (3.0, 1.0), 0.25, 100.0
"""Temperatures at which the rounds of a cycle begin, in units of the value of the last move; the last round of a cycle begins at
so small a share of the one before; in a round the temperature falls by so large a factor."""
FIRMNESS = (4.0, 1200.0, 0.4)
"""What a key group's load beyond a limit costs at first, in units of the largest traffic of a pair, in turns from one beginning
to the next: a high cost finds limits that hardly anything keeps, a low one answers that only detours reach."""
SEARCHED = 60_000_000
"""The annealing has the traffic of each key group with each node in memory: where these are more numbers, joins come instead."""
TOO_MANY = "too large to be annealed: joins by falling gain instead"


def local_search(
    problem: CollocatedAllocation,
    *,
    budget: Budget,
    seed: int = 0,
    start: IntArray | None = None,
    steps: Whole = 1_500_000,
) -> Answer:
    """Where everything runs now, or where that breaks a limit ALBIC's answer, improved by `Annealing` until it gains no more.

    Large instances, for which ALBIC takes long, are joined first (`joining`). Over k windows it anneals under the limits of each
    of them. Key groups that rules keep together are one item to it. No guarantee.

    Parameters
    ----------
    steps : int, default 1,500,000
        At most; a quarter of a second for a thousand key groups.
    """
    data = Arrays(problem)
    if data.cells > SEARCHED:
        return Answer(
            joined(problem, data, start, budget, seed), termination=budget.ended("completed"), message=TOO_MANY
        )
    if data.cells > BOUNDED:
        start = joined(problem, data, start, budget.part(0.5), seed)
    search = Annealing(problem, start, seed, data)
    search.go_on(budget, steps, stop=True)
    if search.best is None:
        search.best = joined(problem, data, None, budget.part(0.0), seed)
    return Answer(search.best, termination=budget.why if budget.expired else "completed")


class Annealing:
    """Simulated annealing from a start, or from the current nodes, that can be told to go on; `best` is its best, if any.

    A step moves a key group to a neighbour's node, or to any node, it or a cluster of up to four that talk to where most of
    their traffic is, or swaps two; when the migration limit is full, others go back with
    it. Migration limits are never broken; broken load and resource limits cost a penalty, which grows while too much time is
    spent beyond them and falls while too little is. Rounds begin from the best so far, hot then cold; the first begins from
    the start, or from the current nodes, and every search that is to go on `again` after one that gained nothing for half of
    its time from these two in turns.

    No guarantee. A step costs O(degree of the key group + nodes). The same seed and
    number of steps give the same answer.
    """

    def __init__(
        self,
        problem: CollocatedAllocation,
        start: IntArray | None,
        seed: int = 0,
        arrays: Arrays | None = None,
    ) -> None:
        data = Arrays(problem) if arrays is None else arrays
        self.problem, self.data = problem, data
        self.best = None if start is None or problem.violations(start) else start.copy()
        self.begun, self.gained, self.rounds = 0, 0, 0
        self.reference = problem.objective(problem.workload.current)
        self.over = data.key_groups == 1 or data.nodes == 1 or data.max_moves == 0
        if self.over:
            if self.best is None and not problem.violations(problem.workload.current):
                self.best = problem.workload.current.copy()
            return
        posed = Posed(problem)
        self.placing = posed.placing
        self.search = LocalSearch(posed.placing, SHARES, seed, 71)
        program = self.placing.program
        typical = max(float(np.median(program.loads.load)), 1e-9)
        self.unit = float(program.graph.weight.max(initial=0.0) or 1.0) / typical / data.windows
        self.beginnings, self.penalty = 0, FIRMNESS[0] * self.unit
        self.bases = [data.current] if self.best is None else [self.best, data.current]
        self.led = self.best  # the best since the last beginning
        # What that was worth when a gain last counted.
        self.mark = np.inf if self.led is None else problem.objective(self.led)
        self.chunk = CHUNK * max(1, data.key_groups * data.nodes // 1_000_000)  # a round begins with a pass over all
        self.search.begin(self.bases[0])
        refresh(Aim(), program, self.search.state)
        self.heats = _heats(data, program.guide.max_moves, self.search.state)

    @property
    def settled(self) -> bool:
        """Whether nothing that counts was gained for as long as it took to come here, and in every temperature's last round."""
        return self.rounds - self.gained >= max(len(self.heats), (self.rounds - self.begun) // 2)

    def go_on(self, budget: Budget, steps: int, again: bool = False, stop: bool = False) -> None:
        """So many steps more, or until the budget ends; where nothing is gained any more, `again` from the start or `stop`."""
        while steps > 0 and not self.over and not budget.expired:
            if stop and self.settled and self.best is not None:
                return
            if again and self.settled:
                self.begun = self.gained = self.rounds
                self.beginnings += 1
                turn, base = divmod(self.beginnings, len(self.bases))
                self.led, self.mark = None, np.inf
                self.search.begin(self.bases[base])
                self.penalty = self.unit * FIRMNESS[turn % len(FIRMNESS)]
            since = self.rounds - self.begun
            long = min(steps, self.chunk * min(MOST_CHUNKS, 1 + since // GROW))
            self._round(budget, long)
            steps -= long

    def _round(self, budget: Budget, steps: int) -> None:
        """One round, from hot to cold."""
        problem, data = self.problem, self.data
        since = self.rounds - self.begun
        hot = self.heats[since % len(self.heats)]
        aim = _aim(problem, data, data.current if self.led is None else self.led)
        made, value = self.search.cool(aim, Cooling(steps, hot, hot / FALL, self.penalty, self.penalty))
        budget.spend(2 * steps)
        infeasible = self.search.beyond
        self.penalty *= 2.0 if value == np.inf or infeasible > 0.5 else 0.7 if infeasible < 0.1 else 1.0
        self.rounds += 1
        if value < np.inf and kept(problem, made):
            self.add_solution(made, budget)
        if self.led is not None and (since + 1) % 3 == 0:  # so often a round continues from the best
            self.search.begin(self.led)

    def add_solution(self, assignment: IntArray, budget: Budget) -> None:
        """Take over a feasible assignment where it is better than the best, or than the best since the last beginning."""
        value = self.problem.objective(assignment)
        if self.led is None or value < self.problem.objective(self.led):
            self.led = assignment.copy()
            if value < self.mark - 1e-3 * abs(self.reference - value):  # a gain counts by what was gained so far
                self.mark, self.gained = value, self.rounds
        if self.best is None or value < self.problem.objective(self.best):
            self.best = assignment.copy()
            budget.report(objective=value, note="local search")


def search_turns(found: Incumbent, seed: int, steps: int, finish: bool, few: bool) -> Iterator[None]:
    """Annealing, some steps at a turn; after so many, and at once where few may move, again from other beginnings."""
    search, done, turn = Annealing(found.problem, found.best, seed), 0, min(TURN, steps)
    found.add_solution(search.best, "local search")
    while not search.over and (done < steps or (finish and np.isfinite(found.budget.time_limit))):
        if found.best is not None and (search.best is None or found.objective < found.problem.objective(search.best)):
            search.add_solution(found.best, found.budget)
        search.go_on(found.budget, turn, again=finish and (few or done >= steps))
        done += turn
        found.add_solution(search.best, "local search")
        yield


def _heats(data: Arrays, max_moves: int, state: State) -> tuple[float, ...]:
    """The temperatures that rounds begin at, in turns: around what the last of the moves is worth, then what most are worth.

    Where traffic has a heavy tail, these are apart by orders of magnitude: few moves are about its head.
    """
    pair = float(np.median(data.mean_traffic)) if data.traffic.size else 1.0
    share = data.row_share if data.row_share.size == len(state.on_node) else np.ones(len(state.on_node))
    most, mean, own = np.empty((3, len(state.placed.place)))
    for part in np.array_split(np.arange(most.size), -(-state.on_node.size // 4_000_000)):
        on_node = np.einsum("t,tpn->pn", share, state.on_node[:, part])
        most[part], mean[part] = on_node.max(axis=1), on_node.mean(axis=1)
        own[part] = on_node[np.arange(part.size), state.placed.place[part]]
    node = max(pair, float(np.median(most - mean)))
    gains = np.sort(most - own)
    last = max(pair, float(gains[-max(1, min(max_moves, gains.size))]))
    return *(share * last for share in HEATS), node, COOL * node


def _aim(problem: CollocatedAllocation, data: Arrays, assignment: IntArray) -> Aim:
    """What the search minimises: (15), in shares of the traffic."""
    over, planned = problem.over if problem.combines else "mean", problem.planned
    apart = problem.apart / (problem.saved * data.traffic_unit or 1.0) if problem.combines else data.traffic.sum(axis=1)
    most = planned.most if over == "cvar" else planned.share
    level = 0.0
    if over == "cvar" and len(data.traffic) > 1:
        one, other = problem.ends(assignment)
        kept_whole = problem.levels.weighed(data.traffic)[:, one == other].sum(axis=1)
        remote = apart - kept_whole / problem.levels.cost[-1]
        level = float(remote[planned.weights(remote) > 0].min())
    blend = 0.0 if over == "mean" else 0.2
    return Aim(most=np.array(most), worst=over == "max", level=level, cut=1.0, apart=np.array(apart), blend=blend)
