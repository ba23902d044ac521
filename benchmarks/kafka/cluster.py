"""Four brokers of Kafka 4.3 on this machine, and its own tools. Needs Java 17 and Maven, which fetches Kafka's jars once.

KRaft: brokers 1 to 3 are controllers, too. Each has two log directories; racks are a, a, b, b. A fifth, in rack b, can be
started in the place of one that is gone. All that is started ends with the context.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
JARS = HERE / ".kafka"
BROKERS = (1, 2, 3, 4)
RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: "b"}
PORT, CONTROLLER = 23_190, 23_290
SERVERS = ",".join(f"127.0.0.1:{PORT + b}" for b in BROKERS)
PATIENCE = 240.0
"""Seconds that anything may take on a machine that is busy with other work."""
TOOLS = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
}
"""The class that each of Kafka's scripts, ``kafka-NAME.sh``, runs."""
JAVA = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def until(holds: Callable[[], object], otherwise: str, seconds: float = PATIENCE, pause: float = 0.3) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"after {seconds:.0f} s: {otherwise}")
        time.sleep(pause)


def jars() -> str:
    """Kafka's jars, fetched once."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise SystemExit(f"a real Kafka needs {tool}: apt-get install maven openjdk-17-jdk-headless")
    if not (JARS / "ready").exists():
        fetch = ["mvn", "-q", "-B", "-f", HERE / "pom.xml", "dependency:copy-dependencies", f"-DoutputDirectory={JARS}"]
        subprocess.run(list(map(str, fetch)), check=True)
        (JARS / "ready").touch()
    return f"{JARS}/*"


class Said:
    """What a tool printed: its exit code, stdout and stderr."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def all(self) -> str:
        return self.out + self.err


