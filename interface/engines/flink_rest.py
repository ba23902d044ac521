"""A running job as Flink's REST API describes it: fetched, or read from a folder of the same JSON."""

from __future__ import annotations

import http.client
import json
import math
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from queue import Empty, Queue
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field

from keyshift.engines.formats import Id, OpenModel
from keyshift.models.base.disk import make_folder, parse_json, read_json, shown, write_text
from keyshift.models.base.schema import Amount, Whole, validated
from keyshift.models.errors import InputError, reason, refusing

MOST = 64 * 2**20
"""An answer has at most this many bytes."""
WHOLE = 60
"""Seconds for all answers together."""
_HEX = r"[0-9a-f]{32}"

Hex = Annotated[str, Field(pattern=rf"^{_HEX}$")]
Busy = Annotated[
    float, BeforeValidator(lambda v: 0.0 if v == "NaN" or (isinstance(v, float) and math.isnan(v)) else v), Field(ge=0)
]
"""Milliseconds; Flink says NaN of sources, whose busy time it does not know."""


class JobVertex(OpenModel):
    """A vertex in ``/jobs/:id``."""

    id: Hex
    name: str
    maxParallelism: Annotated[int, Field(ge=-1, le=32_768)]
    parallelism: Annotated[int, Field(ge=1, le=32_768)]


class JobFile(OpenModel):
    """``/jobs/:id``."""

    jid: Hex
    name: str
    state: str
    vertices: list[JobVertex]


class SubtaskMetrics(OpenModel):
    """Sums since a subtask began."""

    read_records: Annotated[Whole, Field(alias="read-records")]
    busy_time: Annotated[Busy, Field(alias="accumulated-busy-time")] = 0.0


class Subtask(OpenModel):
    """A subtask in ``/jobs/:id/vertices/:vertex``."""

    subtask: Id
    metrics: SubtaskMetrics


class VertexFile(OpenModel):
    """``/jobs/:id/vertices/:vertex``."""

    id: Hex
    parallelism: Annotated[int, Field(ge=1, le=32_768)]
    subtasks: list[Subtask]


class Completed(OpenModel):
    """A completed checkpoint or savepoint."""

    id: Whole


class Latest(OpenModel):
    """The latest checkpoints."""

    completed: Completed | None = None
    savepoint: Completed | None = None


class CheckpointsFile(OpenModel):
    """``/jobs/:id/checkpoints``."""

    latest: Latest | None = None


class SubtaskState(OpenModel):
    """A subtask in ``/jobs/:id/checkpoints/details/:checkpoint/subtasks/:vertex``."""

    index: Id
    status: Literal["completed", "pending_or_failed"]
    state_size: Amount | None = None


class CheckpointFile(OpenModel):
    """``/jobs/:id/checkpoints/details/:checkpoint/subtasks/:vertex``."""

    subtasks: list[SubtaskState]


class Seen(NamedTuple):
    """One vertex of a job as the REST API shows it; `states` where a checkpoint is complete."""

    job: JobFile
    vertex: JobVertex
    records: tuple[int, ...]
    busy: tuple[float, ...]
    states: tuple[float, ...] | None


def read_rest(url: str, job: str, vertex: str | None = None, keep: str | Path | None = None) -> Seen:
    """Ask a running Flink.

    Parameters
    ----------
    url : str
        Such as ``http://127.0.0.1:8081``.
    job : str
        The job's id.
    vertex : str, optional
        Id or name of the vertex, or a part of the name that no other has; needed unless there is only one after the sources.
    keep : str or Path, optional
        A folder in which to keep the answers, for `read_saved`.

    Raises
    ------
    InputError
        If Flink does not answer, or something else does.
    """
    if not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", url):
        raise InputError(f"{shown(url)} is not an address such as http://127.0.0.1:8081")
    if not re.fullmatch(_HEX, job):
        raise InputError(f"{shown(job)} is not a job id: 32 digits from 0 to f")
    answers: dict[str, Any] = {}
    until = time.monotonic() + WHOLE

    def ask(name: str, path: str) -> Any:
        answers[name] = _fetched(url.rstrip("/") + path, until)
        return answers[name]

    base = f"/jobs/{job}"
    about = validated(JobFile, ask("job", base), f"{url}{base}")
    chosen = vertex_of(about, vertex)
    ask("vertex", f"{base}/vertices/{chosen.id}")
    points = validated(CheckpointsFile, ask("checkpoints", f"{base}/checkpoints"), f"{url}{base}/checkpoints")
    latest = points.latest or Latest()
    done = [point.id for point in (latest.completed, latest.savepoint) if point is not None]
    if done:
        ask("checkpoint", f"{base}/checkpoints/details/{max(done)}/subtasks/{chosen.id}")
    seen = seen_in(answers, vertex, url)
    if keep is not None:
        make_folder(Path(keep))
        for name, content in answers.items():
            write_text(Path(keep) / f"{name}.json", json.dumps(content) + "\n")
    return seen


