"""HTTP of the synchronous client, against servers that answer in unusual ways."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

import jobhall
from jobhall import _transport, errors
from jobhall._core import get

END = b"\r\n\r\n"


class Scripted:
    """A server that answers each request with the next of its answers; one with the word close ends its connection."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                end, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with end, contextlib.suppress(OSError):
                self._serve(end)

    def _serve(self, end: socket.socket) -> None:
        data = b""
        while self.answers:
            while END not in data:
                received = end.recv(65_536)
                if not received:
                    return
                data += received
            head, _, data = data.partition(END)
            length = next(
                (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")), 0
            )
            while len(data) < length:
                data += end.recv(65_536)
            self.requests.append(head)
            data = data[length:]
            answer = self.answers.pop(0)
            end.sendall(answer)
            if b"close" in answer:
                return

    def close(self) -> None:
        self._listener.close()


def answer(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + END + body


def job(id: int) -> bytes:
    return json.dumps({"id": id}).encode()


@pytest.fixture
def scripted() -> Iterator[Callable[..., Scripted]]:
    servers = []

    def make(*answers: bytes) -> Scripted:
        servers.append(Scripted(*answers))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


def read(client: jobhall.Client) -> bytes:
    """A read, which is repeated if its answer was lost."""
    core = client._core
    return client._run(core.send(get("jobs", 1))).body


def test_a_connection_is_used_again(scripted: Callable[..., Scripted]) -> None:
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    server = scripted(answer(b"first"), chunked, answer(b""), answer(b"last"))
    with jobhall.Client(server.url, "t") as client:
        assert [read(client) for _ in range(4)] == [b"first", b"abcde", b"", b"last"]
    assert server.connections == 1
    assert all(b"authorization: Bearer t" in request for request in server.requests)


def test_a_connection_that_the_server_has_closed_is_not_used_again(scripted: Callable[..., Scripted]) -> None:
    server = scripted(
        answer(b"1", "connection: close"), answer(b"2"), b"HTTP/1.1 200 OK\r\nx: close\r\n\r\n3", answer(b"4")
    )
    with jobhall.Client(server.url, "t") as client:
        assert [read(client) for _ in range(4)] == [b"1", b"2", b"3", b"4"]
    assert server.connections == 3


def test_an_answer_that_ends_early_is_requested_again(scripted: Callable[..., Scripted]) -> None:
    short = answer(b"whole", "x: close").replace(b"whole", b"wh")
    chunked = b"HTTP/1.1 200 OK\r\nx: close\r\ntransfer-encoding: chunked\r\n\r\n5\r\nwh"
    with jobhall.Client(scripted(short, chunked, answer(b"whole")).url, "t") as client:
        assert read(client) == b"whole"


def test_an_answer_that_is_no_http_is_an_error(scripted: Callable[..., Scripted]) -> None:
    server = scripted(*[b"SSH-2.0-close" + END] * 4)
    with jobhall.Client(server.url, "t") as client, pytest.raises(errors.ConnectionFailed, match=r"SSH-2\.0"):
        read(client)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (b"HTTP/1.1 200 OK\r\nx" + END, "without a colon"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: -1" + END, "content-length is '-1'"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked" + END + b"1_0\r\n", "the size of a chunk is '1_0'"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked" + END + b"1\r\nab\r\n", "longer than its size"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * (1 << 17), "head of the answer is longer than"),
    ],
)
def test_an_answer_that_is_wrong_http_is_an_error(scripted: Callable[..., Scripted], wrong: bytes, says: str) -> None:
    with jobhall.Client(scripted(*[wrong] * 4).url, "t") as client, pytest.raises(errors.ConnectionFailed, match=says):
        read(client)


def test_an_interim_answer_is_skipped(scripted: Callable[..., Scripted]) -> None:
    with jobhall.Client(scripted(b"HTTP/1.1 103 Early Hints" + END + answer(b"1")).url, "t") as client:
        assert read(client) == b"1"


def test_an_answer_is_bounded(scripted: Callable[..., Scripted], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_transport, "_ANSWER_BYTES", 10)
    server = scripted(*[answer(b"x" * 20)] * 4)
    with (
        jobhall.Client(server.url, "t") as client,
        pytest.raises(errors.ConnectionFailed, match="than 10 bytes"),
    ):
        read(client)


def test_an_address_may_have_a_path(scripted: Callable[..., Scripted]) -> None:
    server = scripted(answer(b"1"))
    with jobhall.Client(f"{server.url}/below", "t") as client:
        assert read(client) == b"1"
    assert server.requests[0].startswith(b"GET /below/api/v1/jobs/1 HTTP/1.1\r\nhost: 127.0.0.1:")


def test_a_host_that_cannot_be_one_is_not_reached() -> None:
    with (
        jobhall.Client(f"http://{'x' * 70}:1", "t") as client,
        pytest.raises(errors.ConnectionFailed, match="no name"),
    ):
        read(client)


def test_a_header_cannot_be_two(client: jobhall.Client) -> None:
    for key in ("a\r\nx: y", "a\nb", "\u00e9"):
        with pytest.raises(errors.InvalidRequest, match="the header idempotency-key has characters"):
            client.submit("add", idempotency_key=key)


def test_a_forked_process_has_connections_of_its_own(scripted: Callable[..., Scripted]) -> None:
    server = scripted(answer(b"1"), answer(b"2", "connection: close"))
    other = scripted(answer(b"3"))
    with jobhall.Client(server.url, "t") as client:
        assert read(client) == b"1"
        pid = os.fork()
        if pid == 0:
            # The server serves one connection at a time: the inherited one would be answered, a new one waits.
            client._core.addresses = (other.url,)
            client._transport._pool._idle[other.url] = client._transport._pool._idle.pop(server.url)
            os._exit(0 if read(client) == b"3" else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert read(client) == b"2"
    assert server.connections == 1
