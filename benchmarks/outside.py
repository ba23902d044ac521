"""Benchmarks that others wrote, mapped to keyshift's problems.

    python benchmarks/outside.py [--quick] [--only PART ...] --out DIR

The instances are read where they lie (the folder that `KEYSHIFT_TEST_DATA` names); without them, instances of the same classes are drawn.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp
from page import run
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial import Delaunay

import keyshift as ks
from keyshift.generators.real import DATA
from keyshift.models import Budget
from keyshift.papers.page import Page
from keyshift.solvers.collocation.arrays import Arrays
from keyshift.solvers.collocation.local_search import Annealing
from keyshift.solvers.collocation.multilevel import Multilevel
from keyshift.solvers.splitting.makespan import longest_first, lower_bound, multifit

SIZES = [(10, 5), *((n, m) for n in (50, 100, 500, 1000) for m in (5, 10, 25))]
RANGES = {"1": 100, "2": 1000, "3": 10_000}
Named = tuple[str, int, list[int]]


def franca(quick: bool) -> Iterator[Named]:
    """Name, machines, times: class U, uniform, or NU, where 98 % are between 0.9 and 1 of the longest, by range and size."""
    file = Path(os.environ.get(DATA, ".")) / "pcmax-franca.json.gz"
    if file.is_file():
        read = json.loads(gzip.decompress(file.read_bytes()))
        yield from ((name, one["machines"], one["times"]) for name, one in list(read.items())[:: 10 if quick else 1])
        return
    rng = np.random.default_rng(1994)
    for kind in ("NU", "U"):
        for label, longest in RANGES.items():
            for n, m in SIZES:
                for number in range(1 if quick else 5):
                    times = rng.integers(1, longest + 1, n)
                    if kind == "NU":
                        long = rng.integers(int(0.9 * longest), longest + 1, n)
                        times = np.where(rng.random(n) < 0.98, long, rng.integers(1, int(0.2 * longest), n))
                    yield f"{kind}_{label}_{n:04}_{m:02}_{number}", m, times.tolist()


def makespan(page: Page) -> None:
    """Makespan on identical machines, P || Cmax

    The classes of {ref}`[Franca1994] <franca1994>` as `KeyPlacement(range(n), workers=m, choices=None, weights=times)`; 10 seconds each.
    `n` times on `m` machines; *excess*, *LPT* and *MultiFit* are means of what an answer lies above the proven bound, *beaten* counts
    instances where one of the two did better. Seconds are a processor's. Every sixth instance of at most 100 times goes to `prtpy`'s
    complete greedy algorithm, too, which has a second.
    """
    rows, asked = [], 0
    for name, machines, times in franca(page.quick):
        problem = ks.KeyPlacement(range(len(times)), workers=machines, choices=None, weights=times)
        began = time.process_time()
        found = ks.solve(problem, time_limit=10.0, gap=0.0)
        seconds, loads = time.process_time() - began, sorted(times, reverse=True)
        lpt = max(map(sum, longest_first(loads, machines)))
        fit = max(map(sum, multifit(loads, machines, lower_bound(loads, machines), lpt) or [[lpt]]))
        kind, label, size, *_ = name.split("_")
        above = {
            f"{who}, %": 100 * (value - found.bound) / found.bound
            for who, value in {"excess": found.objective, "LPT": lpt, "MultiFit": fit}.items()
        }
        measured = {
            "proven": found.status == "optimal",
            "seconds": seconds,
            **above,
            "beaten": found.objective > min(lpt, fit),
        }
        asked += len(times) <= 100
        if len(times) <= 100 and asked % 6 == 0 and importlib.util.find_spec("prtpy"):
            measured["prtpy"] = by_prtpy(times, machines) - found.objective
        rows.append({"class": f"{kind}, {RANGES[label]:,}", "n": int(size), "m": machines, "instances": 1, **measured})
    frame = page.keep(rows, "makespan")
    columns = ["instances", "proven", "seconds", "excess, %", "LPT, %", "MultiFit, %", "beaten"]
    how = {column: "sum" if column in ("instances", "proven", "beaten") else "mean" for column in columns}
    page.table(frame.groupby(["class", "n", "m"], as_index=False).agg(how).round(4))
    whole = frame.agg(how)
    page.say(
        f"{whole['proven']:.0f} of {whole['instances']:.0f} proven, mean excess {whole['excess, %']:.5f} %, "
        f"{whole['beaten']:.0f} beaten; {frame['seconds'].sum():.0f} seconds of a processor, {frame['seconds'].max():.1f} at most."
    )
    if "prtpy" in frame:
        more = frame["prtpy"].dropna()
        page.say(
            f"prtpy, {len(more)} instances: keyshift's largest load is less on {(more > 0).sum()}, equal on {(more == 0).sum()}, "
            f"more on {(more < 0).sum()}."
        )


def by_prtpy(times: list[int], machines: int, seconds: float = 1.0) -> float:
    """The largest load that `prtpy`'s complete greedy algorithm finds."""
    import prtpy

    return float(
        prtpy.partition(
            algorithm=prtpy.partitioning.complete_greedy, numbins=machines, items=times,
            objective=prtpy.obj.MinimizeLargestSum, outputtype=prtpy.out.LargestSum, time_limit=seconds,
        )
    )  # fmt: skip


