"""Messages between a worker and its processes: JSON with its length before it, over a socket."""

from __future__ import annotations

import json
import socket
import struct
import threading
from typing import Any

from ._verdicts import encode

_LENGTH = struct.Struct("<I")


def pack(message: Any) -> bytes:
    return packed(encode(message))


def packed(text: str) -> bytes:
    data = text.encode()
    return _LENGTH.pack(len(data)) + data


class Buffer:
    """Received bytes, from which whole messages are taken."""

    def __init__(self) -> None:
        self._data = bytearray()
        self.received = 0

    def feed(self, data: bytes) -> list[Any]:
        self._data += data
        self.received += len(data)
        found = []
        while len(self._data) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._data)
            end = _LENGTH.size + length
            if len(self._data) < end:
                break
            found.append(json.loads(self._data[_LENGTH.size : end]))
            del self._data[:end]
        return found


class Channel:
    """One end of a blocking socket."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._lock = threading.RLock()
        self._buffer = Buffer()
        self._ready: list[Any] = []

    def send(self, message: Any) -> None:
        data = pack(message)
        with self._lock:
            self._end.sendall(data)

    def receive(self) -> Any:
        """The next message; raises :class:`EOFError` when the other end has closed."""
        while not self._ready:
            data = self._end.recv(1 << 16)
            if not data:
                raise EOFError
            self._ready = self._buffer.feed(data)
        return self._ready.pop(0)
