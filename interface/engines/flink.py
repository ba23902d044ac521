"""Flink: from its REST API to a workload, its own arithmetic of keys, and what can be changed there.

Flink does not let users choose where a key group runs: subtask i of p runs the i-th of p ranges. A user can choose the
parallelism, the max parallelism, and - for a stream that is not keyed - a partitioner of one's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from keyshift.engines import flink_partitioner
from keyshift.engines.flink_partitioner import Routing
from keyshift.engines.flink_rest import Seen, read_rest, read_saved
from keyshift.engines.formats import as_json, entries_of, table_of
from keyshift.models import Budget, Solution
from keyshift.models.base import guards
from keyshift.models.base.disk import shown, write_text
from keyshift.models.base.labels import aligned
from keyshift.models.base.lazily import pd
from keyshift.models.errors import InputError, needing, refusing
from keyshift.models.intervals import IntervalMigration
from keyshift.models.intervals.flink_ranges import default_ranges
from keyshift.models.routing import RoutingTable
from keyshift.models.workload import FloatArray, IntArray, Workload
from keyshift.solvers.intervals.ssm import solve_ssm

__all__ = [
    "advise", "default_max_parallelism", "default_ranges", "homes", "key_groups", "loads_of", "max_parallelism_options",
    "partitioner", "partitioner_file", "read_workload", "routing", "subtasks", "workload_of", "write_routing",
]  # fmt: skip

SPREAD = "Flink reports figures per subtask, not per key group: each subtask's figures are spread evenly over its key groups."
"""Every import says this, unless more is known."""


def read_workload(
    rest: str | None = None,
    job: str | None = None,
    *,
    saved: str | Path | None = None,
    vertex: str | None = None,
    load: Literal["records", "busy"] = "records",
    shares: ArrayLike | None = None,
    keep: str | Path | None = None,
) -> Workload:
    """Read a workload from one vertex of a running job: a key group for each of Flink's, a node for each subtask.

    Parameters
    ----------
    rest, job : str
        Address of the REST API, and the job's id; or `saved`.
    saved : str or Path
        A folder of the same JSON, as `keep` leaves it.
    vertex : str, optional
        Id or name; needed unless there is only one after the sources.
    load : {"records", "busy"}
        Records read, or milliseconds busy, since the subtask began.
    shares : array_like of shape (max parallelism,), optional
        Relative load of the key groups, for example from `loads_of` a sample of keys: a subtask's figures are divided
        in proportion. Default: evenly.
    keep : str or Path, optional
        A folder in which to keep the answers.

    Raises
    ------
    InputError
        Names the answer, and the field, position and value that are wrong.
    """
    if saved is None:
        if rest is None or job is None:
            raise InputError(
                "give the address of the REST API and a job id (rest=, job=), or a folder of saved answers (saved=)"
            )
        return workload_of(read_rest(rest, job, vertex, keep), load, shares)
    if rest is not None or job is not None:
        raise InputError("give either an address and a job id, or a folder of saved answers")
    return workload_of(read_saved(saved, vertex), load, shares)


def workload_of(seen: Seen, load: Literal["records", "busy"] = "records", shares: ArrayLike | None = None) -> Workload:
    """A workload of what was seen of a vertex; see `read_workload`."""
    guards.one_of("load", load, ("records", "busy"))
    groups, count = seen.vertex.maxParallelism, seen.vertex.parallelism
    current = subtasks(np.arange(groups), count, groups)
    part = _parts(current, count, shares)
    figures = seen.records if load == "records" else seen.busy
    state = (0.0,) * count if seen.states is None else seen.states
    loads, states = (np.array(of_subtask, dtype=float)[current] * part for of_subtask in (figures, state))
    return Workload(load=loads, state=states, current=current, nodes=count)


def _parts(current: np.ndarray, count: int, shares: ArrayLike | None) -> FloatArray:
    """The part of each key group in its subtask's figures."""
    given = np.ones(current.size) if shares is None else guards.non_negative("shares", shares, length=current.size)
    whole = np.bincount(current, weights=given, minlength=count)
    sizes = np.bincount(current, minlength=count)
    return np.where(whole[current] > 0, given / np.where(whole > 0, whole, 1.0)[current], 1.0 / sizes[current])


# What can be changed ----------------------------------------------------------------------------------------------