def of_pairs(vertices: int, first: np.ndarray, second: np.ndarray) -> sp.csr_array:
    """A graph by its edges, each once."""
    ends = (np.minimum(first, second), np.maximum(first, second))
    matrix = sp.csr_array(sp.triu(sp.coo_array((np.ones(first.size), ends), shape=(vertices, vertices)), 1))
    matrix.data[:] = 1.0
    return matrix


def triangulated(points: np.ndarray) -> sp.csr_array:
    """The Delaunay triangulation of points, in the plane or in space."""
    corners = Delaunay(points).simplices
    pairs = np.concatenate([corners[:, [a, b]] for a in range(corners.shape[1]) for b in range(a)])
    return of_pairs(len(points), *pairs.T)


def roads(vertices: int, rng: np.random.Generator) -> sp.csr_array:
    """A spanning tree of points in the plane, and one in eight of the short edges between neighbours."""
    points = rng.random((vertices, 2))
    near = triangulated(points).tocoo()
    length = np.hypot(*(points[near.row] - points[near.col]).T)
    tree = minimum_spanning_tree(sp.csr_array((length, (near.row, near.col)), shape=near.shape)).tocoo()
    more = (rng.random(length.size) < 0.12) & (length < 2 / math.sqrt(vertices))
    return of_pairs(vertices, np.r_[tree.row, near.row[more]], np.r_[tree.col, near.col[more]])


def upper(graph: nx.Graph) -> sp.csr_array:
    """A graph of networkx."""
    return of_pairs(graph.number_of_nodes(), *np.array(nx.convert_node_labels_to_integers(graph).edges).T)


def graphs() -> Iterator[tuple[str, sp.csr_array]]:
    """Ten graphs of 2,500 to 75,000 vertices: of finite elements, grids, power laws, bands, and likenesses of roads."""
    rng = np.random.default_rng(36)
    drawn = rng.random((4_800, 2))
    yield "grid, 50 x 50", upper(nx.grid_2d_graph(50, 50))
    yield "graded triangles, 4,800", triangulated(np.c_[drawn[:, 0] ** 3, drawn[:, 1] * (0.2 + drawn[:, 0])])
    yield "power law, 5,000", upper(nx.barabasi_albert_graph(5_000, 3, seed=36))
    at = rng.integers(0, 8_000, 60_000)
    yield "band, 8,000", of_pairs(8_000, at, np.minimum(7_999, at + rng.integers(1, 60, at.size)))
    yield "tetrahedra, 10,000", triangulated(rng.random((10_000, 3)))
    yield "cube, 25 x 25 x 25", upper(nx.grid_graph((25, 25, 25)))
    yield "triangles, 20,000", triangulated(rng.random((20_000, 2)))
    yield "geometric, 30,000", upper(nx.random_geometric_graph(30_000, 0.0102, seed=36))
    yield "triangles, 60,000", triangulated(rng.random((60_000, 2)))
    yield "roads, 75,000", roads(75_000, rng)


def bisected(graph: sp.csr_array, blocks: int, share: float) -> ks.CollocatedAllocation:
    """A graph as collocation, the heavy side alone limited, as KaHIP and Mt-KaHyPar have it."""
    p = graph.shape[0]
    w = ks.Workload(load=np.ones(p), state=np.ones(p), current=np.arange(p) % blocks, nodes=blocks, traffic=graph)
    most = math.floor((1 + share) * math.ceil(p / blocks))
    return ks.CollocatedAllocation(w, max_load_distance=None, resource_capacity={"load": [most] * blocks})


