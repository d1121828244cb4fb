"""The attempts of a worker process, in memory that its parent reads after the process has died.

The memory is an anonymous file: writing it costs no system call, and it survives every way to die::

    heartbeat, lease end, state | length, connection as JSON | record, record, ...

A record is the attempt with its lease; it is free if its first byte is 0.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import struct
import time
from dataclasses import asdict, dataclass

from .._connection import Connection

_HEAD_BYTES = 32 * 1024
_RECORD_BYTES = 96
_FIRST_RECORDS = 1_024
_TIMES = struct.Struct("<dd")
_STATE_AT = 16
_CONNECTION_AT = 64
_LENGTH = struct.Struct("<I")

STARTING, CONNECTED, ENDED = 0, 1, 2


@dataclass(frozen=True)
class Left:
    """What a worker process has left behind."""

    state: int
    connection: Connection | None
    name: str | None
    attempts: list[tuple[str, str]]
    """Attempts with their leases."""


class Registry:
    """The view of the worker process, which writes."""

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, 0)
        self._free = list(range(_FIRST_RECORDS - 1, -1, -1))
        self._count = _FIRST_RECORDS

    def add(self, attempt: str, lease: str) -> int:
        """Writes a record; its number frees it."""
        if not self._free:
            self._grow()
        number = self._free.pop()
        at = _HEAD_BYTES + number * _RECORD_BYTES
        record = f"{attempt} {lease}".encode()
        self._map[at : at + _RECORD_BYTES] = record.ljust(_RECORD_BYTES, b" ")
        return number

    def remove(self, number: int) -> None:
        self._map[_HEAD_BYTES + number * _RECORD_BYTES] = 0
        self._free.append(number)

    def _grow(self) -> None:
        before, self._count = self._count, self._count * 2
        self._map.resize(_HEAD_BYTES + self._count * _RECORD_BYTES)
        self._free = list(range(self._count - 1, before - 1, -1))

    def heartbeat(self, lease_end: float) -> None:
        """Records that the event loop runs, and until when its leases certainly hold."""
        _TIMES.pack_into(self._map, 0, time.monotonic(), lease_end)

    def connected(self) -> None:
        self._map[_STATE_AT] = CONNECTED

    def ended(self) -> None:
        """Marks that the process ends in order: whatever its exit code, it has not crashed."""
        self._map[_STATE_AT] = ENDED

    def set_connection(self, connection: Connection, name: str | None) -> None:
        text = json.dumps({"connection": asdict(connection), "name": name}).encode()
        if len(text) <= _HEAD_BYTES - _CONNECTION_AT - _LENGTH.size:
            _LENGTH.pack_into(self._map, _CONNECTION_AT, len(text))
            start = _CONNECTION_AT + _LENGTH.size
            self._map[start : start + len(text)] = text


class Shared:
    """The view of the parent, which reads."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("jobhall-worker", os.MFD_CLOEXEC)
        os.ftruncate(self.descriptor, _HEAD_BYTES + _FIRST_RECORDS * _RECORD_BYTES)

    def _read(self, size: int = -1) -> bytes:
        return os.pread(self.descriptor, os.fstat(self.descriptor).st_size if size < 0 else size, 0)

    def times(self) -> tuple[float, float]:
        """When the event loop last ran, and when its leases end; zeros before the first session."""
        heartbeat, lease_end = _TIMES.unpack_from(self._read(_TIMES.size))
        return heartbeat, lease_end

    def state(self) -> int:
        return self._read(_STATE_AT + 1)[_STATE_AT]

    def left(self) -> Left:
        data = self._read()
        (length,) = _LENGTH.unpack_from(data, _CONNECTION_AT)
        connection, name = None, None
        if length:
            start = _CONNECTION_AT + _LENGTH.size
            known = json.loads(data[start : start + length])
            fields = known["connection"]
            connection, name = Connection(**{**fields, "addresses": tuple(fields["addresses"])}), known["name"]
        attempts = []
        for at in range(_HEAD_BYTES, len(data), _RECORD_BYTES):
            if data[at]:
                with contextlib.suppress(ValueError):
                    attempt, lease = data[at : at + _RECORD_BYTES].decode("ascii", "replace").split()
                    attempts.append((attempt, lease))
        return Left(data[_STATE_AT], connection, name, attempts)

    def close(self) -> None:
        os.close(self.descriptor)