def read_saved(folder: str | Path, vertex: str | None = None) -> Seen:
    """Read a folder of answers: ``job.json``, ``vertex.json`` and, where there is a checkpoint, ``checkpoint.json``."""
    source = Path(folder)
    if not source.is_dir():
        raise InputError(f"{source} is not a folder of Flink's answers")
    found = {}
    for name in ("job", "vertex", "checkpoint"):
        file = source / f"{name}.json"
        if file.exists() or name != "checkpoint":
            found[name] = read_json(file, MOST)
    return seen_in(found, vertex, str(source))


def seen_in(answers: Mapping[str, Any], vertex: str | None, of: str) -> Seen:
    """Check the answers, and that they are of one vertex."""
    job = validated(JobFile, answers["job"], f"{of}: job")
    known = validated(VertexFile, answers["vertex"], f"{of}: vertex")
    chosen = next((v for v in job.vertices if v.id == known.id), None)
    if chosen is None:
        raise InputError(f"{of}: the vertex {known.id} does not belong to the job {job.jid}")
    if vertex is not None and vertex_of(job, vertex).id != known.id:
        raise InputError(f"{of}: the vertex is {chosen.name:.60}, not {vertex:.60}")
    if chosen.parallelism != known.parallelism:
        said = f"{of}: the vertex has {known.parallelism} subtasks, the job says {chosen.parallelism}: a rescale?"
        raise InputError(said)
    if chosen.maxParallelism < chosen.parallelism:
        raise InputError(f"{of}: maxParallelism = {chosen.maxParallelism} is below the parallelism")
    numbers = [s.subtask for s in known.subtasks]
    _all_subtasks(f"{of}: vertex.subtasks", numbers, chosen.parallelism)
    states = None
    if "checkpoint" in answers:
        point = validated(CheckpointFile, answers["checkpoint"], f"{of}: checkpoint")
        _all_subtasks(f"{of}: checkpoint.subtasks", [s.index for s in point.subtasks], chosen.parallelism)
        for s in point.subtasks:
            if s.state_size is None:
                raise InputError(f"{of}: the checkpoint of subtask {s.index} is {s.status}")
        states = tuple(float(s.state_size or 0.0) for s in sorted(point.subtasks, key=lambda s: s.index))
    metrics = [s.metrics for s in sorted(known.subtasks, key=lambda s: s.subtask)]
    return Seen(job, chosen, tuple(m.read_records for m in metrics), tuple(m.busy_time for m in metrics), states)


def vertex_of(job: JobFile, wanted: str | None) -> JobVertex:
    """The vertex that is meant: by id, by name, or the only one after the sources."""
    if wanted is None:
        found = [v for v in job.vertices if not v.name.startswith("Source:")]
    else:
        exact = [v for v in job.vertices if wanted in (v.id, v.name)]
        found = exact or [v for v in job.vertices if wanted in v.name]
    if len(found) != 1:
        names = "; ".join(f"{v.name:.40}" for v in job.vertices) or "none"
        what = "no vertex is" if not found else "more than one vertex is"
        said = f"{what} {'not a source' if wanted is None else f'called {wanted:.60}'}: there are {names:.300}"
        raise InputError(said)
    return found[0]


def _all_subtasks(of: str, numbers: list[int], parallelism: int) -> None:
    if sorted(numbers) != list(range(parallelism)):
        raise InputError(f"{of} are not 0 to {parallelism - 1}, each once")


class _OneOrigin(urllib.request.HTTPRedirectHandler):
    """Follows a redirect to the same scheme, host and port, and no other: a server must not send us elsewhere."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        there, here = urllib.parse.urlsplit(newurl), urllib.parse.urlsplit(req.full_url)
        if there[:2] != here[:2]:
            raise InputError(f"{req.full_url} redirects to {there.scheme}://{there.netloc}, which is another host")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _fetched(address: str, until: float) -> Any:
    """An answer, whole before that time: a server that drips holds a thread of ours, and not the caller."""
    answers: Queue[Any] = Queue()

    def fetch() -> None:
        try:
            request = urllib.request.Request(address, headers={"Accept": "application/json"})
            # A server is silent for so long at most.
            with urllib.request.build_opener(_OneOrigin).open(request, timeout=10) as answer:
                answers.put(answer.read(MOST + 1))
        except Exception as error:  # told by the caller's thread
            answers.put(error)

    threading.Thread(target=fetch, daemon=True).start()
    with refusing(f"{address} has not answered within {WHOLE} s", Empty):
        content = answers.get(timeout=max(0.0, until - time.monotonic()))
    if isinstance(content, urllib.error.HTTPError):
        raise InputError(f"{address} answers {content.code}: is the job id right, and does it still run?")
    if isinstance(content, OSError | ValueError) and not isinstance(content, InputError):
        said = getattr(content, "reason", None)
        raise InputError(f"{address} does not answer ({reason(said if isinstance(said, OSError) else content)})")
    if isinstance(content, http.client.HTTPException):
        raise InputError(f"{address} does not answer in HTTP ({type(content).__name__}: {shown(str(content))})")
    if isinstance(content, Exception):
        raise content
    if len(content) > MOST:
        raise InputError(f"{address} answers more than {MOST:,} bytes")
    with refusing(f"{address} does not answer with text", UnicodeDecodeError):
        return parse_json(content.decode(), address)
