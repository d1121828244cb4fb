"""HTTP/1.1 of the synchronous client, on sockets.

A general library takes longer for a request than the server takes to store a job.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import socket
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from ._core import Lost, Reply
from .errors import InvalidRequest

if TYPE_CHECKING:
    import ssl

CONNECT_SECONDS = 5.0
IDLE_SECONDS = 30.0
"""How long an unused connection is kept."""
IDLE_CONNECTIONS = 20
SEND_BYTES = 256 * 1024
"""The time limit counts for each piece of this size."""
READ_BYTES = 64 * 1024
HEAD_BYTES = 64 * 1024
ENDED = "the connection has ended before the answer"
_STATUS = re.compile(r"[1-5][0-9]{2}( |$)")
_LENGTH = re.compile(r"[0-9]{1,18}")
_SIZE = re.compile(r"[0-9a-fA-F]{1,15}")


class Address:
    """The parts of the address of a server."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.is_tls = parts.scheme == "https"
        self.host = parts.hostname or ""
        self.port = parts.port or (443 if self.is_tls else 80)
        name = f"[{self.host}]" if ":" in self.host else self.host.encode("idna").decode()
        self.host_header = name if parts.port is None else f"{name}:{parts.port}"
        self.prefix = quote(parts.path, safe="/%")


class Malformed(Exception):
    """The answer is no HTTP/1.1."""