def by_kahip(graph: sp.csr_array, blocks: int, share: float, seed: int) -> np.ndarray:
    import kahip

    both = (graph + graph.T).tocsr()
    lists = ([1] * both.shape[0], both.indptr.tolist(), both.data.astype(int).tolist(), both.indices.tolist())
    return np.array(kahip.kaffpa(*lists, blocks, share, True, seed, kahip.STRONG)[1])


def by_mtkahypar(graph: sp.csr_array, blocks: int, share: float, seed: int) -> np.ndarray:
    import mtkahypar

    machine, edges = mtkahypar.initialize(1, False), graph.tocoo()
    mtkahypar.set_seed(seed)
    context = machine.context_from_preset(mtkahypar.PresetType.QUALITY)
    context.set_partitioning_parameters(blocks, share, mtkahypar.Objective.CUT)
    context.logging = False
    made = machine.create_graph(
        context, graph.shape[0], edges.nnz, list(zip(edges.row.tolist(), edges.col.tolist(), strict=True))
    )
    return np.array(made.partition(context).get_partition())


PEERS: dict[str, Callable[..., np.ndarray]] = {"kahip": by_kahip, "mtkahypar": by_mtkahypar}


def cut(
    peer: Callable[..., np.ndarray],
    problem: ks.CollocatedAllocation,
    graph: sp.csr_array,
    blocks: int,
    share: float,
    seed: int,
) -> float:
    report = problem.check(peer(graph, blocks, share, seed))
    return report.objective if report.feasible else math.inf


def again_and_again(work: Callable[[int], float], seconds: float) -> tuple[float, float]:
    """The best of as many runs, each with a seed of its own, as begin within so many processor seconds, and what all took."""
    began, best, seed = time.process_time(), math.inf, 0
    while seed == 0 or time.process_time() - began < seconds:
        best, seed = min(best, work(seed)), seed + 1
    return best, time.process_time() - began


def partitions(page: Page) -> None:
    """Graph partitioning

    A graph's vertices as key groups of load 1, its edges as pairs of traffic 1: as few edges as may be are to run between
    nodes, and no node may hold more than 3 or 5 % above the average - ``max_load_distance=None, resource_capacity={"load":
    most}``, for the peers bound the heavy side alone; of two nodes that is ``max_load_distance``. KaHIP, strong, and Mt-KaHyPar,
    quality, each on one thread, begin again with another seed as long as so many processor seconds are not over, and end what they
    have begun; the search has the *seconds* that the better of the two took. *above* is what it lies above that one, in percent.
    """
    given, seconds = page.given, page.given.seconds
    here = {name: run for name, run in PEERS.items() if importlib.util.find_spec(name)}
    rows = []
    for name, graph in [*graphs()][: 2 if page.quick else None]:
        for blocks, share in product(given.blocks, given.shares):
            problem = bisected(graph, blocks, share / 100)
            of = (problem, graph, blocks, share / 100)
            peers = {who: again_and_again(partial(cut, peer, *of), seconds) for who, peer in here.items()}
            best, took = min(peers.values(), default=(math.nan, seconds))
            found = searched(problem, Arrays(problem), took)
            cuts = {who: least for who, (least, _) in peers.items()}
            row = {"graph": name, "nodes": blocks, "%": share, "keyshift": found, **cuts}
            rows.append({**row, "above": round(100 * (found / best - 1), 2), "seconds": round(took, 2)})
            print(*rows[-1].values(), flush=True)
            page.keep(rows, "partitions")
    frame = page.table(rows, "partitions")
    page.say(
        f"{(frame['above'] <= 1).sum()} of {len(frame)} within 1 % of the better peer, {(frame['above'] < 0).sum()} below it, "
        f"mean {frame['above'].mean():.2f} %, worst {frame['above'].max():.2f} %."
    )


def searched(problem: ks.CollocatedAllocation, data: Arrays, seconds: float = 10.0, peer: Any = None) -> float:
    """The cut that the multilevel search finds in so many processor seconds."""
    search = search_of(problem, data, seconds, peer)
    return math.inf if search.best is None else problem.objective(search.best)


def search_of(problem: ks.CollocatedAllocation, data: Arrays, seconds: float, peer: Any = None) -> Multilevel:
    """The multilevel search after so many processor seconds."""
    search, began = Multilevel(problem, data, 1), time.process_time()
    if peer:
        search.ask(peer, 1)
    while time.process_time() - began < seconds:
        search.go_on(Budget(), 1)
    return search


