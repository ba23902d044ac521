"""A Redis Cluster of masters on this machine, in a folder of its own, and clients that ask it for keys."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import redis
from redis.crc import key_slot

SLOTS = 16_384
MISSING = "redis-server is not installed: apt-get install redis-server"


def free_ports(count: int, first: int) -> list[int]:
    """Ports that nobody listens on, nor on those of the cluster's bus, 10,000 above."""
    found: list[int] = []
    port = first
    while len(found) < count:
        with socket.socket() as one, socket.socket() as two:
            try:
                for door in (one, two):
                    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.bind(("127.0.0.1", port))
                two.bind(("127.0.0.1", port + 10_000))
                found.append(port)
            except OSError:
                pass
        port += 1
    return found


@contextmanager
def running(masters: int, first: int = 21_001) -> Iterator[list[str]]:
    """Start masters that share the slots evenly, and end them: their names, ``host:port``."""
    if shutil.which("redis-server") is None:
        raise SystemExit(MISSING)
    ports = free_ports(masters, first)
    with tempfile.TemporaryDirectory(prefix="keyshift-redis-", ignore_cleanup_errors=True) as folder:
        started = []
        try:
            for port in ports:
                home = Path(folder, str(port))
                home.mkdir()
                options = {
                    "port": port, "dir": home, "cluster-enabled": "yes", "save": "", "appendonly": "no", "bind": "127.0.0.1",
                    "cluster-node-timeout": 5000, "daemonize": "no", "logfile": home / "log",
                }  # fmt: skip
                words = [str(w) for name, value in options.items() for w in (f"--{name}", value)]
                started.append(subprocess.Popen(["redis-server", *words], stdout=subprocess.DEVNULL))
            clients = [redis.Redis(port=port, protocol=2) for port in ports]
            join(clients, ports)
            yield [f"127.0.0.1:{port}" for port in ports]
        finally:
            for server in started:
                server.terminate()
            for server in started:
                server.wait(20)


def join(clients: list[redis.Redis], ports: list[int]) -> None:
    """Give each master its share of slots, let them meet, and wait until all know all."""
    for client in clients:
        wait_for(lambda client=client: client.ping())
    bounds = np.linspace(0, SLOTS, len(clients) + 1).astype(int)
    for i, client in enumerate(clients):
        client.execute_command("CLUSTER ADDSLOTSRANGE", int(bounds[i]), int(bounds[i + 1]) - 1)
        client.execute_command("CLUSTER SET-CONFIG-EPOCH", i + 1)
        client.execute_command("CLUSTER MEET", "127.0.0.1", ports[0])
    for client in clients:
        wait_for(lambda client=client: client.execute_command("CLUSTER INFO")["cluster_state"] == "ok")
        wait_for(lambda client=client: len(client.execute_command("CLUSTER NODES")) == len(clients))


def wait_for(what: object, seconds: float = 30.0) -> None:
    """Ask again until it holds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if what():  # type: ignore[operator]
                return
        except redis.RedisError:
            pass
        time.sleep(0.05)
    raise SystemExit("the cluster does not come up")


def fill(names: list[str], keys: list[str], sizes: np.ndarray) -> None:
    """Set every key to that many bytes, each at its own master."""
    spread(names, [("SET", key, "x" * int(size)) for key, size in zip(keys, sizes, strict=True)])


def spread(names: list[str], commands: list[tuple[str, ...]]) -> None:
    """Send commands to the masters that own their keys now, many at a time."""
    owner = owners(names)
    lines = [client(name).pipeline(transaction=False) for name in names]
    for count, command in enumerate(commands, 1):
        lines[owner[key_slot(command[1].encode())]].execute_command(*command)
        if count % 20_000 == 0 or count == len(commands):
            for line in lines:
                line.execute()


def client(name: str) -> redis.Redis:
    """A connection to one master."""
    host, _, port = name.rpartition(":")
    return redis.Redis(host=host, port=int(port), protocol=2)


def owners(names: list[str]) -> np.ndarray:
    """The master of each slot, by its own word."""
    owner = np.full(SLOTS, -1)
    for i, name in enumerate(names):
        with client(name) as one:
            mine = next(n for n in one.execute_command("CLUSTER NODES").values() if "myself" in n["flags"])
        for span in mine["slots"]:
            owner[int(span[0]) : int(span[-1]) + 1] = i
    return owner


def still_open(names: list[str]) -> int:
    """Slots that any master gives away or takes in."""
    return sum(
        len(
            next(n for n in client(name).execute_command("CLUSTER NODES").values() if "myself" in n["flags"])[
                "migrations"
            ]
        )
        for name in names
    )


def served(names: list[str]) -> np.ndarray:
    """GETs that each master has answered since it began; what it sent elsewhere does not count."""
    return np.array([client(name).info("commandstats").get("cmdstat_get", {}).get("calls", 0) for name in names])


def memory(names: list[str], keys: list[str]) -> np.ndarray:
    """Bytes of each key, in memory."""
    owner = owners(names)[[key_slot(key.encode()) for key in keys]]
    sizes = np.zeros(len(keys))
    for i, name in enumerate(names):
        line, mine = client(name).pipeline(transaction=False), np.flatnonzero(owner == i)
        for j in mine:
            line.execute_command("MEMORY USAGE", keys[j], "SAMPLES", 0)
        sizes[mine] = line.execute()
    return sizes
