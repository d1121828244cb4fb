"""The two ways to perform the effects of an operation: blocking, and with asyncio. They decide nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar, cast

import httpx2

from ._connection import Connection
from ._core import Close, Core, Effect, Lost, Op, Open, Opened, Pause, Read, Reply, Send
from ._http import CONNECT_SECONDS, Exchange, Pool, whole
from ._tls import ssl_context

T = TypeVar("T")
_ANSWER_BYTES = 64 << 20


def _settings(connection: Connection) -> dict[str, Any]:
    uses_tls = any(address.startswith("https") for address in connection.addresses)
    return {
        "verify": ssl_context(connection) if uses_tls else False,
        # A server on this machine is not behind a proxy, and a remote server is given by its own address.
        "trust_env": False,
        # A Jobhall server never redirects; another server might do so to obtain the token.
        "follow_redirects": False,
        "limits": httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=30.0),
    }


async def _body(body: bytes, meanwhile: Callable[[], None]) -> AsyncIterator[bytes]:
    """A body that says when it was sent."""
    yield body
    meanwhile()


def _arguments(core: Core, effect: Send | Open) -> dict[str, Any]:
    request = effect.request
    headers, content = {**core.base_headers, **request.headers}, cast("Any", request.body)
    if content is not None and request.meanwhile is not None:
        headers["content-length"] = str(len(content))
        content = _body(content, request.meanwhile)
    return {
        "method": request.method,
        "url": effect.address + request.path,
        "headers": headers,
        "content": content,
        "timeout": httpx2.Timeout(request.timeout, connect=CONNECT_SECONDS),
    }


def _lost(error: httpx2.TransportError) -> Lost:
    unsent = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
    timed_out = isinstance(error, httpx2.TimeoutException)
    return Lost(str(error) or type(error).__name__, unsent=unsent, timed_out=timed_out)


def _too_long(size: int) -> None:
    if size > _ANSWER_BYTES:
        raise Lost(f"the answer is longer than {_ANSWER_BYTES} bytes")


class SyncTransport:
    """Performs operations in the calling thread."""

    def __init__(self, connection: Connection) -> None:
        self.core = Core(connection.addresses, connection.token)
        uses_tls = any(address.startswith("https") for address in connection.addresses)
        self._pool = Pool(ssl_context(connection) if uses_tls else None, self.core.base_headers)

    def run(self, op: Op[T]) -> T:
        """Runs an operation to its end."""
        try:
            effect = next(op)
            while True:
                try:
                    result = self._perform(effect)
                except Lost as lost:
                    effect = op.throw(lost)
                else:
                    effect = op.send(result)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _perform(self, effect: Effect) -> Any:
        match effect:
            case Send():
                return whole(self._open(effect), _ANSWER_BYTES)
            case Open():
                exchange = self._open(effect)
                return Opened(exchange.status, exchange.headers, exchange)
            case Read(handle):
                return handle.read()
            case Close(handle):
                handle.close()
            case Pause(seconds):
                time.sleep(seconds)
        return None

    def _open(self, effect: Send | Open) -> Exchange:
        request = effect.request
        return self._pool.send(
            *(effect.address, request.method, request.path, request.headers, request.body),
            timeout=request.timeout,
            meanwhile=request.meanwhile,
        )

    def close(self) -> None:
        self._pool.close()


class AsyncTransport:
    """Performs operations in the running event loop."""

    def __init__(self, connection: Connection) -> None:
        self.core = Core(connection.addresses, connection.token)
        self._http = httpx2.AsyncClient(**_settings(connection))

    async def run(self, op: Op[T]) -> T:
        """Runs an operation to its end."""
        try:
            effect = next(op)
            while True:
                try:
                    result = await self._perform(effect)
                except Lost as lost:
                    effect = op.throw(lost)
                except httpx2.TransportError as error:
                    effect = op.throw(_lost(error))
                else:
                    effect = op.send(result)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def _perform(self, effect: Effect) -> Any:
        match effect:
            case Send():
                opened = await self._open(effect)
                pieces, size = [], 0
                try:
                    async for piece in opened.handle[1]:
                        pieces.append(piece)
                        _too_long(size := size + len(piece))
                finally:
                    await opened.handle[0].aclose()
                return Reply(opened.status, opened.headers, b"".join(pieces))
            case Open():
                return await self._open(effect)
            case Read(handle):
                return await anext(handle[1], b"")
            case Close(handle):
                await handle[0].aclose()
            case Pause(seconds):
                await asyncio.sleep(seconds)
        return None

    async def _open(self, effect: Send | Open) -> Opened:
        request = self._http.build_request(**_arguments(self.core, effect))
        response = await self._http.send(request, stream=True)
        return Opened(response.status_code, response.headers, (response, response.aiter_raw()))

    async def close(self) -> None:
        await self._http.aclose()