def advise(workload: Workload, parallelisms: Iterable[int]) -> pd.DataFrame:
    """Compare parallelisms: state moved and load with Flink's ranges, and the least state that ranges as even move.

    Parameters
    ----------
    workload : Workload
        Of `read_workload`.
    parallelisms : iterable of int

    Returns
    -------
    DataFrame
        One row each: ``parallelism``; ``most``, ``least``: key groups of a subtask; ``max_load``, ``imbalance``: of the
        busiest subtask, and its excess over the mean as a share of the mean; ``state_moved``: by Flink's own ranges,
        subtasks keeping their numbers; ``least_state_moved``: by the proven optimal single-step migration ([Ding2015])
        to as many subtasks, none of which carries more than Flink's busiest.
    """
    groups, rows = workload.key_groups, []
    total = sum(map(Fraction, workload.last_load.tolist()), Fraction(0))
    for wanted in parallelisms:
        count = guards.whole("parallelism", wanted, least=1, most=groups, optional=False)
        after = subtasks(np.arange(groups), count, groups)
        sizes = np.bincount(after, minlength=count)
        sums = [Fraction(0)] * count
        for node, value in zip(after.tolist(), workload.last_load.tolist(), strict=True):
            sums[node] += Fraction(value)
        over = max(sums) * count / total - 1 if total else Fraction(0)
        best = solve_ssm(problem := IntervalMigration(workload, count, over), budget=Budget()).assignment
        assert best is not None, "Flink's own ranges are one answer"
        rows.append(
            {
                "parallelism": count,
                "most": int(sizes.max()),
                "least": int(sizes.min()),
                "max_load": float(max(sums)),
                "imbalance": float(over),
                "state_moved": float(workload.state[after != workload.current].sum()),
                "least_state_moved": problem.objective(best),
            }
        )
    return pd.DataFrame(rows)


