"""Collocated allocation where moves are not scarce is graph partitioning: multilevel search, and partitions combined."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from keyshift.models import Budget
from keyshift.models.collocation import CollocatedAllocation
from keyshift.models.errors import InputError
from keyshift.models.workload import BoolArray, FloatArray, IntArray
from keyshift.solvers.collocation.arrays import UNLIMITED, Arrays
from keyshift.solvers.collocation.multilevel_kernels import (
    SLIGHT,
    cluster,
    contract,
    fill,
    refine,
)  # fmt: skip

Peer = Literal["kahip", "mtkahypar"]
Found = tuple[float, float, IntArray]
"""By how much a partition breaks limits, its cut, and the block of each vertex: the less the better."""
TINY = 1e-280
"""Stands for a divisor of 0; nothing limited is large enough to overflow by it."""


class Graph(NamedTuple):
    """A graph: symmetric adjacency, the weight of each edge, and of each vertex what it takes of each limited thing."""

    indptr: IntArray
    neighbour: IntArray
    weight: FloatArray
    size: FloatArray
    """Shape (rows, vertices): loads, and resources, in units of an average block's."""


class Blocks(NamedTuple):
    """A partition of the vertices, and what it must keep."""

    of: IntArray
    """The block of each vertex."""
    held: FloatArray
    """Sums of each block, shape (rows, blocks)."""
    most: FloatArray
    least: FloatArray
    tie: FloatArray
    """Weight of each vertex's edges into each block, shape (vertices, blocks)."""


class Queue(NamedTuple):
    """Vertices by the gain of their best move: a heap with the position of each; and the moves since it was empty."""

    key: FloatArray
    heap: IntArray
    place: IntArray
    size: IntArray
    """Vertices in the heap, shape (1,)."""
    moved: IntArray
    source: IntArray


COARSEST, PER_BLOCK, SHRINKS = 100, 40, 0.95
"""Coarsening ends at so many vertices, plus so many for each block, or with a step that leaves more than this share of them."""
PATIENCE, FROM_ALL = 30, 3
"""Moves without a new best after which a search from one vertex ends; so many times as many from the whole boundary."""
WORTH_WHILE, ROUNDS = 1e-3, 50
"""The rounds of a level end with one that gains less than this share of the cut, and are no more than these."""
POPULATION, FRESH = 5, 0.25
"""Partitions kept for combination; share of the combinations for which one of the two is new."""
TIGHT, SLACK = 0.5, 0.5
"""Share of the combinations that go through coarse graphs whose blocks have only this part of the room to spare."""