def starts(page: Page) -> None:
    """What each start gives

    Pairs cut between 16 nodes at 3 % after ten processor seconds, by parts of the search alone: *annealing*, as it was before;
    *METIS*, of the baseline COLA; a single *cycle* of the multilevel search, in its own seconds; *combined*, as `solve` has it;
    and begun from a peer.
    """
    rows = []
    for name, graph in [*graphs()][1 : 3 if page.quick else 7]:
        problem = bisected(graph, 16, 0.03)
        data = Arrays(problem)
        annealing = Annealing(problem, None, 1, data)
        spent = time.process_time()
        while time.process_time() - spent < 10.0:
            annealing.go_on(Budget(), 500_000, again=True)
        row = {"graph": name, "annealing": math.inf if annealing.best is None else problem.objective(annealing.best)}
        row["METIS"] = ks.solve(problem, "cola").objective or math.inf
        row |= {"cycle": searched(problem, data, 0.001), "combined": searched(problem, data)}
        here = [peer for peer in PEERS if importlib.util.find_spec(peer)]
        row |= {f"from {peer}": searched(problem, data, peer=peer) for peer in here}
        rows.append(row)
        print(*row.values(), flush=True)
    page.table(rows, "starts")


def readings(page: Page) -> None:
    """Two readings of a limit on balance

    Pairs cut at 3 % by the search alone, in so many processor seconds each: with `max_load_distance` on both sides, and on the
    heavy side alone (``sides="upper"``), which is how KaHIP and Mt-KaHyPar read it. *lightest* is what the lightest node holds,
    in percent of the mean.
    """
    rows = []
    for name, graph in [*graphs()][: 1 if page.quick else 5]:
        for blocks in (4, 8, 16):
            row: dict[str, Any] = {"graph": name, "nodes": blocks}
            for sides in ("both", "upper"):
                p = graph.shape[0]
                w = ks.Workload(
                    load=np.ones(p), state=np.ones(p), current=np.arange(p) % blocks, nodes=blocks, traffic=graph
                )
                problem = ks.CollocatedAllocation(w, max_load_distance=3.0, sides=sides)
                best = search_of(problem, Arrays(problem), page.given.seconds / 2).best
                row[sides] = math.inf if best is None else problem.objective(best)
                if best is not None:
                    row[f"lightest, {sides}"] = round(100 * np.bincount(best, minlength=blocks).min() * blocks / p, 2)
            rows.append(row)
            print(*row.values(), flush=True)
    page.table(rows, "readings")


def effort(page: Page) -> None:
    """The same answers by effort

    Limited solves of five problems by ``effort``, in a study with one worker and with two, twice each; a row counts as the same where
    objective, bound and status are, to the last bit.
    """
    count = 8 if page.quick else 40
    posed = {}
    for family, options in LIMITED.items():
        drawn = ks.family(family, count=count, **options)
        posed |= dict([*drawn][:count])
    methods = {problem.name: [ks.methods(problem)[0].name] for problem in posed.values()}
    told = []
    for workers in (1, 2, 1, 2):
        frame = ks.study(posed, methods, effort=0.02, gap=0.0, workers=workers).to_frame().sort_values("instance")
        told.append([repr(row) for row in frame[["instance", "objective", "bound", "status"]].to_numpy().tolist()])
    same = sum(len(set(of)) == 1 for of in zip(*told, strict=True))
    open_ = sum("'feasible'" in row for row in told[0])
    page.say(f"{same} of {len(posed)} are the same four times; {open_} of them ended by the limit.")


LIMITED: dict[str, dict[str, Any]] = {
    "hard-collocation": {}, "hard-mclb": {}, "madsen-allocation": {"nodes": 5, "key_groups": 50}, "ding-sequence": {},
    "guo-movement": {},
}  # fmt: skip
"""Families whose instances are, mostly, not proven within so little effort."""


if __name__ == "__main__":
    options: dict[str, dict[str, Any]] = {
        "seconds": {"type": float, "default": 4.0, "help": "of a processor, for each partition"},
        "blocks": {"type": int, "nargs": "+", "default": [2, 4, 8, 16]},
        "shares": {
            "type": int,
            "nargs": "+",
            "default": [3, 5],
            "help": "percent that a node may hold above the average",
        },
    }
    run("outside", "Benchmarks that others wrote", __doc__, [makespan, partitions, starts, readings, effort], **options)