def max_parallelism_options(parallelism: int, candidates: Sequence[int] | None = None) -> pd.DataFrame:
    """How unevenly a max parallelism divides among subtasks, for keys that spread evenly over key groups.

    Parameters
    ----------
    parallelism : int
    candidates : sequence of int, optional
        Default: Flink's default (FLINK-21695: as few as 1.5 key groups a subtask), the multiples of the parallelism next to
        it, and 2, 4, 8 and 16 times as many.

    Returns
    -------
    DataFrame
        ``max_parallelism``, ``most``, ``least``: key groups of a subtask; ``imbalance``: by what share of the mean the largest
        subtask is above it.
    """
    count = guards.whole("parallelism", parallelism, least=1, optional=False)
    if candidates is None:
        first = default_max_parallelism(count)
        near = [first // count * count, -(-first // count) * count]
        candidates = sorted({v for v in [first, *near, *(first * f for f in (2, 4, 8, 16))] if count <= v <= 32_768})
    rows = []
    for candidate in candidates:
        most = guards.whole("max_parallelism", candidate, least=1, most=MOST_KEY_GROUPS, optional=False)
        sizes = np.bincount(subtasks(np.arange(most), count, most), minlength=count)
        rows.append((most, int(sizes.max()), int(sizes.min()), float(sizes.max() * count / most - 1)))
    return pd.DataFrame(rows, columns=["max_parallelism", "most", "least", "imbalance"])


# Routing ----------------------------------------------------------------------------------------------------------


def routing(
    plan: RoutingTable | Solution | str, *, labels: Sequence[str | int] | None = None, choices: int = 2, seed: int = 0
) -> Routing:
    """The decisions of `partitioner`, without Flink: ``routing(...).partition(key, workers)``; see there."""
    entries: dict[str | int, int] = {}
    scheme = "table"
    if isinstance(plan, str):
        scheme = plan
    else:
        table, known = table_of(plan) if isinstance(plan, Solution) else (plan, None)
        if table is None:
            about = plan.problem.name if isinstance(plan, Solution) else ""
            raise InputError(f"a solution of mixed routing has a table to route by, one of {about} has none")
        entries = dict(entries_of(table, labels or known))
    with refusing("{reason}", ValueError):
        return Routing(scheme, entries, choices, seed)


def partitioner(plan: RoutingTable | Solution | str, **options: Any) -> Any:
    """A PyFlink ``Partitioner`` for ``DataStream.partition_custom``.

    Parameters
    ----------
    plan : RoutingTable, Solution of mixed routing, or {"hash", "shuffle", "pkg", "greedy-d", "d-choices"}
        A table's exceptions, and the hash for all other keys; or a scheme of key splitting, in which each sending
        subtask counts what it has sent itself.
    **options
        ``labels``: the key at each position of the table; ``choices``: d of "greedy-d"; ``seed``: of the hash.

    Raises
    ------
    MissingDependencyError
        Where PyFlink is not installed: it is imported here, not before.

    Notes
    -----
    The hash is BLAKE2b of the key's text, 8 bytes of it, keyed with the seed: the same on every machine and in every
    run, unlike Python's own; it is not the hash of Flink's ``keyBy``. Where keyshift itself is not installed - PyFlink pins
    other versions of its libraries - write the decisions with `write_routing`, and load them with the one file that
    `partitioner_file` names.
    """
    with needing("pyflink", "flink.partitioner needs PyFlink: pip install apache-flink"):
        return flink_partitioner.pyflink(routing(plan, **options))


def write_routing(plan: RoutingTable | Solution | str, path: str | Path, **options: Any) -> None:
    """Write the decisions of `partitioner` as JSON, for a PyFlink program that runs where keyshift is not installed.

    `keyshift.engines.flink_partitioner` - one file of the standard library alone - loads it there.
    """
    write_text(path, as_json(routing(plan, **options).as_record()))


def homes(keys: Sequence[str | int], workers: int, seed: int = 0) -> IntArray:
    """The node that `partitioner`'s hash gives each key: the `Workload.home` for its routing table."""
    count = guards.whole("workers", workers, least=1, optional=False)
    rule = Routing("hash", seed=seed)
    return np.array([rule.candidates(key, count)[0] for key in keys], dtype=np.int64)


def partitioner_file() -> str:
    """The file that Flink's Python workers need."""
    return str(Path(flink_partitioner.__file__))


# Flink's own arithmetic: from a key to its key group, from a key group to the subtask that runs it ---------------------

MOST_KEY_GROUPS = 32_768
"""Flink's own limit on the max parallelism."""

Kind = Literal["int", "long", "string"]
_TYPES = {"int": "int32", "long": "int64", "string": "string"}
"""What PyArrow calls them."""


def key_groups(
    keys: Sequence[str] | ArrayLike, max_parallelism: int = 128, kind: Kind = "string", row: bool = False
) -> IntArray:
    """The key group of each key: ``MathUtils.murmurHash(key.hashCode()) % maxParallelism``.

    Parameters
    ----------
    keys : sequence
    max_parallelism : int, default 128
    kind : {"int", "long", "string"}
        Java's type of the key: Integer, Long or String.
    row : bool, default False
        Hash ``Row.of(key)``, as PyFlink's ``key_by`` does, and not the key itself, as Java's does.

    Raises
    ------
    InputError
        For a null, and for a key that is not of the type.
    """
    groups = guards.whole("max_parallelism", max_parallelism, least=1, most=MOST_KEY_GROUPS, optional=False)
    guards.one_of("kind", kind, _TYPES)
    listed = keys.tolist() if isinstance(keys, np.ndarray) else list(keys)  # type: ignore[arg-type]
    for position, key in enumerate(listed):
        if key is None:
            raise InputError(f"keys[{position}] is null: Flink has no key group for it")
        if not _fits(key, kind):
            raise InputError(f"keys[{position}]: the key {shown(key)} is not {'an' if kind == 'int' else 'a'} {kind}")
    from keyshift.models.base.arrow import pa
    from keyshift.spark_stats.hashing import flink_murmur, java_hash_code

    with refusing("a key is not a text that UTF-8 can hold", pa.ArrowException, UnicodeEncodeError):
        array = pa.array(listed, _TYPES[kind])
    codes = java_hash_code(array)
    if row:
        # Flink's ``Row.of(key).hashCode()`` less ``key.hashCode()``: 31 for the kind of the row, 31 for the array of one.
        codes = (codes.view(np.uint32) + np.uint32(62)).view(np.int32)
    return (flink_murmur(codes) % groups).astype(np.int64)


def _fits(key: object, kind: str) -> bool:
    if kind == "string":
        return isinstance(key, str)
    bits = 31 if kind == "int" else 63
    return isinstance(key, int) and not isinstance(key, bool) and -(2**bits) <= key < 2**bits


def subtasks(groups: ArrayLike, parallelism: int, max_parallelism: int = 128) -> IntArray:
    """The subtask that runs each key group: ``keyGroup * parallelism / maxParallelism``, rounded down.

    The ranges of all subtasks are `keyshift.models.intervals.flink_ranges.default_ranges`.
    """
    most = guards.whole("max_parallelism", max_parallelism, least=1, most=MOST_KEY_GROUPS, optional=False)
    guards.whole("parallelism", parallelism, least=1, most=most, optional=False)
    found = np.asarray(groups, dtype=np.int64)
    if found.size and not (found.min() >= 0 and found.max() < most):
        raise InputError(f"key groups are numbered 0 to {most - 1}")
    return found * parallelism // most


def default_max_parallelism(parallelism: int) -> int:
    """Flink's default: 1.5 times the parallelism, up to the next power of two, within 128 and 32,768."""
    wanted = parallelism + parallelism // 2
    return min(max(1 << max(wanted - 1, 0).bit_length(), 128), MOST_KEY_GROUPS)


def loads_of(groups: ArrayLike, weights: ArrayLike | None = None, max_parallelism: int = 128) -> FloatArray:
    """Load of each key group: how many keys, or the sum of their weights, shape (max_parallelism,)."""
    both = aligned({"groups": groups, "weights": weights}, what="")[0]
    groups, weights = both["groups"], both.get("weights")
    found = guards.indices("groups", groups, length=np.size(groups), upper=max_parallelism, what="key group")
    given = None if weights is None else guards.non_negative("weights", weights, length=found.size, of="keys")
    return np.bincount(found, weights=given, minlength=max_parallelism).astype(float)
