"""`simulate`: queues at the nodes, tuples that come, an assignment that changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from keyshift.models.base.compiling import sealed
from keyshift.models.base.guards import FrozenArrays, one_of, positive, real, whole
from keyshift.models.base.labels import ordered, unlabelled
from keyshift.models.base.lazily import pd
from keyshift.models.errors import InputError, naming
from keyshift.models.problem import read_assignment
from keyshift.models.routing.table import RoutingTable
from keyshift.models.workload import MOST_NODES, FloatArray, IntArray, Workload
from keyshift.plans.plan import Plan
from keyshift.simulation import queue_kernels as fluid
from keyshift.simulation.changes import (
    ARRIVALS,
    Holds,
    Migration,
    Standstills,
    TupleLog,
    WindowRates,
    read_changes,
    read_stream,
)
from keyshift.simulation.queue_kernels import Counters, Queues, Record, Router, serve


@dataclass(frozen=True, eq=False)
class Simulation(FrozenArrays):
    """Simulated, not measured, throughput and latency under the assumptions of `simulate`.

    A latency is the time from a tuple's arrival until its node has served it, in seconds.

    Attributes
    ----------
    method : str
        "events" (tuple by tuple) or "fluid".
    tuples : float
        Tuples that arrived.
    seconds : float
        How long the stream was.
    drained : float
        When the last tuple was served, in seconds from the start.
    throughput : float
        Tuples served per second while the stream lasted.
    latency_mean, latency_p95, latency_p99, latency_max : float
        Over all tuples, including those served after the end of the stream; in seconds. NaN if none arrived.
    utilisation : ndarray, shape (n,)
        Share of the time, until the last tuple is done, that each node served.
    paused : float
        Seconds that key groups waited for the transfer of their state, summed over the key groups.
    times : ndarray, shape (b,)
        Ends of equal spans of time, in seconds.
    backlog : ndarray, shape (b, n)
        Tuples waiting at each node at these times, or being served.
    arrived : ndarray, shape (b,)
        Tuples that arrived in each span.
    done : ndarray, shape (b,)
        Tuples that were done in it.
    latency : ndarray, shape (b,)
        Mean latency of those that arrived in it, in seconds; NaN where none arrived.
    counters : float
        Partial results that were sent to aggregators; 0 without them.
    merged_mean : float
        Mean time from when a tuple comes until an aggregator has merged the partial result that holds it, in seconds; NaN
        without aggregators.
    """

    method: str
    tuples: float
    seconds: float
    drained: float
    throughput: float
    latency_mean: float
    latency_p95: float
    latency_p99: float
    latency_max: float
    utilisation: FloatArray
    paused: float
    times: FloatArray
    backlog: FloatArray
    arrived: FloatArray
    done: FloatArray
    latency: FloatArray
    counters: float = 0.0
    merged_mean: float = float("nan")

    @property
    def largest_backlog(self) -> float:
        """The largest number of tuples that were waiting or being served, over all nodes, at one of `times`."""
        return float(self.backlog.sum(axis=1).max())

    def to_frame(self) -> pd.DataFrame:
        """One row for each span: seconds (its end), arrived and done (tuples a second), latency (s), backlog (tuples)."""
        width = self.times[0]
        return pd.DataFrame(
            {"seconds": self.times, "arrived": self.arrived / width, "done": self.done / width, "latency": self.latency,
             "backlog": self.backlog.sum(axis=1)}
        )  # fmt: skip

    def as_record(self) -> dict[str, Any]:
        """Everything but the spans of time, as plain numbers; NaN as None."""
        single = {name: value for name, value in self.__dict__.items() if isinstance(value, str | float)}
        plain = {name: None if value != value else value for name, value in single.items()}
        return {**plain, "largest_backlog": self.largest_backlog, "utilisation": self.utilisation.tolist()}

    def __str__(self) -> str:
        return (
            f"simulated ({self.method}), not measured: {self.tuples:,.0f} tuples in {self.seconds:,.6g} s\n"
            f"throughput {self.throughput:,.6g} tuples/s, all done after {self.drained:,.6g} s\n"
            f"latency: mean {said(self.latency_mean)}, 95 % within {said(self.latency_p95)}, "
            f"99 % within {said(self.latency_p99)}, largest {said(self.latency_max)}\n"
            f"largest backlog {self.largest_backlog:,.6g} tuples; utilisation {100 * self.utilisation.min():.1f} to "
            f"{100 * self.utilisation.max():.1f} %"
        )

    __repr__ = __str__


def said(seconds: float) -> str:
    """A time for people: 1.2 ms, 3.4 s."""
    if not np.isfinite(seconds):
        return "unknown"
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:,.3g} s"


@dataclass(frozen=True)
class Aggregation:
    """The second stage of split keys ([Nasir2015], section 3), which merges one partial result for each key and node.

    Parameters
    ----------
    period : float
        Every so many seconds each node sends a counter for every key that it has received since the last time.
    flush : float, default 0
        Seconds that a node needs to send one counter, once its queue is done.
    merge : float, default 0
        Seconds that an aggregator needs to merge one counter.
    nodes : int, default 1
        Number of aggregators; they share the counters evenly.
    """

    period: float
    flush: float = 0.0
    merge: float = 0.0
    nodes: int = 1

    def __post_init__(self) -> None:
        real("period", self.period, optional=False, above=True)
        real("flush", self.flush, optional=False)
        real("merge", self.merge, optional=False)
        whole("nodes", self.nodes, least=1, optional=False)


NEVER = Aggregation(1e300)
"""No second stage: its first period does not end."""


class Setting(NamedTuple):
    """The settings of both kinds of run."""

    rates: FloatArray
    placement: IntArray | None
    holds: Holds
    stands: Standstills
    buffers: bool
    edges: FloatArray


def simulate(
    stream: Any,
    routing: Any = None,
    changes: Sequence[tuple[float, Any]] = (),
    *,
    service_rate: ArrayLike,
    nodes: int | None = None,
    window_seconds: float = 1.0,
    arrivals: Literal["poisson", "even"] = "poisson",
    service: Literal["deterministic", "exponential"] = "deterministic",
    migration: Migration | None = None,
    queue: int | None = None,
    aggregation: Aggregation | None = None,
    method: Literal["auto", "events", "fluid"] = "auto",
    spans: int = 100,
    seed: int = 0,
) -> Simulation:
    """Simulate throughput and latency of a stream on nodes that each serve one queue in order of arrival.

    The simulation has queues, paused key groups and transfers; it has no network, threads or garbage collector.

    Parameters
    ----------
    stream : Workload, array_like of shape (p,) or (m, p), or tuple of array_like
        Tuples of each key group in each window; or a log: seconds in ascending order, keys, and optionally the work of
        each tuple, a factor of its service time.
    routing : array_like of int, RoutingTable, callable or "shuffle", optional
        Node of each key group, shape (p,), or in each window, shape (m, p); a table, together with a workload with
        `home`; a function from an array of keys to their nodes, such as `Partitioner.feed`; or "shuffle", each node in
        turn. By default the current nodes of the workload.
    changes : sequence of (float, array_like, RoutingTable or Plan)
        At these seconds, in order: another assignment, shape (p,), or table; several assignments, shape (phases, p),
        each applied as soon as the state of the one before has arrived; or a plan, with its own schedule.
    service_rate : float or array_like, shape (n,)
        Tuples a second that a node serves; one number is multiplied by the workload's capacities.
    nodes : int, optional
        Number of nodes; by default the workload's, the length of `service_rate`, or as many as routing and changes name.
    window_seconds : float, default 1
        How long a window of the workload is.
    arrivals : {"poisson", "even"}, default "poisson"
        How tuples are drawn from windows: at random, or those of each key group at equal distances.
    service : {"deterministic", "exponential"}, default "deterministic"
        Whether service times are constant or random.
    migration : Migration, optional
        How state is transferred when the assignment changes. By default a transfer takes no time, except in plans,
        whose transfers have times.
    queue : int, optional
        The most tuples at a node, including the one in service. If the queue is full, the source stops until there is
        room (back-pressure). By default queues are unlimited.
    aggregation : Aggregation, optional
        The second stage of split keys.
    method : {"auto", "events", "fluid"}, default "auto"
        "events" serves tuple by tuple, in about 100 bytes and less than a microsecond each. "fluid" treats tuples as a
        fluid: deterministic, exact for any number of tuples, but without exponential service, limits on queues,
        aggregation or logs. "auto" chooses events up to 20 million tuples, and where a fluid is not possible.
    spans : int, default 100
        Number of equal spans of time for which results are recorded.
    seed : int, default 0

    Returns
    -------
    Simulation

    Raises
    ------
    InputError

    Notes
    -----
    Events follow Lindley's recursion: a node begins to serve a tuple when the tuple has arrived and the one before is
    done. A service that has begun when its node is paused is finished. With even arrivals and deterministic service, both kinds
    agree but for a few tuples' service times; with one node, Poisson arrivals and a utilisation of rho, events have the means
    of M/D/1, rho / (2 - 2 rho) service times of waiting, and of M/M/1, twice that, where a fluid does not wait at all.

    Examples
    --------
    A node at half of its capacity is paused for two seconds: the first tuple waits 2 s, and the node needs 2 s to catch
    up.

    >>> import keyshift as ks
    >>> run = ks.simulate([10_000], [0], [(5, [1])], service_rate=1000, window_seconds=20, method="fluid",
    ...                   migration=ks.simulation.Migration(bandwidth=0.5))
    >>> round(run.latency_max, 3), round(run.largest_backlog), run.paused
    (2.001, 1000, 2.0)
    """
    for name, value, known in (("arrivals", arrivals, ARRIVALS), ("service", service, ("deterministic", "exponential")),
                               ("method", method, ("auto", "events", "fluid"))):  # fmt: skip
        one_of(name, value, known)
    bound = whole("queue", queue, least=1) or 0
    count = whole("spans", spans, least=1, optional=False)
    read = read_stream(stream, real("window_seconds", window_seconds, optional=False, above=True) or 1.0)
    workload = stream if isinstance(stream, Workload) else None
    chance = service == "exponential"
    kind = _kind(method, read, [("a log", isinstance(read, TupleLog)), ("exponential service", chance), ("queue", bool(bound)),
                                ("aggregation", aggregation is not None), ("a scheme", callable(routing))])  # fmt: skip
    setting = _setting(read, workload, routing, changes, service_rate, nodes, migration or Migration(), count)
    paused = float((setting.holds.release[setting.holds.group] - setting.holds.start).sum())
    if kind == "fluid":
        assert isinstance(read, WindowRates)
        return _as_fluid(read, setting, paused)
    rng = np.random.default_rng(seed)
    log = read if isinstance(read, TupleLog) else read.draw(arrivals, rng)
    if chance:
        drawn = rng.standard_exponential(log.times.size)
        log = log._replace(work=drawn * log.work if log.work.size else drawn)
    return _by_events(log, setting, routing, bound, aggregation, paused)


def _kind(method: str, read: TupleLog | WindowRates, needs: list[tuple[str, bool]]) -> str:
    needed = [name for name, there in needs if there]
    if method == "fluid" and needed:
        raise InputError(f"method = 'fluid' cannot do {needed[0]}, which needs single tuples: use method='events'")
    # Tuples that are refused in any case: they would take about 100 bytes each.
    if method == "events" and isinstance(read, WindowRates) and read.tuples > 2_000_000_000:
        raise InputError(f"{read.tuples:.3g} tuples are too many to serve one by one: use method='fluid'")
    if method != "auto":
        return method
    # Tuples up to which "auto" serves them one by one.
    return "fluid" if not needed and isinstance(read, WindowRates) and read.tuples > 20_000_000 else "events"


def _setting(
    read: TupleLog | WindowRates, workload: Workload | None, routing: Any, changes: Sequence[tuple[float, Any]],
    service_rate: ArrayLike, nodes: int | None, how: Migration, spans: int,
) -> Setting:  # fmt: skip
    """Read the route and its changes; the number of nodes is the largest that anything says."""
    p = read.load.shape[1] if isinstance(read, WindowRates) else int(read.keys.max()) + 1
    placed = not (callable(routing) or (isinstance(routing, str) and routing == "shuffle"))
    rows = _rows(routing, workload) if placed else np.empty((0, p))
    if placed and isinstance(read, TupleLog) and rows.ndim == 2:
        p = max(p, rows.shape[1])  # a log need not name the last key groups
    changes = [_change(f"changes[{c}]", change, workload) for c, change in enumerate(changes)]
    targets = [what.target if isinstance(what, Plan) else what for _, what in changes]
    if workload is not None:
        service_rate = ordered("service_rate", service_rate, workload.node_names, workload.nodes, "nodes")
    given = positive("service_rate", np.ravel(unlabelled("service_rate", service_rate)))
    n = whole("nodes", nodes, least=1, most=MOST_NODES)
    if n is None:
        n = max([given.size, workload.nodes if workload else 1, *(_highest(one) + 1 for one in (rows, *targets))])
    if given.size not in (1, n):
        raise InputError(f"service_rate has {given.size} entries, expected {n}: one for each node")
    speed = np.ones(n)
    if given.size == 1 and workload is not None:
        speed[: workload.nodes] = workload.capacity[:n]
    if not placed:
        if len(changes):
            raise InputError("changes need an assignment to change: routing is a scheme")
        none, stay = read_changes((), np.empty(0, np.int64), n, how, None)
        return Setting(given * speed, None, none, stay, True, _edges(read.seconds, spans))
    if rows.ndim != 2 or rows.shape[0] < 1:
        raise InputError(f"routing has shape {rows.shape}, expected ({p},): one node for each key group")
    placement = read_assignment(rows[0], p, n)
    if len(rows) > 1:
        if not isinstance(read, WindowRates) or len(rows) != read.load.shape[0] or len(changes):
            raise InputError(f"routing has {len(rows)} rows: that needs a stream of as many windows, and no changes")
        changes = [(t * read.window_seconds, row) for t, row in enumerate(rows) if t]
    holds, stands = read_changes(changes, placement, n, how, None if workload is None else workload.state)
    return Setting(given * speed, placement, holds, stands, how.buffers, _edges(read.seconds, spans))


def _rows(routing: Any, workload: Workload | None) -> IntArray:
    if isinstance(routing, RoutingTable):
        if workload is None or workload.home is None:
            raise InputError("a routing table needs the hash of every key: a workload with home")
        return routing.assignment(workload.home)[None]
    if routing is None:
        if workload is None:
            raise InputError("routing is missing: only a workload says where its key groups run")
        return workload.current[None]
    try:
        nodes = getattr(routing, "assignment", routing)
        if workload is not None:
            nodes = ordered("routing", nodes, workload.keys, workload.key_groups)
        given = np.asarray(unlabelled("routing", nodes))
    except ValueError:  # rows of different lengths
        given = np.asarray(None)
    if given.dtype.kind not in "iuf":
        raise InputError("routing must be nodes, a table, 'shuffle' or what gives nodes for keys")
    return np.atleast_2d(given)


def _change(name: str, given: Any, workload: Workload | None) -> tuple[float, Any]:
    """A moment, and a plan or assignments, shape (phases, p)."""
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise InputError(f"{name} must be a pair (seconds, assignment or plan)")
    when, what = real(f"{name}[0]", given[0], optional=False), given[1]
    if isinstance(what, Plan):
        return when, what
    with naming(name):
        return when, _rows(what, workload)


def _highest(nodes: Any) -> int:
    given = np.asarray(nodes)
    return int(given.max()) if given.size and given.dtype.kind in "iuf" and np.isfinite(given).all() else -1


def _edges(seconds: float, spans: int) -> FloatArray:
    return np.linspace(0.0, seconds or 1.0, spans + 1)


def _by_events(
    log: TupleLog, s: Setting, routing: Any, bound: int, second: Aggregation | None, paused: float
) -> Simulation:
    m, n, spans = log.times.size, s.rates.size, s.edges.size - 1
    sent = np.empty(0, np.int64)
    if s.placement is None:
        sent = np.asarray(routing(log.keys)) if callable(routing) else np.arange(m) % n
        if sent.shape != (m,) or sent.dtype.kind not in "iu" or (m and (sent.min() < 0 or sent.max() >= n)):
            raise InputError(f"routing must give a node from 0 to {n - 1} for each of the {m} tuples")
    if second and s.placement is None:  # counters of the keys that come, not up to the highest
        log = log._replace(keys=np.unique(log.keys, return_inverse=True)[1])
    log = TupleLog(sealed(log.times), sealed(log.keys), sealed(log.work), log.seconds)
    bound = bound if bound < m else 0
    p, none, some = int(log.keys.max(initial=-1)) + 1, np.empty(0, np.int64), second or NEVER
    counters = Counters(
        float(some.period), float(some.flush), some.merge / some.nodes, np.zeros((n, p) if second else (0, 0), np.int32),
        np.zeros((2, n), np.int64), np.zeros(3),
    )  # fmt: skip
    first = s.stands.first[:-1].copy()
    queues = Queues(1 / s.rates, np.zeros(n), np.zeros(n), first, np.zeros(n, np.int64), np.zeros((n, bound)))
    placement = none if s.placement is None else s.placement
    router = Router(sealed(sent), placement, np.full(placement.size, -1), s.buffers)
    arrivals, gone = np.zeros((2, spans, n), np.int64)
    record = Record(np.empty(m), float(s.edges[1]), arrivals, gone, np.zeros(spans))
    serve(log, router, s.holds, s.stands, queues, counters, record)
    drained = float(max(queues.free.max(), counters.sums[1]))
    figures = np.quantile(record.latency, (0.95, 0.99), method="inverted_cdf") if m else np.full(2, np.nan)
    over = (record.arrived.astype(float), record.done.astype(float), record.delay)
    mean, most = (record.latency.mean(), record.latency.max()) if m else (np.nan, np.nan)
    merged = (counters.sums[2] - log.times.sum()) / m if second and m else np.nan
    latencies = mean, *figures, most
    return _outcome("events", m, s, drained, latencies, queues.busy, over, paused, counters.sums[0], merged)


def _as_fluid(rates: WindowRates, s: Setting, paused: float) -> Simulation:
    edges = np.concatenate([s.edges, s.stands.start, s.stands.end])
    flow = fluid.inflow(rates, s.placement, s.holds, s.rates.size, s.buffers, edges)
    out = fluid.serve_fluid(flow, s.rates, s.stands)
    n, spans, own = s.rates.size, s.edges.size - 1, 1 / s.rates[out.node]
    span = np.minimum(np.searchsorted(s.edges, out.created.mean(axis=1), side="right") - 1, spans - 1)
    arrived, done = np.zeros((spans, n)), np.zeros((spans, n))
    np.add.at(arrived, (span, out.node), out.volume)
    for i in range(n):
        mine = out.node == i
        done[:, i] = np.diff(fluid.at_times(s.edges, out.left[mine], out.volume[mine]))
    waits = np.maximum(out.left - out.created, 0.0) + own[:, None]
    delay = np.bincount(span, out.volume * waits.mean(axis=1), spans)
    total = float(out.volume.sum())
    figures = (np.nan,) * 4
    if total:
        low, high = waits.min(axis=1), waits.max(axis=1)
        shares = [fluid.quantile(low, high, out.volume, share) for share in (0.95, 0.99)]
        figures = (delay.sum() / total, *shares, waits.max())
    drained = float((out.left[:, 1] + own).max(initial=0.0))
    busy = np.bincount(out.node, out.volume, n) / s.rates
    return _outcome("fluid", total, s, drained, figures, busy, (arrived, done, delay), paused)


def _outcome(
    kind: str, tuples: float, s: Setting, drained: float, figures: tuple[float, ...], busy: FloatArray,
    over: tuple[FloatArray, FloatArray, FloatArray], paused: float, counters: float = 0.0, merged: float = np.nan,
) -> Simulation:  # fmt: skip
    seconds, (arrived, done, delay) = float(s.edges[-1]), over
    arrivals = arrived.sum(axis=1)
    latency = np.divide(delay, arrivals, out=np.full(arrivals.size, np.nan), where=arrivals > 0)
    mean, p95, p99, most = map(float, figures)
    return Simulation(
        kind, float(tuples), seconds, drained, float(done.sum() / seconds), mean, p95, p99, most,
        busy / max(seconds, drained), paused, s.edges[1:].copy(), (arrived - done).cumsum(axis=0), arrivals,
        done.sum(axis=1), latency, float(counters), float(merged),
    )  # fmt: skip
