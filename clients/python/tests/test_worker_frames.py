"""One session carries all messages of a worker, many in a frame."""

from __future__ import annotations

from pathlib import Path

import jobhall
from jobhall import spec

from .conftest import Hall, wait_for
from .proxy import Proxy
from .workers import running


def frames(data: bytes) -> int:
    """The frames that a client has sent after its handshake, whose payloads are masked and whose lengths are not."""
    at, found = data.index(b"\r\n\r\n") + 4, 0
    while at + 2 <= len(data):
        length, head = data[at + 1] & 0x7F, 2
        if length >= 126:
            size = 2 if length == 126 else 8
            length, head = int.from_bytes(data[at + 2 : at + 2 + size], "big"), 2 + size
        at += head + 4 + length
        found += 1
    return found


def test_five_hundred_jobs_need_one_connection_and_few_frames(own_hall: Hall, tmp_path: Path) -> None:
    proxy = Proxy(own_hall.url, drops=0)
    with own_hall.client() as client, running(own_hall, tmp_path, "--server", proxy.url):
        wait_for(lambda: [one.connected for one in client.workers()] == [True], "the session")
        jobs = client.submit_many(spec("add", a=n) for n in range(500))
        assert client.results(jobs, timeout=30) == [n + 1 for n in range(500)]
        assert isinstance(jobs[0], jobhall.Submitted)
        (sent,) = proxy.sent
        # At least two messages a job: its outcome, and the credit for the next one.
        assert 0 < frames(bytes(sent)) < 500
    proxy.close()
