"""The WebSocket session with a server: how it is opened, its frames, and the lease."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import websockets.exceptions
from websockets.asyncio.client import ClientConnection, connect

from .. import _tls
from .._core import read_json
from ..errors import JobhallError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from .._connection import Connection

SUBPROTOCOL = "jobhall.v1.json"
FRAME_BYTES = 1 << 20
_log = logging.getLogger("jobhall.worker.session")
# At the level of debug, the library logs all headers, with the token.
_log.setLevel(logging.INFO)
FRAME_MESSAGES = 4_096
OPEN_SECONDS = 10.0
HOLD_SECONDS = 0.001
"""A frame that follows another one this soon waits as long, for more messages."""


class Refused(JobhallError):
    """The server refused the hello or the token: only a ``conflict`` may pass."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class Unreachable(JobhallError):
    """The server could not be reached."""


@dataclass
class Term:
    """The term of the leases. Counted from when a renewal was sent, it ends here before it ends there."""

    lease: float
    since: float
    asked: float | None = field(default=None)

    def is_due(self, now: float) -> bool:
        return self.asked is None and now >= self.since + self.lease * 19 / 60

    def is_unanswered(self, now: float) -> bool:
        return self.asked is not None and now >= self.asked + self.lease / 6

    def end(self) -> float:
        return self.since + self.lease * 5 / 6

    def is_over(self, now: float) -> bool:
        return now >= self.end()

    def renewed(self) -> None:
        if self.asked is not None:
            self.since, self.asked = self.asked, None


def ssl_context(connection: Connection, address: str) -> ssl.SSLContext | None:
    """The TLS settings for an address; none without TLS. They are made once: that costs more than a request."""
    return _tls_of(connection) if address.startswith("https:") else None


_tls_of = functools.lru_cache(maxsize=8)(_tls.ssl_context)


class Session:
    """An open session. Messages are encoded JSON; those of one turn of the event loop share a frame."""

    def __init__(self, socket: ClientConnection, welcome: dict[str, Any], since: float) -> None:
        self.socket = socket
        self.welcome = welcome
        self.term = Term(welcome["lease_ms"] / 1000, since)
        self.assigned = 0
        self.granted: int | None = None
        self._out: list[str] = []
        self._ready = asyncio.Event()
        self.before_write: Callable[[], None] = lambda: None
        """Called before a frame is built, to add what depends on all messages before it."""

    def touch(self) -> None:
        self._ready.set()

    def send(self, message: str) -> None:
        if not self._out:
            self._ready.set()
        self._out.append(message)

    async def write(self) -> None:
        """Sends frames until the connection ends."""
        clock, sent = asyncio.get_running_loop().time, 0.0
        while True:
            await self._ready.wait()
            if clock() < sent + HOLD_SECONDS:
                await asyncio.sleep(HOLD_SECONDS)
            self.before_write()
            self._ready.clear()
            out, self._out = self._out, []
            for frame in frames(out) if out else ():
                await self.socket.send(frame)
            sent = clock()

    def abort(self) -> None:
        """Ends the connection without waiting for the server."""
        self.socket.transport.abort()

    async def receive(self) -> list[dict[str, Any]]:
        frame = await self.socket.recv()
        messages: list[dict[str, Any]] = read_json(frame)
        return messages

    async def leave(self) -> None:
        """Leaves permanently; the messages before it are sent first."""
        out, self._out = [*self._out, '{"leave":{}}'], []
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                for frame in frames(out):
                    await self.socket.send(frame)
                while True:
                    await self.socket.recv()
        except (websockets.exceptions.ConnectionClosed, TimeoutError, OSError):
            await self.socket.close()


def frames(messages: list[str]) -> list[str]:
    """The messages in as few frames as the limits permit."""
    if len(messages) <= FRAME_MESSAGES and sum(map(len, messages)) < FRAME_BYTES // 4:
        return ["[" + ",".join(messages) + "]"]
    found: list[str] = []
    part: list[str] = []
    size = 2
    for message in messages:
        length = len(message.encode()) + 1
        if part and (size + length > FRAME_BYTES or len(part) == FRAME_MESSAGES):
            found.append("[" + ",".join(part) + "]")
            part, size = [], 2
        part.append(message)
        size += length
    found.append("[" + ",".join(part) + "]")
    return found


async def open_session(connection: Connection, address: str, worker: str | None, hello: dict[str, Any]) -> Session:
    """Opens a session at one address."""
    headers = {}
    if connection.token:
        headers["Authorization"] = f"Bearer {connection.token}"
    if worker:
        headers["Jobhall-Worker"] = worker
    url = "ws" + address.removeprefix("http") + "/api/v1/session"
    loop = asyncio.get_running_loop()
    try:
        socket = await connect(
            url,
            ssl=ssl_context(connection, address),
            additional_headers=headers,
            subprotocols=[SUBPROTOCOL],  # type: ignore[list-item]
            compression=None,
            logger=_log,
            open_timeout=OPEN_SECONDS,
            ping_interval=None,
            max_size=2 * FRAME_BYTES,
            proxy=None,
        )
    except websockets.exceptions.InvalidStatus as error:
        code, detail = _problem(bytes(error.response.body or b""), error.response.status_code)
        if error.response.status_code in (400, 401, 403):
            raise Refused(code, detail) from None
        raise Unreachable(detail) from None
    except (OSError, TimeoutError, websockets.exceptions.WebSocketException) as error:
        raise Unreachable(f"{address}: {error or type(error).__name__}") from None
    since = loop.time()
    try:
        async with asyncio.timeout(OPEN_SECONDS):
            await socket.send(json.dumps([{"hello": hello}]))
            first = json.loads(await socket.recv())[0]
        if "refused" not in first:
            return Session(socket, first["welcome"], since)
        refused = Refused(first["refused"]["code"], first["refused"]["detail"])
    except (OSError, TimeoutError, websockets.exceptions.WebSocketException) as error:
        await socket.close()
        raise Unreachable(f"{address}: no answer to hello: {error}") from None
    except (ValueError, LookupError, TypeError):
        await socket.close()
        raise Unreachable(f"{address}: the answer to hello did not come from a Jobhall server") from None
    await socket.close()
    raise refused


def _problem(body: bytes, status: int) -> tuple[str, str]:
    try:
        problem = json.loads(body)
        return str(problem.get("code", "")), str(problem.get("detail", ""))
    except ValueError:
        return "", f"status {status}"
