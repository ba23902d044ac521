"""A Flink of its own on the loopback, for as long as a block runs; whatever happens, nothing of it is left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from keyshift.engines.flink import partitioner_file

HERE = Path(__file__).parent
START = 300
"""Seconds that Flink may take to start: an idle machine needs 10, one with 30 other processes needed more than 60."""
CONFIGURATION = """\
jobmanager.rpc.address: 127.0.0.1
jobmanager.bind-host: 127.0.0.1
jobmanager.rpc.port: {rpc}
jobmanager.memory.process.size: 1024m
taskmanager.bind-host: 127.0.0.1
taskmanager.host: 127.0.0.1
taskmanager.memory.process.size: 2560m
taskmanager.memory.network.min: 512m
taskmanager.memory.network.max: 512m
taskmanager.memory.managed.size: 256m
taskmanager.numberOfTaskSlots: {slots}
rest.address: 127.0.0.1
rest.bind-address: 127.0.0.1
rest.port: {rest}
parallelism.default: 1
pekko.ask.timeout: 180 s
heartbeat.timeout: 180 s
python.executable: {python}
python.client.executable: {python}
classloader.parent-first-patterns.additional: pemja.
metrics.fetcher.update-interval: 1000
execution.checkpointing.storage: filesystem
execution.checkpointing.dir: file://{folder}/checkpoints
io.tmp.dirs: {folder}/tmp
"""


class Flink(NamedTuple):
    """A running cluster."""

    home: Path
    folder: Path
    rest: str
    environment: dict[str, str]

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """An answer of the REST API; with a body, to a POST."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.rest + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def wait(self, job: str, seconds: float = 300) -> None:
        """Wait until a job has finished; what made it fail is raised."""
        until = time.monotonic() + seconds
        while (state := self.ask(f"/jobs/{job}")["state"]) != "FINISHED":
            if state in ("FAILED", "CANCELED") or time.monotonic() > until:
                raise RuntimeError(f"{job} is {state}\n{json.dumps(self.ask(f'/jobs/{job}/exceptions'))[:3000]}")
            time.sleep(0.2)

    def run(self, *words: str, seconds: float = 300) -> str:
        """Run a job with ``flink run`` until it ends; returns the job's id."""
        made = subprocess.run(
            [self.home / "bin/flink", "run", *words], env=self.environment, capture_output=True, text=True, timeout=seconds, check=False,
        )  # fmt: skip
        if made.returncode:
            raise RuntimeError(f"flink run {' '.join(words)}\n{made.stdout[-3000:]}\n{made.stderr[-3000:]}")
        return next(line.split()[-1] for line in made.stdout.splitlines() if "JobID" in line)


@contextmanager
def jobs(flink: Flink) -> Iterator[Callable[[dict[str, Any]], str]]:
    """One client for all jobs of jobs.py: submits a job, and returns its id."""
    pipe = flink.folder / "jobs"
    os.mkfifo(pipe)
    with (
        os.fdopen(os.open(pipe, os.O_RDWR), "w", buffering=1) as sending,
        (flink.folder / "client").open("w+") as complaints,
        subprocess.Popen(
            [flink.home / "bin/flink", "run", "-py", HERE / "jobs.py", "-pyfs", partitioner_file(), str(pipe)],
            env=flink.environment, stdout=subprocess.PIPE, stderr=complaints, text=True, start_new_session=True,
        ) as client,
    ):  # fmt: skip

        def submit(job: dict[str, Any]) -> str:
            print(json.dumps(job), file=sending)
            assert client.stdout is not None
            for line in client.stdout:
                if line.startswith("submitted "):
                    return line.split()[1]
            complaints.seek(0)
            raise RuntimeError(f"the client of Flink ended\n{complaints.read()[-3000:]}")

        try:
            yield submit
        finally:
            os.killpg(client.pid, signal.SIGTERM)


@contextmanager
def cluster(slots: int = 16, seconds: int = 600) -> Iterator[Flink]:
    """Start a JobManager and a TaskManager; stop them after so many seconds at the latest, and kill what does not stop."""
    python = HERE / ".venv/bin/python"
    home = next((HERE / ".venv/lib").glob("python3*/site-packages/pyflink"))
    folder = Path(tempfile.mkdtemp(prefix="keyshift-flink-"))
    rest, rpc = _free_port(), _free_port()
    for name in ("log", "tmp"):
        (folder / name).mkdir()
    shutil.copytree(home / "conf", folder / "conf")
    text = CONFIGURATION.format(rpc=rpc, rest=rest, slots=slots, python=python, folder=folder)
    options = yaml.safe_load((home / "conf/config.yaml").read_text())["env"]["java"]["opts"]["all"]
    (folder / "conf/config.yaml").write_text(
        f"{text}env.java.opts.all: {options} -Djava.io.tmpdir={folder}/tmp\n"  # a client leaves a folder there for each job
    )
    for name in ("masters", "workers"):
        (folder / "conf" / name).write_text("localhost\n")
    environment = os.environ | {
        "FLINK_CONF_DIR": str(folder / "conf"), "FLINK_LOG_DIR": str(folder / "log"), "FLINK_PID_DIR": str(folder / "pid"),
        "PATH": f"{python.parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1", "TMPDIR": str(folder / "tmp"),
        # the embedded Python can be loaded once in a Java process: by the parent of the jobs' class loaders, so from its class path
        "HADOOP_CLASSPATH": str(next((home / "opt").glob("flink-python-*.jar"))),
    }  # fmt: skip
    flink = Flink(home, folder, f"http://127.0.0.1:{rest}", environment)
    before = {s: signal.signal(s, lambda *_: sys.exit(143)) for s in (signal.SIGTERM, signal.SIGALRM)}
    signal.alarm(seconds)  # a time limit, too, ends in the block below
    try:
        subprocess.run([home / "bin/start-cluster.sh"], env=environment, check=True, capture_output=True, timeout=START)
        _wait(flink, slots)
        yield flink
    finally:
        processes = [int(line) for file in (folder / "pid").glob("*.pid") for line in file.read_text().split()]
        with suppress(subprocess.SubprocessError):
            subprocess.run(
                [home / "bin/stop-cluster.sh"], env=environment, capture_output=True, timeout=60, check=False
            )
        _end(processes)
        shutil.rmtree(folder, ignore_errors=True)
        signal.alarm(0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _wait(flink: Flink, slots: int) -> None:
    until = time.monotonic() + START
    while time.monotonic() < until:
        with suppress(OSError, ValueError):
            if flink.ask("/overview")["slots-total"] == slots:
                return
        time.sleep(0.5)
    log = "\n".join(file.read_text()[-2000:] for file in (flink.folder / "log").glob("*"))
    raise RuntimeError(f"Flink did not start\n{log}")


def _end(processes: list[int]) -> None:
    """Wait for the processes to end; kill those that do not."""
    for sign in (None, signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            if sign is not None:
                with suppress(ProcessLookupError):
                    os.kill(process, sign)
        until = time.monotonic() + 10
        while time.monotonic() < until:
            processes = [p for p in processes if Path(f"/proc/{p}").exists()]
            if not processes:
                return
            time.sleep(0.2)
