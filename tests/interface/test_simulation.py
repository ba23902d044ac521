"""The simulator: against queueing theory, a plain event-driven simulation, formulas of a paused server, and itself as a fluid."""

from __future__ import annotations

import numpy as np
import pytest
from queue_oracle import PlainQueues

import keyshift as ks
from keyshift.simulation.changes import read_changes


def one_node(rate, seconds=20, **options):
    """A node that serves 1,000 tuples a second."""
    return ks.simulate([rate * seconds], [0], service_rate=1000, window_seconds=seconds, **options)


LONGEST = pytest.param(0.95, 1e7, 3, marks=pytest.mark.slow)

# Queueing theory ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rho", "tuples", "seeds"), [(0.5, 1e6, 1), (0.8, 3e6, 1), LONGEST])
@pytest.mark.parametrize(("service", "half"), [("deterministic", 2), ("exponential", 1)])
def test_mean_latencies_of_m_d_1_and_m_m_1(rho, tuples, seeds, service, half):
    """A mean over 10 million tuples of M/M/1 at 0.95 has a standard error of 1.2 %: three runs have 0.7 %."""
    runs = [one_node(1000 * rho, seconds=tuples / (1000 * rho), service=service, seed=seed) for seed in range(seeds)]
    mean = np.mean([run.latency_mean for run in runs])
    assert mean == pytest.approx(1e-3 * (1 + rho / (1 - rho) / half), rel=0.02)
    assert runs[0].utilisation[0] == pytest.approx(rho, rel=0.01)
    if service == "exponential":  # the time in the system is exponential too
        assert np.mean([run.latency_p95 for run in runs]) == pytest.approx(-np.log(0.05) * 1e-3 / (1 - rho), rel=0.03)
        assert np.mean([run.latency_p99 for run in runs]) == pytest.approx(-np.log(0.01) * 1e-3 / (1 - rho), rel=0.05)


def test_splitting_a_poisson_stream_over_nodes_gives_independent_queues():
    load = 60 * np.repeat([200.0, 400.0], 10)  # 20 key groups, two on each of 10 nodes
    run = ks.simulate(load, np.arange(20) % 10, service_rate=1000, window_seconds=60, service="exponential")
    np.testing.assert_allclose(run.utilisation, 0.6, rtol=0.05)
    assert run.latency_mean == pytest.approx(1e-3 / (1 - 0.6), rel=0.05)


# Against the plain simulation ---------------------------------------------------------------------------------------


