"""A server on the loopback that answers what it is told, byte by byte if need be, whatever it is asked."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

Answer = bytes | Callable[[socket.socket, threading.Event], None]


@contextlib.contextmanager
def serving(*answers: Answer) -> Iterator[str]:
    """Answer each connection in turn, the last one for ever; gives the address."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)

        def serve() -> None:
            given = list(answers)
            while not over.is_set():
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    continue
                with connection, contextlib.suppress(OSError):
                    connection.settimeout(5)
                    connection.recv(65536)
                    answer = given.pop(0) if len(given) > 1 else given[0]
                    if callable(answer):
                        answer(connection, over)
                    else:
                        connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            over.set()
            thread.join()


def dripping(head: bytes) -> Answer:
    """Ten bytes a second for ever: no wait for the next one is long."""

    def answer(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(head)
        while not over.wait(0.1):
            connection.sendall(b" ")

    return answer


def redirect(to: str) -> bytes:
    """An answer that sends the caller elsewhere."""
    return f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()


OK = b"HTTP/1.1 200 OK\r\n"
MALFORMED = {
    "no status line": b"hello\r\n\r\n",
    "nothing at all": b"",
    "a status that is no number": b"HTTP/1.1 abc OK\r\n\r\n",
    "an endless status line": b"HTTP/1.1 200 " + b"x" * 70_000 + b"\r\n\r\n",
    "an endless header": OK + b"a: " + b"x" * 70_000 + b"\r\n\r\n",
    "a thousand headers": OK + b"".join(b"h%d: 1\r\n" % i for i in range(1000)) + b"\r\n",
    "less than it promises": OK + b"Content-Length: 100\r\n\r\n{}",
    "chunks of no length": OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
    "a chunk cut short": OK + b"Transfer-Encoding: chunked\r\n\r\nff\r\n{}",
    "a length below 0": OK + b"Content-Length: -5\r\n\r\n{}",
    "a tongue of its own": b"HTTP/9.9 200 OK\r\n\r\n{}",
    "no text": OK + b"Content-Length: 2\r\n\r\n\xff\xfe",
    "a list": OK + b"Content-Length: 2\r\n\r\n[]",
    "deep": OK + b"\r\n" + b"[" * 100_000,
    "a server's error": b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
    "a redirect to itself": redirect("/"),
    "a redirect to another host": redirect("http://127.0.0.2:1/"),
    "a redirect to ftp": redirect("ftp://127.0.0.1/x"),
    "a redirect to a file": redirect("file:///etc/passwd"),
    "a redirect to nowhere": redirect("http://["),
}
"""What is no answer of Flink's, by what is wrong with it."""
