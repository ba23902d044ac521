"""A Storm of its own for as long as a block runs: ZooKeeper, Nimbus and two supervisors from Maven's jars; nothing of it is left.

Under Linux the benchmark runs in namespaces of its own where that is possible: no port of Storm, which listens on all addresses,
can be reached from outside, and the kernel ends every process with the first one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

HERE = Path(__file__).parent
ENGINE = HERE.parents[1] / "engines/storm"
KEPT = HERE / ".storm"
"""Storm's jars and our classes: made once."""
START = 120
"""Seconds that a part may take to start; an idle machine needs two."""
ZOOKEEPER = "org.apache.storm.shade.org.apache.zookeeper.server.ZooKeeperServerMain"
PORTS = {"zookeeper": 22181, "nimbus": 16627, "supervisor1": 16631, "supervisor2": 16632}
CONFIGURATION = """\
storm.zookeeper.servers: ["127.0.0.1"]
storm.zookeeper.port: 22181
nimbus.seeds: ["127.0.0.1"]
nimbus.thrift.port: 16627
storm.local.hostname: "127.0.0.1"
storm.local.dir: "{folder}/{name}"
storm.log4j2.conf.dir: "{folder}/log4j2"
supervisor.slots.ports: {slots}
supervisor.thrift.port: {port}
nimbus.monitor.freq.secs: 2
nimbus.thrift.threads: 8
supervisor.thrift.threads: 4
task.refresh.poll.secs: 1
storm.daemon.metrics.reporter.plugins: []
worker.heap.memory.mb: 320
worker.childopts: "-Xmx%HEAP-MEM%m -Xss512k -XX:+UseSerialGC -XX:CICompilerCount=2"
topology.worker.logwriter.childopts: "-Xmx24m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""
LOGGING = """\
<configuration><appenders><File name="A" fileName="{file}"><PatternLayout pattern="%d{{HH:mm:ss.SSS}} %c{{1.}} %p %msg%n"/></File></appenders>
<loggers><root level="info"><appender-ref ref="A"/></root></loggers></configuration>
"""


def alone() -> None:
    """Go on in namespaces of our own for the network and processes, where the system allows it."""
    if "KEYSHIFT_STORM_ALONE" not in os.environ:
        base = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        for way in (base, [*base, "--map-root-user"]):
            if subprocess.run([*way, "true"], capture_output=True, check=False).returncode == 0:
                words = [*way, sys.executable, *sys.argv]
                os.execvpe("unshare", words, {**os.environ, "KEYSHIFT_STORM_ALONE": "yes"})
        print("No namespace of its own: Storm's ports can be reached from outside while this runs.", flush=True)
    elif os.environ["KEYSHIFT_STORM_ALONE"] == "yes":
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:  # the loopback of a new namespace is down
            request = struct.pack("16sH14s", b"lo", 1, b"")
            fcntl.ioctl(one, 0x8914, request)


def prepare() -> None:
    """Copy Storm's jars from Maven, build the engine's jar and the topology."""

    def maven(*words: str) -> None:
        subprocess.run(["mvn", "-q", "-B", "-f", ENGINE / "pom.xml", *words], check=True)

    if not (KEPT / "lib").exists():
        maven("dependency:copy-dependencies", "-DincludeScope=provided", f"-DoutputDirectory={KEPT / 'lib-worker'}")
        maven("dependency:copy-dependencies", "-DexcludeGroupIds=org.junit.jupiter,org.junit.platform,org.opentest4j,org.apiguardian",
              f"-DoutputDirectory={KEPT / 'lib'}")  # fmt: skip
    if not (jar := ENGINE / "target/keyshift-storm-0.4.0.jar").exists():
        maven("package", "-DskipTests")
    with tempfile.TemporaryDirectory() as made:
        subprocess.run(["javac", "-nowarn", "-cp", f"{KEPT / 'lib'}/*:{jar}", "-d", made, *(HERE / "java/live").glob("*.java")], check=True)  # fmt: skip
        subprocess.run(["jar", "xf", jar], cwd=made, check=True)
        subprocess.run(["jar", "cf", KEPT / "live.jar", "-C", made, "."], check=True)


class Storm:
    """A running cluster, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"
        self.started: dict[str, subprocess.Popen[bytes]] = {}

    def java(self, name: str, conf: str, heap: int, *words: str | Path) -> list[str]:
        """A line that runs a class with Storm's jars."""
        log = f"-Dlog4j.configurationFile={self.folder}/log4j2/cluster.xml"
        path = f"{self.folder / conf}:{KEPT / 'lib'}/*:{KEPT / 'live.jar'}"
        return ["java", f"-Xmx{heap}m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dstorm.home={self.folder / 'home'}",
                f"-Dstorm.log.dir={self.folder / 'log'}", f"-Dlogfile.name={name}.log", log, "-cp", path, *map(str, words)]  # fmt: skip

    def start(self, name: str, conf: str, heap: int, *words: str | Path) -> None:
        """Start a daemon, and wait for its port."""
        with (self.folder / "log" / f"{name}.out").open("wb") as said:
            line = self.java(name, conf, heap, *words)
            environment = {**os.environ, "STORM_CONF_DIR": str(self.folder / conf)}
            self.started[name] = subprocess.Popen(
                line, env=environment, stdout=said, stderr=said, start_new_session=True
            )
        until = time.monotonic() + START
        while time.monotonic() < until and self.started[name].poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", PORTS[name]), 1):
                return
            time.sleep(0.1)
        raise RuntimeError(f"{name} did not start\n{(self.folder / 'log' / f'{name}.out').read_text()[-2000:]}")

    def ask(self, *words: str, tries: int = 1) -> str:
        """What live.Main says."""
        line = self.java("client", "nimbus-conf", 128, f"-Dstorm.jar={KEPT / 'live.jar'}", "live.Main", *words)
        for _ in range(tries):
            done = subprocess.run(line, capture_output=True, text=True, check=False, env={**os.environ, "STORM_CONF_DIR": str(self.folder / "nimbus-conf")})  # fmt: skip
            if done.returncode == 0:
                return done.stdout
            time.sleep(2)  # a Nimbus whose port is open may not lead yet
        raise RuntimeError(f"{words}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")

    def end_topology(self) -> None:
        """End the topology that runs, if one does, and wait for its workers to go."""
        if self.workers():
            self.ask("kill")
            until = time.monotonic() + START
            while self.workers() and time.monotonic() < until:
                time.sleep(0.2)

    def submit(self, **given: object) -> None:
        """Start the topology."""
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir()
        self.ask("submit", f"out={self.out}", *(f"{name}={value}" for name, value in given.items()), tries=20)

    def workers(self) -> dict[int, int]:
        """Process id of each worker, by its port."""
        found = {}
        for process, line in self.processes():
            if b"org.apache.storm.daemon.worker.Worker" in line and b"LogWriter" not in line:
                found[int(line.rstrip(b"\0").split(b"\0")[-2])] = process
        return found

    def processes(self) -> Iterator[tuple[int, bytes]]:
        """All that names our folder."""
        for path in Path("/proc").iterdir():
            if path.name.isdigit() and int(path.name) != os.getpid():
                with suppress(OSError):
                    line = (path / "cmdline").read_bytes()
                    if str(self.folder).encode() in line:
                        yield int(path.name), line

    def ahead(self) -> None:
        """Let the workers have a processor as soon as they want one, where that is allowed: they leave most of it to others."""
        for process in self.workers().values():
            for thread in Path(f"/proc/{process}/task").iterdir():
                with suppress(OSError):
                    os.sched_setscheduler(int(thread.name), os.SCHED_RR, os.sched_param(1))

    def cpu(self) -> tuple[float, float, float]:
        """Seconds of processors so far: Storm's, the whole machine's, and the clock."""
        ticks = os.sysconf("SC_CLK_TCK")
        mine = 0
        for process, _ in self.processes():
            with suppress(OSError):
                fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
                mine += int(fields[11]) + int(fields[12])
        every = list(map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]))
        return mine / ticks, (sum(every) - every[3] - every[4]) / ticks, time.monotonic()

    def end(self) -> int:
        """End everything; the number of processes that are left."""
        for sign in (signal.SIGTERM, signal.SIGKILL, signal.SIGKILL):
            for process, _ in list(self.processes()):
                with suppress(ProcessLookupError):
                    os.kill(process, sign)
            until = time.monotonic() + 4
            while time.monotonic() < until:
                for one in self.started.values():
                    one.poll()
                if not list(self.processes()):
                    break
                time.sleep(0.1)
        return len(list(self.processes()))