class Multilevel:
    """A search for partitions with little traffic between them, which can be told to go on; `best` is its best.

    A cycle contracts clusters of vertices that are tied together until few are left, bisects these again and again, and
    refines the partition by local search while it undoes the contractions. A few such partitions are then combined, two at a
    time: contracting no edge that either cuts, so that both survive to the coarsest graph, and refining the better one on the
    way back ([Sanders2012]). Now and then one of the two is new. Half of the time blocks have half of the room to spare until
    the last level: a partition that has used it all on a coarse graph is stuck.

    No guarantee. The same seed and number of cycles give the same partitions.
    """

    def __init__(self, problem: CollocatedAllocation, data: Arrays, seed: int = 0) -> None:
        self.problem = problem
        self.nodes = np.flatnonzero(problem.workload.kept)
        rows = np.concatenate([data.remote_load, data.use])
        unit = np.maximum(rows.sum(axis=1, keepdims=True) / self.nodes.size, TINY)
        never = np.full_like(data.room, -UNLIMITED)
        self.most = np.concatenate([data.upper, data.room]).take(self.nodes, axis=1) / unit
        self.least = np.concatenate([data.lower, never]).take(self.nodes, axis=1) / unit
        weight = data.mean_weight / (float(np.median(data.mean_traffic)) or 1.0)
        adjacency = sp.csr_array((weight, data.neighbour, data.indptr), shape=(data.key_groups, data.key_groups))
        self.order = reverse_cuthill_mckee(adjacency, symmetric_mode=True).astype(np.int64)  # neighbours near in memory
        self.graph = _graph(adjacency[self.order][:, self.order], rows[:, self.order] / unit)
        self.draw = np.random.default_rng([seed, 36])
        self.rng = self.draw.integers(1, 2**63, 1, dtype=np.uint64)
        self.found: list[Found] = []

    @staticmethod
    def suits(problem: CollocatedAllocation, data: Arrays) -> bool:
        """Whether nearly everything may move anywhere, under limits that are the same wherever the rest is."""
        kept = problem.workload.kept
        scarce = data.max_moves < (1 - 1 / kept.sum()) * data.key_groups or data.cost_share.max() > 0
        limited = min(data.upper.min(), data.room.min(initial=UNLIMITED)) < UNLIMITED / 1e3
        plain = data.serialisation.max() == 0 and not problem.rules and not problem.combines
        anywhere = problem.allocation.space.enter[:, kept].all()
        return bool(plain and not scarce and limited and kept.sum() > 1 and anywhere and data.first.size)

    @property
    def best(self) -> IntArray | None:
        """The best partition that keeps the limits, as an assignment."""
        return self.nodes[self._as_given(self.found[0][2])] if self.found and self.found[0][0] <= SLIGHT else None

    def go_on(self, budget: Budget, cycles: float = math.inf) -> None:
        """So many cycles more, or until the budget ends, but one at least."""
        while cycles > 0 and not (budget.expired and self.found):
            cycles -= 1
            if len(self.found) < POPULATION:
                self.keep(self.cycle(budget))
                continue
            one, other = sorted(self._pair_of(budget), key=lambda found: found[:2])
            slack = SLACK if self.draw.random() < TIGHT else 1.0
            self.keep(self.cycle(budget, one[2] * self.nodes.size + other[2], one[2], slack))

    def _pair_of(self, budget: Budget) -> list[Found]:
        """Two partitions to combine, which are in order: the better the likelier, or one of them and a new one."""
        rank = np.arange(len(self.found), 0, -1)
        one, other = self.draw.choice(rank.size, 2, replace=False, p=rank / rank.sum())
        fresh = self.draw.random() < FRESH
        return [self.found[one], self.cycle(budget) if fresh else self.found[other]]

    def keep(self, new: Found) -> None:
        """Take a partition in; where they get too many, of those that are no better the one most like it gives way."""
        if any(new[:2] == old[:2] and np.array_equal(new[2], old[2]) for old in self.found):
            return
        if len(self.found) >= POPULATION:
            worse = [at for at, old in enumerate(self.found) if old[:2] >= new[:2]]
            if not worse:
                return
            cut = self._cut_pairs(new)
            del self.found[min(worse, key=lambda at: int((cut ^ self._cut_pairs(self.found[at])).sum()))]
        self.found = sorted([*self.found, new], key=lambda one: one[:2])

    def _as_given(self, of: IntArray) -> IntArray:
        """What is said of each vertex, in the problem's order."""
        given = np.empty_like(of)
        given[self.order] = of
        return given

    def _cut_pairs(self, found: Found) -> BoolArray:
        pairs, of = self.problem.pairs, self._as_given(found[2])
        return of[pairs.first] != of[pairs.second]

    def cycle(
        self, budget: Budget, alike: IntArray | None = None, start: IntArray | None = None, slack: float = 1.0
    ) -> Found:
        """Down to a coarse graph and back; with `alike`, only vertices of the same come together, and `start` is refined."""
        graph, blocks = self.graph, self.nodes.size
        enough = COARSEST + PER_BLOCK * blocks
        levels: list[tuple[Graph, IntArray]] = []
        alike = np.zeros(graph.indptr.size - 1, np.int64) if alike is None else alike
        while alike.size > enough:
            # The largest weight of a cluster, in units of the mean weight of the coarsest graph's vertices.
            into, heads = self._clusters(graph, alike, 2.0 * blocks / enough)
            if heads.size > SHRINKS * alike.size:
                break
            levels.append((graph, into))
            graph, alike, start = _contracted(graph, into), alike[heads], None if start is None else start[heads]
        found = self.refined(graph, self._split(graph, np.arange(blocks)) if start is None else start, budget, slack)
        for finer, into in reversed(levels):
            found = self.refined(finer, found[2][into], budget, slack)
        return found

    def _clusters(self, graph: Graph, alike: IntArray, heaviest: float) -> tuple[IntArray, IntArray]:
        """The number of the cluster that each vertex comes into, and the vertex that each cluster began with."""
        into, mass = np.arange(alike.size), np.maximum(graph.size.max(axis=0), 1e-12)
        cluster(self.draw.permutation(alike.size), heaviest, alike, graph, into, mass, np.zeros(alike.size))
        heads = into == np.arange(alike.size)
        return (np.cumsum(heads) - 1)[into], np.flatnonzero(heads)

    def _split(self, graph: Graph, blocks: IntArray) -> IntArray:
        """A partition of a small graph into these blocks, by halves, each of which grows from a random vertex."""
        of = np.full(graph.indptr.size - 1, blocks[0])
        if blocks.size == 1 or of.size == 0:
            return of
        halves = np.array_split(blocks, 2)
        total = graph.size.sum(axis=1)
        room = np.array([self.most[:, half].sum(axis=1) for half in halves]).T
        spare = np.maximum(room.sum(axis=1) - total, 0.0) / math.ceil(math.log2(blocks.size))
        most = room / np.maximum(room.sum(axis=1, keepdims=True), TINY) * (total + spare)[:, np.newaxis]
        # Bisections of the coarsest graph; the best is used.
        grown = (self._refined(graph, np.zeros_like(of), most, None, Budget()) for _ in range(20))
        side = min(grown, key=lambda one: one[:2])[2]
        for half, inside in zip(halves, (np.flatnonzero(side == 0), np.flatnonzero(side == 1)), strict=True):
            of[inside] = self._split(_induced(graph, inside), half)
        return of

    def refined(self, graph: Graph, of: IntArray, budget: Budget, slack: float = 1.0) -> Found:
        """A partition of a graph, refined within the problem's limits; of a coarse one with so much of the room to spare."""
        most = self.most if graph is self.graph else self.most - (1 - slack) * _spare(graph, self.most)
        return self._refined(graph, of, most, self.least, budget)

    def _refined(self, graph: Graph, of: IntArray, most: FloatArray, least: FloatArray | None, budget: Budget) -> Found:
        """Rounds of local search until one gains little; without a `least` blocks grow first."""
        grow, vertices, turn = least is None, of.size, 0
        least = np.full_like(most, -UNLIMITED) if least is None else least
        blocks = Blocks(of.astype(np.int64), np.empty_like(most), most, least, np.empty((vertices, most.shape[1])))
        queue = Queue(
            np.empty(vertices), *(np.empty(size, np.int64) for size in (vertices, vertices, 1, vertices, vertices))
        )
        cut, broken = fill(graph, blocks) / 2, _broken(blocks)
        whole = blocks.tie.sum(axis=1)
        while True:
            full = np.asarray((blocks.held > most + SLIGHT).any(axis=0))
            on = _boundary(blocks, whole, np.arange(vertices)) | full[blocks.of]
            at_once = turn % 2 == int(grow)
            gained, steps = refine(
                self.rng, self.draw.permutation(np.flatnonzero(on)), vertices if at_once else 1,
                PATIENCE * (FROM_ALL if at_once else 1), graph, blocks, queue,
            )  # fmt: skip
            budget.spend(10 * steps + 10_000)
            cut, turn, before, broken = cut - gained, turn + 1, broken, _broken(blocks)
            little = gained <= WORTH_WHILE * max(cut, 0.0) and broken >= before - SLIGHT
            if (little and turn > 1) or turn == ROUNDS or budget.expired:
                return broken, cut, blocks.of

    def take(self, assignment: IntArray, budget: Budget) -> None:
        """Keep an assignment to nodes that do not drain, refined."""
        block = np.searchsorted(self.nodes, assignment)[self.order]
        self.keep(self.refined(self.graph, block, budget))

    def ask(self, peer: Peer, seed: int) -> None:
        """Keep what another program makes of the graph, refined here. It has no time limit, and takes all nodes as equal.

        Raises
        ------
        InputError
            Where it is not installed.
        """
        share = float(min(self.most[0].min(), 1e3)) - 1.0  # of an average node
        of = _by_peer(peer, self.graph, self.nodes.size, max(share, 0.0), seed)
        self.keep(self.refined(self.graph, of, Budget()))


