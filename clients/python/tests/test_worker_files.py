"""Artifacts and inputs: which node gets the request, and what is asked again."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from jobhall import errors
from jobhall._connection import Connection
from jobhall.worker import _files
from jobhall.worker._files import Access, put_artifact


@contextmanager
def node(*answers: str) -> Iterator[tuple[str, list[bytes]]]:
    """A server that gives these answers in turn: the code of a problem, or ``ok``. The last one is repeated."""
    left, bodies = list(answers), list[bytes]()

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            code = left.pop(0) if len(left) > 1 else left[0]
            body = json.dumps({"stored": True} if code == "ok" else {"code": code, "detail": code}).encode()
            self.send_response(200 if code == "ok" else 404 if code == "lease_lost" else 503)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", bodies
    finally:
        server.shutdown()
        server.server_close()


def put(*addresses: str) -> dict[str, Any]:
    return put_artifact(Access(Connection(addresses, ""), "1-1", "token"), "a", b"content", None)


def test_a_node_that_does_not_lead_is_left_for_another() -> None:
    with node("no_leader") as (follower, _), node("ok") as (leader, bodies):
        assert put(follower, leader) == {"stored": True}
        assert bodies == [b"content"]


def test_nodes_that_choose_a_leader_are_waited_for() -> None:
    with node("no_leader", "unavailable", "ok") as (address, bodies):
        assert put("http://127.0.0.1:1", address) == {"stored": True}
        assert bodies == [b"content"] * 3


def test_a_refusal_is_final() -> None:
    with node("lease_lost") as (address, bodies), pytest.raises(errors.LeaseLost):
        put(address, address)
    assert len(bodies) == 1


def test_a_server_that_stays_away_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_files, "NODE_TRIES", 2)
    with pytest.raises(errors.ConnectionFailed, match=r"http://127\.0\.0\.1:1"):
        put("http://127.0.0.1:1")
