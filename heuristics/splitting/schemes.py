"""The schemes of [Nasir2015] as methods: each decides for the whole stream of a problem."""

from __future__ import annotations

from typing import Any

import numpy as np

from keyshift.heuristics.splitting.partitioner import Estimate, Partitioner, Scheme
from keyshift.heuristics.splitting.scheme_kernels import offline_order
from keyshift.models import Answer, Budget
from keyshift.models.base.guards import Count, NonNegative, Positive, frozen, whole
from keyshift.models.splitting import KeySplitting
from keyshift.models.splitting.data import parts
from keyshift.models.splitting.hashing import candidates
from keyshift.models.splitting.stream import room_for_assignment


def hashing(problem: KeySplitting, *, budget: Budget, seed: int = 0) -> Answer:
    """Key grouping: every key to its first candidate. No guarantee; O(1) a message, no memory."""
    return _partitioned(problem, budget, "hash")


def shuffle(problem: KeySplitting, *, budget: Budget, seed: int = 0) -> Answer:
    """Shuffle grouping: every source deals its messages round robin. Imbalance below 1 message a source.

    It ignores the candidates, so it answers the problem without (2). O(1) a message.
    """
    return _partitioned(problem, budget, "shuffle")


def pkg(
    problem: KeySplitting,
    *,
    budget: Budget,
    seed: int = 0,
    estimate: Estimate = "local",
    probe_every: Count | None = None,
) -> Answer:
    """Partial key grouping: every message to the less loaded of its key's first two candidates.

    Parameters
    ----------
    estimate : {"local", "global"}, default "local"
        A source goes by what it sent itself (L), or by the true loads (G). One source cannot tell the difference.
    probe_every : int, optional
        With "local": every so many messages all sources learn the true loads (LP).

    Notes
    -----
    Source: [Nasir2015], sections 3 and 5. Theorem 5.1: if no key has more than 1/(5 W) of the messages and there are
    m >= W^2 of them, the imbalance is O(m/W) for d = 2 and O(m/W ln W / ln ln W) for d = 1, with probability 1 - 1/W.
    Uniform keys, 5 W of them, attain both orders: the bounds are tight. The proof rests on an expander property: for no
    set B of at most W/5 workers have the keys whose candidates all lie in B more than |B|/W of the messages (Lemmas 5.4
    and 5.5). With local loads the imbalance is at most the sum of the sources' own (section 3.2), since the largest sum
    is at most the sum of the largest. O(1) a message, S W counters.
    """
    return _partitioned(problem, budget, "pkg", estimate=estimate, probe_every=probe_every)


def greedy_d(
    problem: KeySplitting,
    *,
    budget: Budget,
    seed: int = 0,
    d: Count | None = None,
    estimate: Estimate = "local",
    probe_every: Count | None = None,
) -> Answer:
    """Greedy-d with key splitting: every message to the least loaded of its key's first d candidates.

    Parameters
    ----------
    d : int, optional
        The problem's `choices` by default. With more, it answers the problem without (2).
    estimate, probe_every
        As for "pkg".

    Notes
    -----
    Source: [Nasir2015], section 5. d = 1 is hashing, d = 2 PKG. O(d) a message.
    """
    d = whole("d", d, least=1)
    return _partitioned(
        problem, budget, "greedy-d", problem.choices if d is None else d, estimate=estimate, probe_every=probe_every
    )


def potc(
    problem: KeySplitting,
    *,
    budget: Budget,
    seed: int = 0,
    estimate: Estimate = "local",
    probe_every: Count | None = None,
) -> Answer:
    """Static power of two choices: a key's first message picks the less loaded candidate, where the key then stays.

    No guarantee; O(1) a message, but a routing table of all keys, on which the sources have to agree.

    Notes
    -----
    Source: [Nasir2015], section 3.1. As many candidates as the problem has choices; two if it has no candidates.
    """
    choices = 2 if problem.choices is None else problem.choices
    return _partitioned(problem, budget, "potc", choices, estimate=estimate, probe_every=probe_every)


def on_greedy(
    problem: KeySplitting,
    *,
    budget: Budget,
    seed: int = 0,
    estimate: Estimate = "local",
    probe_every: Count | None = None,
) -> Answer:
    """On-Greedy: a key's first message goes to the least loaded of all workers, where the key then stays.

    It ignores the candidates. No guarantee: a key's weight is not known when it is placed. O(1) a message, O(W) a
    key, and a routing table of all keys.

    Notes
    -----
    Source: [Nasir2015], section 6.2, Q1.
    """
    return _partitioned(problem, budget, "on-greedy", estimate=estimate, probe_every=probe_every)