def _broken(blocks: Blocks) -> float:
    """By how much blocks break their limits in all."""
    broken = (np.maximum(blocks.held - blocks.most, 0) + np.maximum(blocks.least - blocks.held, 0)).sum()
    return float(broken) if broken > SLIGHT else 0.0  # rounding


def _spare(graph: Graph, most: FloatArray) -> FloatArray:
    """What of each block's limits stays free where all blocks are filled to the same share of them."""
    left = np.maximum(1 - graph.size.sum(axis=1) / np.maximum(most.sum(axis=1), TINY), 0.0)
    return most * left[:, np.newaxis]


def _boundary(blocks: Blocks, whole: FloatArray, vertices: IntArray) -> BoolArray:
    """Whether each of these vertices has a neighbour in another block."""
    return blocks.tie[vertices, blocks.of[vertices]] < whole[vertices] - SLIGHT


def _contracted(graph: Graph, into: IntArray) -> Graph:
    """The graph of clusters."""
    clusters, edges = int(into.max()) + 1, graph.weight.size
    size = np.zeros((graph.size.shape[0], clusters))
    coarse = Graph(np.zeros(clusters + 1, np.int64), np.empty(edges, np.int64), np.empty(edges), size)
    edges = contract(into, np.full(clusters, -1), np.empty_like(into), np.full(clusters, -1), graph, coarse)
    joined = (coarse.weight[:edges], coarse.neighbour[:edges], coarse.indptr)
    return _of(sp.csr_array(joined, shape=(clusters, clusters)), size)