@contextmanager
def running() -> Iterator[Storm]:
    """Start ZooKeeper, Nimbus and two supervisors of two slots each, and end them with their workers."""
    prepare()
    folder = Path(tempfile.mkdtemp(prefix="keyshift-storm-"))
    storm = Storm(folder)
    for name in ("home", "log", "log4j2", "out", "home/log4j2"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in ("lib", "lib-worker"):
        (folder / "home" / name).symlink_to(KEPT / name)
    (folder / "log4j2/cluster.xml").write_text(LOGGING.format(file="${sys:storm.log.dir}/${sys:logfile.name}"))
    artifacts = "${sys:workers.artifacts}/${sys:storm.id}/${sys:worker.port}/${sys:logfile.name}"
    (folder / "log4j2/worker.xml").write_text(LOGGING.format(file=artifacts))
    for name, slots, port in (
        ("nimbus", [], 16628),
        ("supervisor1", [16700, 16701], 16631),
        ("supervisor2", [16710, 16711], 16632),
    ):
        (folder / f"{name}-conf").mkdir()
        text = CONFIGURATION.format(folder=folder, name=name, slots=slots, port=port)
        (folder / f"{name}-conf/storm.yaml").write_text(text)
    (folder / "zoo.cfg").write_text(
        f"tickTime=2000\ndataDir={folder}/zk\nclientPort=22181\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n"
    )
    before = {s: signal.signal(s, lambda *_: sys.exit(143)) for s in (signal.SIGTERM, signal.SIGHUP)}
    try:
        began = time.monotonic()
        storm.start("zookeeper", "nimbus-conf", 192, ZOOKEEPER, folder / "zoo.cfg")
        storm.start("nimbus", "nimbus-conf", 384, "org.apache.storm.daemon.nimbus.Nimbus")
        for name in ("supervisor1", "supervisor2"):
            storm.start(name, f"{name}-conf", 160, "org.apache.storm.daemon.supervisor.Supervisor")
        print(f"Storm is up after {time.monotonic() - began:.1f} s", flush=True)
        yield storm
    finally:
        left = storm.end()
        print(f"Storm has ended; processes left: {left}", flush=True)
        if "KEYSHIFT_STORM_LOGS" not in os.environ:
            shutil.rmtree(folder, ignore_errors=True)
        for number, handler in before.items():
            signal.signal(number, handler)
