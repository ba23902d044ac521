"""Graph partitioning for collocation: what the kernels say holds, limits are kept, and small cuts are minimum ones."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import keyshift as ks
from keyshift.models import Budget
from keyshift.solvers.collocation import multilevel
from keyshift.solvers.collocation.arrays import Arrays
from keyshift.solvers.collocation.metis import by_metis, parted
from keyshift.solvers.collocation.multilevel import Blocks, Multilevel, _adjacency, _broken, _contracted
from keyshift.solvers.collocation.multilevel_kernels import fill


def problem_of(graph, nodes, seed=0, weighted=False, **limits):
    """A graph as collocation: an edge is a pair, a block a node."""
    rng, p = np.random.default_rng(seed), graph.number_of_nodes()
    matrix = sp.triu(nx.to_scipy_sparse_array(graph, weight=None), 1, format="csr").astype(float)
    load = rng.integers(1, 4, p) if weighted else np.ones(p)
    if weighted:
        matrix.data[:] = rng.integers(1, 9, matrix.nnz) * 10.0 ** rng.integers(-3, 6)
    w = ks.Workload(load=load, state=np.ones(p), current=np.arange(p) % nodes, nodes=nodes, traffic=matrix)
    return ks.CollocatedAllocation(w, **{"max_load_distance": 5.0, **limits})


def search_of(problem, seed=0):
    data = Arrays(problem)
    assert Multilevel.suits(problem, data)
    return Multilevel(problem, data, seed)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("nodes", [2, 5])
def test_partitions_are_what_they_say(nodes, weighted):
    """Cut and broken limits summed up along the way are those of the partition, in every cycle, combined ones too."""
    problem = problem_of(nx.random_geometric_graph(400, 0.09, seed=3), nodes, weighted=weighted, max_load_distance=8.0)
    search = search_of(problem)
    for _ in range(12):
        search.go_on(Budget(), 1)
    for broken, cut, of in search.found:
        blocks = Blocks(of, np.empty_like(search.most), search.most, search.least, np.empty((of.size, nodes)))
        assert cut == pytest.approx(fill(search.graph, blocks) / 2)
        assert broken == pytest.approx(_broken(blocks), abs=1e-6)
    assert not problem.violations(search.best)
    first = search_of(problem)
    first.go_on(Budget(), 12)
    assert (first.best == search.best).all()  # the same seed, the same cycles


@pytest.mark.parametrize("seed", range(4))
def test_small_cuts_are_minimum_ones(seed):
    problem = problem_of(nx.gnm_random_graph(11, 22, seed=seed), 2, seed, weighted=True, max_load_distance=20.0)
    search = search_of(problem, seed)
    search.go_on(Budget(), 10)
    every = (np.array(a) for a in itertools.product(range(2), repeat=11))
    least = min(problem.objective(a) for a in every if not problem.violations(a))
    assert problem.objective(search.best) == pytest.approx(least)


def test_bisects_a_grid_along_a_line():
    search = search_of(problem_of(nx.grid_2d_graph(30, 30), 2))
    search.go_on(Budget(), 10)
    assert search.problem.objective(search.best) == 30


def test_blocks_have_their_capacities_and_resources():
    """Nodes of other sizes, a draining one, a resource; the heavy side alone where the capacity is of load."""
    p, nodes = 300, {"a": 1.0, "b": 2.0, "c": 3.0, "d": 1.0}
    matrix = sp.triu(nx.to_scipy_sparse_array(nx.random_regular_graph(4, p, seed=1)), 1)
    memory = np.random.default_rng(0).random(p)
    w = ks.Workload(
        load=np.ones(p), state=np.ones(p), current=np.arange(p) % 4, nodes=nodes, draining=["d"], traffic=matrix,
        resources={"memory": memory},
    )  # fmt: skip
    limit = {"memory": [0.4 * memory.sum(), 0.4 * memory.sum(), 0.45 * memory.sum(), memory.sum()]}
    search = search_of(ks.CollocatedAllocation(w, max_load_distance=4.0, resource_capacity=limit))
    search.go_on(Budget(), 12)
    assert search.best is not None
    assert not search.problem.violations(search.best)
    assert (search.best != 3).all()
    one_sided = search_of(
        ks.CollocatedAllocation(w, max_load_distance=None, resource_capacity={"load": [120, 120, 120, 0]})
    )
    one_sided.go_on(Budget(), 12)
    assert np.bincount(one_sided.best, minlength=4).max() <= 120


def test_is_asked_only_where_moves_are_plenty_and_limits_fixed():
    graph = nx.gnm_random_graph(40, 80, seed=0)
    for limits in ({"max_migrations": 5}, {"max_load_distance": None}, {"serialisation": 0.1}):
        problem = problem_of(graph, 3, **limits)
        assert not Multilevel.suits(problem, Arrays(problem))


@pytest.mark.parametrize("peer", ["kahip", "mtkahypar"])
def test_begins_from_a_peer_where_it_is_installed(peer):
    problem = problem_of(nx.grid_2d_graph(12, 12), 4, max_load_distance=None, resource_capacity={"load": [38] * 4})
    try:
        __import__(peer)
    except ImportError:
        with pytest.raises(ks.InputError, match=rf"{peer} is not installed: pip install"):
            ks.solve(problem, peer=peer, time_limit=1.0)
        return
    search = search_of(problem)
    search.ask(peer, 1)
    assert not problem.violations(search.best)


@pytest.mark.parametrize(("population", "fresh"), [(2, 0.0), (5, 0.5), (3, 1.0)])
def test_the_best_is_never_lost_and_the_population_stays_small(population, fresh, monkeypatch):
    search, best = search_of(problem_of(nx.grid_2d_graph(14, 14), 4)), np.inf
    monkeypatch.setattr(multilevel, "POPULATION", population)
    monkeypatch.setattr(multilevel, "FRESH", fresh)
    for _ in range(40):
        search.go_on(Budget(), 1)
        value = search.problem.objective(search.best)
        assert value <= best
        best = value
    assert population >= len(search.found) > 1


def test_a_node_filled_to_the_brim_breaks_nothing_by_rounding():
    full = np.array([[3 * 0.1, 0.3]])  # 0.30000000000000004 of 0.3
    blocks = Blocks(np.zeros(0, np.int64), full, np.array([[0.3, 0.3]]), np.zeros((1, 2)), np.zeros((0, 2)))
    assert _broken(blocks) == 0.0
    assert _broken(blocks._replace(held=full + 1e-6)) == pytest.approx(2e-6)


def test_half_the_room_to_spare_on_coarse_graphs_all_of_it_on_the_last(monkeypatch):
    """What tight combinations are refined within: halfway between the average and the limit, but for the graph itself."""
    search = search_of(problem_of(nx.grid_2d_graph(25, 25), 2))
    monkeypatch.setattr(multilevel, "TIGHT", 1.0)
    search.go_on(Budget(), multilevel.POPULATION)
    most, whole = [], Multilevel._refined

    def seen(self, graph, of, limit, least, budget):
        most.append((graph is self.graph, limit.tolist()))
        return whole(self, graph, of, limit, least, budget)

    monkeypatch.setattr(Multilevel, "_refined", seen)
    alike = search.found[0][2] * 2 + search.found[1][2]
    search.cycle(Budget(), alike, search.found[0][2], multilevel.SLACK)
    assert len(most) > 1
    assert most[-1] == (True, search.most.tolist())
    assert all(not last and np.allclose(limit, (1 + search.most) / 2) for last, limit in most[:-1])


def test_the_graph_of_clusters_is_a_product_of_matrices():
    problem = problem_of(nx.gnm_random_graph(60, 200, seed=2), 3, 2, weighted=True)
    graph, into = search_of(problem).graph, np.random.default_rng(3).integers(0, 9, 60)
    whose = np.equal.outer(np.arange(9), into).astype(float)
    product = whose @ _adjacency(graph).toarray() @ whose.T
    np.fill_diagonal(product, 0.0)
    contracted = _contracted(graph, into)
    assert _adjacency(contracted).toarray() == pytest.approx(product)
    assert _adjacency(contracted).has_sorted_indices
    assert contracted.size == pytest.approx(graph.size @ whose.T)


def test_metis_uses_the_nodes_that_do_not_drain_by_their_capacity_and_only_with_the_time_for_it():
    rng = np.random.default_rng(7)
    p, pairs = 120, rng.integers(0, 120, (2, 600))
    traffic = sp.csr_array((rng.gamma(1.0, 1.0, 600), pairs), shape=(p, p))
    w = ks.Workload(
        load=np.ones(p), state=np.ones(p), current=rng.integers(0, 4, p), nodes=[1, 2, 1, 1], traffic=traffic,
        draining=[0, 0, 1, 0],
    )  # fmt: skip
    problem = ks.CollocatedAllocation(w)
    data = Arrays(problem)
    found = by_metis(problem, data, Budget())
    assert np.bincount(found, minlength=4) / (p / 4) == pytest.approx([1, 2, 0, 1], abs=0.15)
    assert problem.objective(found) < problem.objective(rng.integers(0, 4, p))
    assert by_metis(problem, data, Budget(0.0)) is None


def test_metis_prints_nothing_into_what_a_script_reads(capfd):
    """Of few vertices it remarks that it cannot bisect them; loads and traffic of any scale fit its whole numbers."""
    rng = np.random.default_rng(3)
    for parts in (2, 4, 11):
        graph = sp.random_array((12, 12), density=0.5, rng=rng, format="csr")
        graph = sp.csr_array(sp.triu(graph * 10.0 ** rng.integers(-9, 12, (12, 12)), 1))
        graph = sp.csr_array(graph + graph.T)
        part = parted(graph, 10.0 ** rng.integers(-9, 12, 12), np.full(parts, 1 / parts), Budget())
        assert 0 <= part.min() <= part.max() < parts
    assert parted(graph, np.ones(12), np.full(13, 1 / 13), Budget()) is None
    assert capfd.readouterr().out == ""