class _Received:
    """What has come over a connection and was not read yet."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self._data = b""

    def _more(self) -> None:
        data = self.end.recv(READ_BYTES)
        if not data:
            raise Malformed("the server has closed the connection" if not self._data else ENDED)
        self._data += data

    def until(self, mark: bytes) -> bytes:
        """What comes before a mark."""
        while (at := self._data.find(mark)) < 0:
            if len(self._data) > HEAD_BYTES:
                raise Malformed(f"the head of the answer is longer than {HEAD_BYTES} bytes")
            self._more()
        found, self._data = self._data[:at], self._data[at + len(mark) :]
        return found

    def some(self, most: int) -> bytes:
        """At least one byte, unless the connection has ended."""
        if not self._data:
            return self.end.recv(min(most, READ_BYTES))
        found, self._data = self._data[:most], self._data[most:]
        return found

    def is_empty(self) -> bool:
        return not self._data


def _head(text: bytes) -> tuple[str, int, dict[str, str]]:
    """The version, the status and the headers, with names in lower case."""
    first, *lines = text.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    if not (version.startswith("HTTP/1.") and _STATUS.match(rest)):
        raise Malformed(f"the answer is no HTTP/1.1: {first!r:.80}")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise Malformed(f"the answer has a header without a colon: {line!r:.80}")
        name, value = name.strip().lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return version, int(rest[:3]), headers


class Exchange:
    """An answer whose head was read. Its connection is used again when the body was read to its end."""

    def __init__(self, pool: Pool, key: str, end: socket.socket, method: str) -> None:
        self._pool = pool
        self._key = key
        self._end: socket.socket | None = end
        self._received = _Received(end)
        version, self.status, self.headers = _head(self._received.until(b"\r\n\r\n"))
        while 100 <= self.status < 200:
            version, self.status, self.headers = _head(self._received.until(b"\r\n\r\n"))
        options = self.headers.get("connection", "").lower()
        self._closes = "close" in options or (version == "HTTP/1.0" and "keep-alive" not in options)
        self._chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        self._left: int | None = 0
        """Bytes of the body, or of the chunk, that were not read; none if the body has no length."""
        if method == "HEAD" or self.status in (204, 304):
            self._chunked = False
        elif not self._chunked:
            self._left = self._length()
            self._closes |= self._left is None

    def _length(self) -> int | None:
        text = self.headers.get("content-length")
        if text is None:
            return None
        if not _LENGTH.fullmatch(text):
            raise Malformed(f"content-length is {text!r:.80}")
        return int(text)

    def read(self) -> bytes:
        """The next piece of the body; empty at its end."""
        if self._end is None:
            return b""
        try:
            piece = self._piece()
        except (OSError, Malformed) as error:
            self.close()
            raise _lost(error) from error
        if not piece:
            end, self._end = self._end, None
            if self._closes or not self._received.is_empty():
                end.close()
            else:
                self._pool.put(self._key, end)
        return piece

    def _piece(self) -> bytes:
        if self._chunked and not self._left:
            self._left = self._chunk()
        if self._left is None:
            return self._received.some(READ_BYTES)
        if not self._left:
            return b""
        piece = self._received.some(self._left)
        if not piece:
            raise Malformed(ENDED)
        self._left -= len(piece)
        if self._chunked and not self._left and self._received.until(b"\r\n"):
            raise Malformed("a chunk of the answer is longer than its size")
        return piece

    def _chunk(self) -> int:
        """The size of the next chunk. After the last one come trailers, which are not used."""
        size = self._received.until(b"\r\n").decode("latin-1").partition(";")[0].strip()
        if not _SIZE.fullmatch(size):
            raise Malformed(f"the size of a chunk is {size!r:.80}")
        if not int(size, 16):
            while self._received.until(b"\r\n"):
                continue
            self._chunked = False
        return int(size, 16)

    def close(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            end.close()


class Pool:
    """The connections to the servers, for any number of threads."""

    def __init__(self, tls: ssl.SSLContext | None, headers: Mapping[str, str]) -> None:
        self._tls = tls
        self._head = _lines(headers)
        self._addresses: dict[str, Address] = {}
        self._idle: dict[str, list[tuple[float, socket.socket]]] = {}
        self._process = os.getpid()
        self._closed = False

    def send(
        self,
        address: str,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: float,
        meanwhile: Callable[[], None] | None = None,
    ) -> Exchange:
        """Sends a request and reads the head of its answer."""
        to = self._addresses.get(address) or self._parse(address)
        lines = _lines(headers)
        if body is not None or method in ("POST", "PUT", "PATCH"):
            lines += f"content-length: {len(body or b'')}\r\n"
        head = f"{method} {to.prefix}{path} HTTP/1.1\r\nhost: {to.host_header}\r\n{self._head}{lines}\r\n".encode(
            "ascii"
        )
        end = self._take(address) or self._connect(to)
        try:
            end.settimeout(timeout)
            _send(end, head + body if body else head)
            if meanwhile is not None:
                meanwhile()
            return Exchange(self, address, end, method)
        except (OSError, Malformed) as error:
            end.close()
            raise _lost(error) from error
        except BaseException:
            end.close()
            raise

    def _parse(self, address: str) -> Address:
        try:
            return self._addresses.setdefault(address, Address(address))
        except ValueError as error:
            raise Lost(f"{address!r} has no name of a host: {error}", unsent=True) from error

    def _connect(self, to: Address) -> socket.socket:
        try:
            end = socket.create_connection((to.host, to.port), CONNECT_SECONDS)
            try:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if to.is_tls and self._tls is not None:
                    end = self._tls.wrap_socket(end, server_hostname=to.host)
            except BaseException:
                end.close()
                raise
        except (OSError, ValueError) as error:
            raise Lost(str(error) or type(error).__name__, unsent=True, timed_out=_is_timeout(error)) from error
        return end

    def _take(self, key: str) -> socket.socket | None:
        """An idle connection that the server has not closed."""
        if self._process != os.getpid():
            # Two processes must not share a connection: this one was forked.
            self._process, self._idle = os.getpid(), {}
        idle = self._idle.get(key)
        while idle:
            try:
                since, end = idle.pop()
            except IndexError:
                return None
            if time.monotonic() < since + IDLE_SECONDS and not _is_readable(end):
                return end
            end.close()
        return None

    def put(self, key: str, end: socket.socket) -> None:
        """A connection whose answer was read."""
        idle = self._idle.setdefault(key, [])
        if self._closed or self._process != os.getpid() or len(idle) >= IDLE_CONNECTIONS:
            end.close()
        else:
            idle.append((time.monotonic(), end))

    def close(self) -> None:
        self._closed = True
        for idle in self._idle.values():
            while idle:
                idle.pop()[1].close()


def _lines(headers: Mapping[str, str]) -> str:
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            # The value may be a token. With a line break, it would be two headers.
            raise InvalidRequest(f"the header {name} has characters that cannot be sent (printable ASCII can)")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items())


def _send(end: socket.socket, data: bytes) -> None:
    try:
        if len(data) <= SEND_BYTES:
            end.sendall(data)
        else:
            view = memoryview(data)
            for start in range(0, len(data), SEND_BYTES):
                end.sendall(view[start : start + SEND_BYTES])
    except (BrokenPipeError, ConnectionResetError):
        # The server may have answered before it has read everything: its answer is read.
        return


def _is_readable(end: socket.socket) -> bool:
    """Whether an idle connection has something to read: its end, usually."""
    poll = select.poll()
    with contextlib.suppress(ValueError, OSError):
        poll.register(end, select.POLLIN)
        return bool(poll.poll(0))
    return True


def _is_timeout(error: Exception) -> bool:
    return isinstance(error, TimeoutError)


def _lost(error: Exception) -> Lost:
    return Lost(str(error) or type(error).__name__, timed_out=_is_timeout(error))


def whole(exchange: Exchange, limit: int) -> Reply:
    """The complete answer."""
    pieces, size = [], 0
    try:
        while piece := exchange.read():
            pieces.append(piece)
            size += len(piece)
            if size > limit:
                raise Lost(f"the answer is longer than {limit} bytes")
    finally:
        exchange.close()
    return Reply(exchange.status, exchange.headers, b"".join(pieces))
