"""Bulk submits: the next array is encoded while the server works on the last one."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import jobhall
from jobhall import errors, spec

from .conftest import Hall


class SlowServer:
    """Answers the first array only after a job of the second one was taken from the iterator."""

    def __init__(self) -> None:
        self.second_was_taken = threading.Event()
        self.sizes: list[int] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                jobs = json.loads(self.rfile.read(int(self.headers["content-length"])))
                in_time = outer.second_was_taken.wait(10)
                first = sum(outer.sizes) + 1
                outer.sizes.append(len(jobs))
                found = [{"id": first + n, "disposition": "created"} for n in range(len(jobs))]
                body = json.dumps(found).encode()
                self.send_response(201 if in_time else 404)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def jobs(self) -> Iterator[jobhall.JobSpec]:
        for number in range(3_000):
            if number == 1_500:
                self.second_was_taken.set()
            yield spec("x", number=number)

    def check(self, made: list[Any]) -> None:
        assert len(self.sizes) > 1
        assert [one.id for one in made] == list(range(1, 3_001))
        self.server.shutdown()
        self.server.server_close()


def test_the_next_array_is_encoded_while_the_server_works() -> None:
    server = SlowServer()
    with jobhall.Client(server.url, "t") as client:
        server.check(client.submit_many(server.jobs()))


async def test_the_next_array_is_encoded_while_the_server_works_async() -> None:
    server = SlowServer()
    async with jobhall.AsyncClient(server.url, "t") as client:
        server.check(await asyncio.wait_for(client.submit_many(server.jobs()), 20))


def test_jobs_before_one_that_cannot_be_encoded_are_known(client: jobhall.Client) -> None:
    jobs = [*(spec("x", number=number) for number in range(1_500)), spec("x", number=float("nan"))]
    with pytest.raises(jobhall.PartlySubmitted) as partly:
        client.submit_many(jobs)
    assert len(partly.value.submitted) == 1_000
    assert isinstance(partly.value.__cause__, errors.InvalidRequest)


def test_an_exception_of_the_iterator_reaches_the_caller(hall: Hall) -> None:
    def jobs() -> Iterator[jobhall.JobSpec]:
        for number in range(1_500):
            yield spec("x", number=number)
        raise LookupError("the source is gone")

    with hall.client() as client, pytest.raises(LookupError, match="the source is gone"):
        client.submit_many(jobs())
