"""A REST server that misbehaves: one sentence, in bounded time, and nowhere that it sends us."""

from __future__ import annotations

import json
import time

import pytest
from support.raw_server import MALFORMED, OK, dripping, redirect, serving

import keyshift as ks
from keyshift.engines import flink_rest

JOB = "a" * 32


@pytest.mark.parametrize("answer", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_flink_is_one_sentence(answer):
    with serving(answer) as url, pytest.raises(ks.InputError, match=r"127\.0\.0\.1"):
        flink_rest.read_rest(url, JOB)


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200", OK, OK + b"\r\n", OK + b"Transfer-Encoding: chunked\r\n\r\n"])
def test_a_server_that_drips_holds_nobody(monkeypatch, head):
    monkeypatch.setattr(flink_rest, "WHOLE", 0.5)
    began = time.monotonic()
    with serving(dripping(head)) as url:
        with pytest.raises(ks.InputError, match=r"not answered within 0\.5 s"):
            flink_rest.read_rest(url, JOB)
        assert time.monotonic() - began < 3


def test_the_deadline_is_of_all_answers_together(monkeypatch):
    monkeypatch.setattr(flink_rest, "WHOLE", 1.0)
    vertex = {"id": "b" * 32, "name": "count", "maxParallelism": 128, "parallelism": 1}
    job = json.dumps({"jid": JOB, "name": "j", "state": "RUNNING", "vertices": [vertex]}).encode()

    def slow(connection, over):
        over.wait(0.7)
        connection.sendall(OK + b"\r\n" + job)

    with serving(slow) as url, pytest.raises(ks.InputError, match=r"vertices/b+ has not answered within 1.0 s"):
        flink_rest.read_rest(url, JOB)


def test_redirects_stay_where_they_are():
    other = OK + b"\r\n{}"
    refused = pytest.raises(ks.InputError, match="another host")
    with serving(other) as elsewhere, serving(redirect(f"{elsewhere}/jobs")) as url, refused:
        flink_rest.read_rest(url, JOB)
    with serving(redirect("/elsewhere"), other) as url, pytest.raises(ks.InputError, match="lacks the field"):
        flink_rest.read_rest(url, JOB)


def test_no_answer_is_longer_than_allowed(monkeypatch):
    monkeypatch.setattr(flink_rest, "MOST", 1000)
    with serving(OK + b"\r\n" + b"[" * 5000) as url, pytest.raises(ks.InputError, match="more than 1,000 bytes"):
        flink_rest.read_rest(url, JOB)