def a_case(seed):
    """A small log, three nodes, and changes of its assignment."""
    rng = np.random.default_rng(seed)
    m, p, n = int(rng.integers(1, 120)), int(rng.integers(1, 8)), 3
    times, keys = np.sort(rng.uniform(0, 20, m)), rng.integers(0, p, m)
    work = rng.uniform(0.2, 2, m)
    start, rates = rng.integers(0, n, p), rng.uniform(1, 6, n)
    changes = [(when, rng.integers(0, n, (int(rng.integers(1, 3)), p))) for when in (4.0, 13.0)[: seed % 3]]
    how = ks.simulation.Migration(bandwidth=float(rng.uniform(1.5, 5)), state=rng.uniform(0.1, 1, p), seconds=float(rng.uniform(0, 0.2)),
                       pause=("keys", "nodes", "all")[seed // 3 % 3], buffers=bool(rng.integers(2)),
                       progressive=bool(rng.integers(2)))  # fmt: skip
    bound = int(rng.integers(1, 6)) if rng.integers(2) else None
    return (times, keys, work), start, changes, rates, how, bound


@pytest.mark.parametrize("seed", range(300))
def test_every_latency_is_that_of_a_plain_simulation(seed):
    (times, keys, work), start, changes, rates, how, bound = a_case(seed)
    second = ks.simulation.Aggregation(1.7, flush=0.05) if seed % 2 else None
    holds, stands = read_changes(changes, start, 3, how, None)
    moves = list(zip(holds.start, holds.key, holds.target, holds.release[holds.group], strict=True))
    spans = [list(zip(stands.start[a:b], stands.end[a:b], strict=True)) for a, b in zip(stands.first, stands.first[1:], strict=False)]  # fmt: skip
    plain = PlainQueues(times, keys, lambda i, w: work[i] / rates[w], start, moves, spans, bound=bound or 0,
                        buffers=how.buffers, period=second and second.period, flush=0.05).run()  # fmt: skip
    run = ks.simulate((times, keys, work), start, changes, service_rate=rates, migration=how, queue=bound, aggregation=second, spans=7)  # fmt: skip
    assert run.latency_mean == pytest.approx(np.mean(plain))
    assert run.latency_max == pytest.approx(max(plain))
    assert run.latency_p95 == pytest.approx(np.quantile(plain, 0.95, method="inverted_cdf"))
    done = times + plain
    by_span = [((times < edge) | (edge == run.seconds)).sum() - (done < edge).sum() for edge in run.times]
    np.testing.assert_allclose(run.backlog.sum(axis=1), by_span)
    assert run.throughput == pytest.approx((done < run.seconds).sum() / run.seconds)
    assert run.paused == pytest.approx(sum(move[3] - move[0] for move in moves))


def test_the_cases_try_everything():
    drawn = [a_case(seed) for seed in range(300)]
    moving = [case for case in drawn if case[2]]
    assert {(how.pause, how.buffers, bound is None) for *_, how, bound in moving} == {
        (pause, buffers, endless) for pause in ("keys", "nodes", "all") for buffers in (True, False) for endless in (True, False)
    }  # fmt: skip


# A paused server ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fluid", "events"])
@pytest.mark.parametrize(("rate", "pause"), [(500, 2.0), (800, 1.0), (100, 4.0), (950, 0.25)])
def test_a_paused_server(method, rate, pause):
    """Backlog rate * D, worked off in rate * D / (1000 - rate), latency from D down to nothing."""
    how = ks.simulation.Migration(bandwidth=1 / pause)
    run = ks.simulate([20 * rate], [0], [(5, [1])], service_rate=1000, window_seconds=20, arrivals="even", method=method,
                      migration=how, spans=2000)  # fmt: skip
    assert run.paused == pytest.approx(pause)
    assert run.latency_max == pytest.approx(pause + 0.001, abs=1 / rate if method == "events" else 1e-9)
    catch_up = rate * pause / (1000 - rate)
    assert run.largest_backlog == pytest.approx(rate * pause, abs=0.011 * rate + 2)
    late = run.times[run.latency > 0.0025]
    assert late.max() == pytest.approx(5 + pause + catch_up, abs=0.1)
    share = (pause + catch_up) / 20  # of the tuples, which wait between D and 0
    assert run.latency_mean == pytest.approx(0.001 + share * pause / 2, rel=0.02)
    assert run.latency_p95 == pytest.approx(0.001 + max(0.0, pause * (1 - 0.05 / share)), abs=0.02)


def test_without_buffers_a_held_key_blocks_its_new_node():
    load, moves = [20 * 100.0, 20 * 500.0], [(5, [1, 1])]  # key group 0 joins 1, for 2 s of transfer
    how = {"bandwidth": 0.5, "state": [1, 0]}
    both = [
        ks.simulate(load, [0, 1], moves, service_rate=1000, window_seconds=20, method="fluid", migration=ks.simulation.Migration(**how, buffers=buffers))
        for buffers in (True, False)
    ]  # fmt: skip
    buffered, blocked = (run.to_frame()["latency"].to_numpy() for run in both)
    assert both[0].latency_max == pytest.approx(2.001, abs=1e-6) == both[1].latency_max
    # buffered: only a sixth of the tuples waits for the state, the others for what is replayed; blocked: all wait 1 s in the mean
    assert buffered[25:35].mean() == pytest.approx(0.001 + 1 / 6 * (1 + 0.1), rel=0.02)
    assert blocked[25:35].mean() == pytest.approx(0.001 + 1 + 0.6, rel=0.02)


def test_standing_still_costs_more_the_more_stand_still():
    rng = np.random.default_rng(2)
    load, start = rng.uniform(100, 400, 12) * 20, np.arange(12) % 4
    moved = np.where(np.arange(12) < 2, (start + 1) % 4, start)
    keys, nodes, everything = (
        ks.simulate(load, start, [(5, moved)], service_rate=1500, window_seconds=20, method="fluid", migration=ks.simulation.Migration(
            bandwidth=1.0, pause=pause)).latency_mean for pause in ("keys", "nodes", "all")
    )  # fmt: skip
    assert keys < nodes < everything


# Fluid and events ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_events_become_the_fluid_as_tuples_become_many(seed):
    """The same rates, changes and pauses; tuples at equal distances, each taking its time exactly.

    Both are within as many service times as there are key groups, whose tuples may come at the same moment; and, where
    buffers are replayed or queues blocked, within the distance of two tuples.
    """
    rng = np.random.default_rng(seed)
    p, n, windows = int(rng.integers(2, 9)), 3, int(rng.integers(1, 4))
    load, rates = rng.uniform(50, 1500, (windows, p)) * 20, rng.uniform(0.7, 2, n)
    rates *= 1.1 * load.sum(axis=1).max() / 20 / rates.sum()
    changes = [(when, rng.integers(0, n, p)) for when in (4.0, 13.0)[: seed % 3]]
    how = ks.simulation.Migration(bandwidth=float(rng.uniform(1.5, 5)), state=rng.uniform(0.1, 1, p),
                       pause=("keys", "nodes", "all")[seed // 3 % 3], buffers=seed % 2 == 0)  # fmt: skip
    start = rng.integers(0, n, p)
    fluid, events = (
        ks.simulate(
            load, start, changes, service_rate=rates, window_seconds=20, arrivals="even", migration=how, method=method
        )
        for method in ("fluid", "events")
    )
    near = p / rates.min() + 20 / load.min()
    assert fluid.tuples == pytest.approx(events.tuples, abs=p * windows)
    assert fluid.latency_mean == pytest.approx(events.latency_mean, abs=near)
    assert fluid.latency_max == pytest.approx(events.latency_max, abs=3 * near)
    assert fluid.drained == pytest.approx(events.drained, abs=2 * near)
    assert fluid.throughput == pytest.approx(events.throughput, rel=1e-3, abs=2 * p / 20)
    np.testing.assert_allclose(fluid.backlog, events.backlog, atol=3 * p + 0.01 * rates.max())
    np.testing.assert_allclose(fluid.utilisation, events.utilisation, atol=2e-3)


def test_a_year_of_hours_is_a_fluid():
    rng = np.random.default_rng(1)
    w = ks.Workload(load=rng.uniform(1e5, 4e5, (8760, 40)), state=np.ones(40), current=np.arange(40) % 8, nodes=8)
    run = ks.simulate(w, service_rate=500, window_seconds=3600)
    assert run.method == "fluid"
    assert run.throughput == pytest.approx(w.load.sum() / (8760 * 3600), rel=1e-3)


def test_any_node_in_turn():
    run = ks.simulate([6000.0, 60.0], "shuffle", service_rate=[100, 100], window_seconds=40, method="fluid")
    assert run.utilisation.tolist() == pytest.approx([6060 / 80 / 100] * 2, rel=1e-3)  # until the last is served
    events = ks.simulate([6000.0, 60.0], "shuffle", service_rate=[100, 100], window_seconds=40)
    np.testing.assert_allclose(events.utilisation, run.utilisation, rtol=0.05)


# Plans, tables, schemes ---------------------------------------------------------------------------------------------


def test_a_plan_holds_its_key_groups_while_they_travel():
    rng = np.random.default_rng(0)
    w = ks.Workload(load=rng.uniform(100, 900, 24), state=rng.uniform(1, 5, 24), current=np.arange(24) % 3, nodes=3)
    plan = ks.plan(
        problem := ks.KeyGroupAllocation(w, max_migrations=8), ks.solve(problem, "flux"), bandwidth=2.0, phase_moves=2
    )
    assert len(plan.phases) > 1
    begins = np.array([plan.phases[f].start for f in plan.phase])

    def run(**how):
        return ks.simulate(
            w,
            None,
            [(5, plan)],
            service_rate=6000,
            window_seconds=60,
            method="fluid",
            migration=ks.simulation.Migration(**how),
        )

    assert run().paused == pytest.approx((plan.end - begins).sum())
    assert run(progressive=False).paused == pytest.approx(plan.end.sum())
    assert run().latency_mean < run(progressive=False).latency_mean < run(progressive=False, pause="all").latency_mean


def test_a_routing_table_and_a_partitioner_route():
    w = ks.Workload(load=[600, 300], state=[1, 1], current=[0, 0], home=[0, 0], nodes=2)
    table = ks.simulate(w, ks.RoutingTable([1], [1]), service_rate=10, window_seconds=100)
    assert table.utilisation == pytest.approx([0.6, 0.3], rel=0.1)
    keys = np.random.default_rng(0).zipf(1.5, 50_000) % 1000
    log = (np.arange(50_000) / 900.0, keys)
    hashed, split = (
        ks.simulate(log, ks.Partitioner(scheme, 4).feed, service_rate=250, nodes=4) for scheme in ("hash", "pkg")
    )
    assert split.latency_mean < 0.7 * hashed.latency_mean


def test_queues_by_hand():
    stream, at = np.arange(4.0), np.array([0, 0, 1, 0])  # arrivals at 0, 1, 2, 3
    run = ks.simulate((stream, np.arange(4)), at, service_rate=0.5)
    assert (run.latency_mean, run.latency_max, run.drained) == ((2 + 3 + 2 + 3) / 4, 3, 6)
    run = ks.simulate((stream, np.arange(4), [1, 1, 1, 3]), at, service_rate=[1.0, 0.5])
    assert (run.latency_max, run.drained) == (3, 6)


def test_back_pressure_by_hand():
    """Room for one at each node: the third tuple waits at the source for node 0, and the fourth behind it."""
    run = ks.simulate(([0.0, 0.0, 0.0, 0.0], [0, 1, 0, 1]), [0, 1], service_rate=[0.1, 1], queue=1)
    assert run.latency_mean * 4 == 10 + 1 + 20 + 11


def test_aggregation_by_hand():
    """Both nodes send two counters at 10 s and one at 20 s; each takes a node 1 s and the aggregators 2 s."""
    log = ([1.0, 2, 3, 4, 5, 11, 12], [0, 0, 1, 0, 1, 0, 0])
    sent = np.array([0, 0, 0, 1, 1, 0, 1])
    run = ks.simulate(
        log,
        lambda keys: sent,
        service_rate=10,
        nodes=2,
        aggregation=ks.simulation.Aggregation(10, flush=1, merge=4, nodes=2),
    )
    assert run.counters == 6
    first, second = 10 + 2 + 4, 16 + 4  # the nodes are done at 12 s, the aggregators take theirs one after the other
    third = 20 + 1 + 2
    assert run.merged_mean * 7 == pytest.approx(3 * first + 2 * second + third + third + 2 - sum(log[0]))
    assert run.drained == third + 2


def test_what_is_large_takes_no_memory():
    """A bound that no queue reaches; keys that are hashes."""
    far = np.array([10**15, 3, 10**15, 7])
    log, second = (np.arange(4.0), far), ks.simulation.Aggregation(10)
    run = ks.simulate(log, lambda keys: np.zeros(keys.size, int), service_rate=1, queue=10**12, aggregation=second)
    assert run.counters == 3


def test_a_table_may_replace_a_table():
    w = ks.Workload(load=[600, 300], state=[10, 10], current=[0, 0], home=[0, 0], nodes=2)
    tables = [(10, ks.RoutingTable([1], [1])), (50, ks.RoutingTable([], []))]
    run = ks.simulate(w, None, tables, service_rate=10, window_seconds=100, method="fluid")
    assert run.utilisation.tolist() == pytest.approx([(600 + 300 * 0.6) / 1000, 300 * 0.4 / 1000], rel=0.01)


def test_an_allocation_over_windows_is_a_change_at_each_window():
    load = np.full((2, 2), 30_000.0)  # 500 a second each, of 1000
    calm = ks.simulate(load, [[0, 1], [0, 1]], service_rate=1000, window_seconds=60, arrivals="even")
    assert (calm.latency_mean, calm.latency_max) == pytest.approx((0.001, 0.001))
    assert calm.throughput == pytest.approx(1000, rel=1e-3)
    how = ks.simulation.Migration(
        bandwidth=10_000, state=[5_000, 5_000], pause="nodes"
    )  # 5000 given and 5000 taken: 1 s
    swapped = ks.simulate(load, [[0, 1], [1, 0]], service_rate=1000, window_seconds=60, method="fluid", migration=how)
    assert swapped.latency_max == pytest.approx(1.001)
    assert swapped.latency_mean == pytest.approx(0.001 + (1 + 1) / 2 / 120)  # two seconds from 1 s down to none
    over = ks.simulate(load * 4, [[0, 0], [0, 0]], service_rate=1000, window_seconds=60, method="fluid")
    assert over.throughput == pytest.approx(1000)
    empty = ks.simulate(load * 0, [0, 1], service_rate=1000)
    assert empty.throughput == 0
    assert np.isnan(empty.latency_mean)


def test_same_seed_same_outcome_and_what_is_said():
    runs = [one_node(600, service="exponential", seed=seed) for seed in (1, 1, 2)]
    assert str(runs[0]) == str(runs[1]) != str(runs[2])
    assert str(runs[0]).startswith("simulated (events), not measured: ")
    frame = runs[0].to_frame()
    assert len(frame) == 100
    assert frame["arrived"].sum() * 0.2 == runs[0].tuples
    assert runs[0].as_record()["latency_mean"] == runs[0].latency_mean


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"stream": ([2.0, 1.0], [0, 0])}, r"times\[1\] = 1 comes before times\[0\] = 2: sort the log by time"),
        ({"stream": ([1.0], [0, 0])}, r"keys has shape \(2,\), expected \(1,\)"),
        ({"stream": ([1.0],)}, "stream has 1 parts, expected"),
        ({"stream": [-1.0, 2]}, r"stream\[0, 0\] = -1 must not be negative"),
        ({"stream": ([1.0], [0.5])}, r"keys\[0\] = 0.5 must be a whole key number"),
        ({"routing": None}, "routing is missing"),
        ({"routing": "hash"}, "routing must be nodes, a table"),
        ({"routing": [0, 1, 0]}, r"assignment has shape \(3,\), expected \(2,\)"),
        ({"routing": [0, 5], "nodes": 2}, r"assignment\[1\] = 5 is not a node"),
        ({"routing": [[0, 1], [1, 1]]}, "routing has 2 rows"),
        ({"routing": ks.RoutingTable([0], [1])}, "a routing table needs the hash of every key"),
        ({"routing": lambda keys: keys + 7}, "routing must give a node from 0 to 0 for each of the"),
        ({"service_rate": 0}, r"service_rate\[0\] = 0 must be above 0"),
        ({"service_rate": [1, 2, 3], "nodes": 2}, "service_rate has 3 entries, expected 2"),
        ({"arrivals": "bursty"}, "arrivals = 'bursty' must be 'poisson' or 'even'"),
        ({"method": "heap"}, "method = 'heap' must be one of"),
        ({"method": "fluid", "queue": 3}, "method = 'fluid' cannot do queue, which needs single tuples"),
        ({"method": "fluid", "service": "exponential"}, "cannot do exponential service"),
        ({"queue": 0}, "queue = 0 must be at least 1"),
        ({"window_seconds": 0}, "window_seconds = 0 must be above 0"),
        ({"changes": [(1, "all")]}, r"changes\[0\]: routing must be nodes, a table"),
        ({"changes": [(1, [0, 9])], "nodes": 2}, r"assignment\[1\] = 9 is not a node"),
        ({"routing": lambda keys: keys * 0.5}, "routing must give a node from 0 to 0 for each of the"),
        ({"stream": [1e12, 1e12], "method": "events"}, "2e[+]12 tuples are too many to serve one by one"),
        ({"service_rate": float("nan")}, r"service_rate\[0\] = nan must be finite"),
        ({"changes": [3]}, r"changes\[0\] must be a pair"),
        ({"changes": [(5, [0, 0]), (2, [1, 1])]}, r"changes\[1\] at 2 s comes before the one before it"),
        ({"changes": [(0.1, [1, 1]), (0.2, [0, 0])], "migration": ks.simulation.Migration(bandwidth=0.1)}, "moves again at 0.2 s, before its state"),
        ({"changes": [(0.1, [1, 1])], "routing": "shuffle"}, "changes need an assignment to change"),
        ({"changes": [(0.1, [1, 1])], "migration": ks.simulation.Migration(state=[1])}, "state has 1 entries, expected 2"),
        ({"changes": [(0.1, [1, 1])], "migration": ks.simulation.Migration(state=np.ones((2, 2)))}, "state has 2 rows, expected one for each"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_a_sentence(given, said):
    asked = {"stream": [10.0, 20.0], "routing": [0, 1], "service_rate": 100, **given}
    with pytest.raises(ks.InputError, match=said):
        ks.simulate(asked.pop("stream"), asked.pop("routing"), **asked)


def test_plans_that_do_not_fit_are_refused():
    w = ks.Workload(load=[4, 1, 1], state=[10, 1, 1], current=[0, 0, 1], nodes=2)
    problem = ks.KeyGroupAllocation(w, max_migrations=1)
    plan = ks.plan(problem, ks.solve(problem))
    with pytest.raises(ks.InputError, match="the plan has no bandwidth"):
        ks.simulate(w, None, [(1, plan)], service_rate=10)
    with pytest.raises(ks.InputError, match="begins from another assignment"):
        ks.simulate(w, [1, 1, 1], [(1, ks.plan(problem, ks.solve(problem), bandwidth=1))], service_rate=10)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ks.simulation.Migration(bandwidth=0), "bandwidth = 0 must be above 0"),
        (lambda: ks.simulation.Migration(pause="some"), "pause = 'some' must be one of 'keys', 'nodes', 'all'"),
        (lambda: ks.simulation.Aggregation(0), "period = 0 must be above 0"),
        (lambda: ks.simulation.Aggregation(1, nodes=0), "nodes = 0 must be at least 1"),
    ],
)
def test_options_that_mean_nothing_are_refused(make, said):
    with pytest.raises(ks.InputError, match=said):
        make()