class Cluster:
    """A running cluster: its folder, its processes, and the tools."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, jars()
        self.brokers: dict[int, subprocess.Popen[bytes]] = {}
        self._tools: subprocess.Popen[bytes] | None = None
        (folder / "log4j2.properties").write_text(
            "status=error\nappender.e.type=Console\nappender.e.name=E\nappender.e.target=SYSTEM_ERR\n"
            "appender.e.layout.type=PatternLayout\nappender.e.layout.pattern=[%d] %p %m (%c)%n\n"
            "rootLogger.level=warn\nrootLogger.appenderRef.e.ref=E\n"
        )
        self.id = urlsafe_b64encode(b"k" + os.urandom(15)).decode().strip("=")  # no tool takes it for an option

    def java(self, memory: str) -> list[str]:
        """The beginning of a line that starts a class."""
        return [*JAVA, f"-Xmx{memory}", f"-Dlog4j2.configurationFile={self.folder}/log4j2.properties", "-cp", self.path]

    # Brokers --------------------------------------------------------------------------------------------------------

    def directory(self, broker: int, name: str) -> Path:
        """A log directory. Of "a", the first, the broker keeps the cluster's metadata as well."""
        return self.folder / f"data-{broker}" / name

    def start(self, *brokers: int) -> None:
        """Start brokers, or start them again, each in a process of its own."""
        self._format(b for b in brokers if not (self.folder / f"{b}.properties").exists())
        for b in brokers:
            with (self.folder / f"broker-{b}.log").open("ab") as said:
                line = [*self.java("320m"), "kafka.Kafka", str(self.folder / f"{b}.properties")]
                self.brokers[b] = subprocess.Popen(line, stdout=said, stderr=said, stdin=subprocess.DEVNULL)

    def _format(self, brokers: Iterable[int]) -> None:
        """Format the directories of brokers, all at once."""
        storage = [*self.java("128m"), "kafka.tools.StorageTool", "format", "-t", self.id, "-c"]
        said = [subprocess.Popen([*storage, self._settings(b)], stdout=subprocess.DEVNULL) for b in brokers]
        codes = [one.wait() for one in said]
        if any(codes):
            raise SystemExit("directories of brokers could not be formatted")

    def _settings(self, b: int) -> Path:
        """Write a broker's settings."""
        settings, controls = self.folder / f"{b}.properties", b <= 3
        voters = ",".join(f"{c}@127.0.0.1:{CONTROLLER + c}" for c in BROKERS[:3])
        door = f"PLAINTEXT://127.0.0.1:{PORT + b}"
        settings.write_text(
            f"process.roles=broker{',controller' * controls}\nnode.id={b}\ncontroller.quorum.voters={voters}\n"
            f"listeners={door}{f',CONTROLLER://127.0.0.1:{CONTROLLER + b}' * controls}\nadvertised.listeners={door}\n"
            "controller.listener.names=CONTROLLER\ninter.broker.listener.name=PLAINTEXT\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
            f"log.dirs={self.directory(b, 'a')},{self.directory(b, 'b')}\nbroker.rack={RACKS[b]}\n"
            "auto.leader.rebalance.enable=false\nauto.create.topics.enable=false\noffsets.topic.replication.factor=3\n"
            "offsets.topic.num.partitions=4\ntransaction.state.log.replication.factor=2\ntransaction.state.log.min.isr=1\n"
            "share.coordinator.state.topic.replication.factor=2\nshare.coordinator.state.topic.min.isr=1\n"
            "group.initial.rebalance.delay.ms=0\nbroker.session.timeout.ms=6000\n"
        )
        return settings

    def kill(self, *brokers: int) -> None:
        """kill -9."""
        for b in brokers:
            self.brokers[b].kill()
            self.brokers.pop(b).wait()

    def stop(self, broker: int) -> None:
        """End a broker as its script does."""
        self.brokers[broker].send_signal(signal.SIGTERM)
        self.brokers.pop(broker).wait(timeout=PATIENCE)

    def wait(self) -> None:
        """Wait until the brokers that run, and no others, are those of the cluster."""
        until(lambda: self.alive() == set(self.brokers), "brokers do not come up")

    def alive(self) -> set[int]:
        """The brokers that the controllers know and that answer."""
        said = self.tool("org.apache.kafka.tools.BrokerApiVersionsCommand", check=False).out  # none may be up yet
        lines = [line for line in said.splitlines() if "(id: " in line and "isFenced: false" in line]
        return {int(line.split("(id: ")[1].split()[0]) for line in lines}

    # Tools ----------------------------------------------------------------------------------------------------------

    def _called(self, name: str, *words: object) -> subprocess.Popen[bytes]:
        """The process of the tools, with a call under way."""
        servers = ",".join(f"127.0.0.1:{PORT + b}" for b in self.brokers)
        given = [TOOLS.get(name, name), "--bootstrap-server", servers, *map(str, words)]
        if self._tools is None or self._tools.poll() is not None:
            with (self.folder / "tools.log").open("ab") as said:
                line = [*self.java("192m"), str(HERE / "Tools.java")]
                self._tools = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said)
        assert self._tools.stdin is not None
        self._tools.stdin.write(("\t".join(given) + "\n").encode())
        self._tools.stdin.flush()
        return self._tools

    def tool(self, name: str, *words: object, check: bool = True) -> Said:
        """What one of Kafka's tools prints."""
        process = self._called(name, *words)
        assert process.stdout is not None
        head = process.stdout.readline().split()
        if len(head) != 3:
            raise SystemExit(f"{name} ended without an answer: {(self.folder / 'tools.log').read_text()[-600:]}")
        code, out, err = map(int, head)
        made = Said(code, process.stdout.read(out).decode(), process.stdout.read(err).decode())
        if check and code:
            raise SystemExit(f"{name} {' '.join(map(str, words))}: {made.all[-1500:]}")
        return made

    def break_off(self, name: str, *words: object, seconds: float = 0.05) -> None:
        """kill -9 of one of Kafka's tools in the midst of a call."""
        self.tool("topics", "--list")  # so that a process runs and has loaded its classes
        self._called(name, *words)
        time.sleep(seconds)
        self.kill_tools()

    def kill_tools(self) -> None:
        """kill -9 of the process that the tools run in; the next call starts another."""
        if self._tools is not None:
            self._tools.kill()
            self._tools.wait()

    def keep(self, name: str, said: Said | str) -> Path:
        """A file of what a tool printed."""
        path = self.folder / name
        path.write_text(said if isinstance(said, str) else said.out)
        return path


@contextmanager
def running(brokers: Sequence[int] = BROKERS, folder: Path | None = None) -> Iterator[Cluster]:
    """Start brokers, and end all that was started."""
    with tempfile.TemporaryDirectory(prefix="keyshift-kafka-", ignore_cleanup_errors=True) as name:
        made = Cluster(folder or Path(name))
        try:
            made.start(*brokers)
            made.wait()
            yield made
        finally:
            made.kill_tools()
            made.kill(*list(made.brokers))


def topics_json(topics: Sequence[str]) -> str:
    """The file that ``--generate`` wants."""
    return json.dumps({"version": 1, "topics": [{"topic": t} for t in topics]})