def off_greedy(problem: KeySplitting, *, budget: Budget, seed: int = 0) -> Answer:
    """Off-Greedy: keys by decreasing weight, each to the then least loaded of all workers.

    It ignores the candidates, and needs the whole stream beforehand. Within 4/3 - 1/(3 W) of the best placement
    on equal workers without candidates [Graham1969]. O(K log K + K W) for K keys.

    Notes
    -----
    Source: [Nasir2015], section 6.2, Q1.
    """
    return _offline(problem, budget, within=False)


def off_greedy_d(problem: KeySplitting, *, budget: Budget, seed: int = 0) -> Answer:
    """Off-Greedy among candidates: keys by decreasing weight, each to the then least loaded of its candidates.

    Ours, to start from where placement has to keep to the candidates. No constant guarantee. O(K (log K + d)).
    """
    return _offline(problem, budget, within=True)


def d_choices(
    problem: KeySplitting,
    *,
    budget: Budget,
    seed: int = 0,
    threshold: Positive | None = None,
    slack: NonNegative = 1e-4,
    counters: Count | None = None,
    estimate: Estimate = "local",
    probe_every: Count | None = None,
) -> Answer:
    """D-Choices: frequent keys get as many candidates as balance needs, all others two.

    Each source finds its frequent keys by SpaceSaving. With more candidates than the problem has, it answers the
    problem without (2).

    Parameters
    ----------
    threshold, slack, counters
        As for `Partitioner`.
    estimate, probe_every
        As for "pkg".

    Notes
    -----
    Source: [Nasir2016], sections III and IV.
    """
    return _partitioned(
        problem, budget, "d-choices", threshold=threshold, slack=slack, counters=counters,
        estimate=estimate, probe_every=probe_every,
    )  # fmt: skip


def w_choices(
    problem: KeySplitting,
    *,
    budget: Budget,
    seed: int = 0,
    threshold: Positive | None = None,
    counters: Count | None = None,
    estimate: Estimate = "local",
    probe_every: Count | None = None,
) -> Answer:
    """W-Choices: frequent keys go to the least loaded of all workers, all others to one of two candidates.

    Parameters
    ----------
    threshold, counters
        As for `Partitioner`.
    estimate, probe_every
        As for "pkg".

    Notes
    -----
    Source: [Nasir2016], section III.
    """
    return _partitioned(
        problem, budget, "w-choices", threshold=threshold, counters=counters, estimate=estimate, probe_every=probe_every
    )


def _partitioned(
    problem: KeySplitting, budget: Budget, scheme: Scheme, choices: int | None = 2, **options: Any
) -> Answer:
    """Feed a problem's stream to a partitioner. A stream cut short by a limit is not an answer: nothing was decided."""
    partitioner = Partitioner(
        scheme,
        problem.speeds,
        choices,
        sources=problem.sources,
        feed=problem.feed,
        hash_seed=problem.hash_seed,
        **options,
    )
    assignment = room_for_assignment(problem.stream)
    for where, keys, weights in parts(problem):
        if budget.expired:
            why = f"stopped after {where.start} of {problem.messages} messages"
            return Answer(None, termination=budget.why, message=why)
        by = None if problem.source_keys is None else problem.source_keys[where]
        partitioner.feed(keys, weights, by, out=assignment[where])
    if not problem.one_place and _keeps_to(problem, scheme, choices):
        return Answer(frozen(assignment))
    return _kept_or_relaxed(problem, assignment)


def _keeps_to(problem: KeySplitting, scheme: Scheme, choices: int | None) -> bool:
    """Whether a scheme cannot but keep to the candidates, so that one look at every message is saved."""
    used = {"hash": 1, "pkg": 2, "greedy-d": choices}.get(scheme)
    return used is not None and (problem.choices is None or used <= problem.choices)


def _offline(problem: KeySplitting, budget: Budget, within: bool) -> Answer:
    known = problem.histogram
    order = np.argsort(-known.weight, kind="stable")
    if within and problem.choices is not None:
        options = candidates(known.keys, problem.workers, problem.choices, problem.hash_seed)
    else:
        options = np.zeros((1, 0), dtype=np.int32)
    place_of = offline_order(known.weight, order, options, problem.speeds)
    assignment = room_for_assignment(problem.stream)
    for where, keys, _ in parts(problem):
        if budget.expired:
            return Answer(None, termination=budget.why, message=f"stopped after {where.start} messages")
        assignment[where] = place_of[problem.index.find(keys)]
    return _kept_or_relaxed(problem, assignment)


def _kept_or_relaxed(problem: KeySplitting, assignment: np.ndarray) -> Answer:
    """The answer, and the problem that it answers: with fewer rules than asked, where it breaks one."""
    broken = {v.rule for v in problem.violations(assignment)}
    if not broken:
        return Answer(assignment)
    ignored = {"candidates": f"the {problem.choices} candidates of a key", "one_place": "that a key stays in one place"}
    relaxed = problem.relaxed(broken)
    return Answer(assignment, problem=relaxed, message=f"ignores {' and '.join(ignored[b] for b in sorted(broken))}")