def _induced(graph: Graph, inside: IntArray) -> Graph:
    """The graph of some of the vertices."""
    return _graph(_adjacency(graph)[inside][:, inside], graph.size[:, inside])


def _adjacency(graph: Graph) -> sp.csr_array:
    vertices = graph.indptr.size - 1
    return sp.csr_array((graph.weight, graph.neighbour, graph.indptr), shape=(vertices, vertices))


def _graph(adjacency: sp.csr_array, size: FloatArray) -> Graph:
    """The graph of a symmetric matrix, without loops."""
    a = sp.csr_array(adjacency)
    a.setdiag(0)
    a.eliminate_zeros()
    return _of(a, np.ascontiguousarray(size))


def _of(adjacency: sp.csr_array, size: FloatArray) -> Graph:
    """The graph of a symmetric matrix that has no loops, its neighbours in order."""
    adjacency.sort_indices()
    return Graph(adjacency.indptr.astype(np.int64), adjacency.indices.astype(np.int64), adjacency.data, size)


def _by_peer(peer: Peer, graph: Graph, blocks: int, share: float, seed: int) -> IntArray:
    """KaHIP's or Mt-KaHyPar's partition of the graph into blocks that hold at most `share` more than the average."""
    load = np.maximum(1, np.rint(graph.size[0] / max(float(np.median(graph.size[0])), 1e-12))).astype(np.int64)
    weight = np.maximum(1, np.rint(graph.weight)).astype(np.int64)
    try:
        if peer == "kahip":
            import kahip

            lists = (load.tolist(), graph.indptr.tolist(), weight.tolist(), graph.neighbour.tolist())
            return np.array(kahip.kaffpa(*lists, blocks, share, True, seed, kahip.ECO)[1])
        import mtkahypar
    except ImportError as error:
        raise InputError(f"{peer} is not installed: pip install 'keyshift[partition]'") from error
    machine = mtkahypar.initialize(1, False)
    mtkahypar.set_seed(seed)
    context = machine.context_from_preset(mtkahypar.PresetType.DEFAULT)
    context.set_partitioning_parameters(blocks, share, mtkahypar.Objective.CUT)
    context.logging = False
    ends = np.repeat(np.arange(load.size), np.diff(graph.indptr))
    once = ends < graph.neighbour
    edges = list(zip(ends[once].tolist(), graph.neighbour[once].tolist(), strict=True))
    made = machine.create_graph(context, load.size, len(edges), edges, load.tolist(), weight[once].tolist())
    return np.array(made.partition(context).get_partition())
