"""The output of attempts: what a job prints or logs goes to the attempt whose context it runs in."""

from __future__ import annotations

import contextvars
import io
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol, TextIO

from . import _forks

CHUNK = 48 * 1024
PENDING_BYTES = 1 << 20


class Sink(Protocol):
    """Takes what a job prints."""

    def write(self, stream: str, data: bytes) -> None: ...


current: contextvars.ContextVar[Sink | None] = contextvars.ContextVar("jobhall_output", default=None)


class Output:
    """The unsent output of one attempt. Memory is bounded: a thread waits for room, the event loop drops."""

    __slots__ = (
        *("_dropped", "_loop_thread", "_pieces", "_room", "_size", "_wake", "closed", "offset"),
        "lock",
        "on_room",
    )

    def __init__(self, wake: Callable[[], None], loop_thread: int) -> None:
        self._wake = wake
        self._loop_thread = loop_thread
        self.lock = threading.Lock()
        self._room: threading.Condition | None = None
        self._pieces: deque[tuple[str, bytearray]] | None = None
        self._size = 0
        self._dropped = 0
        self.closed = False
        self.offset = 0
        self.on_room: Callable[[], None] | None = None
        """Called in the event loop when a chunk was taken or the output was closed."""

    def write(self, stream: str, data: bytes) -> None:
        waits = threading.get_ident() != self._loop_thread
        for start in range(0, len(data), PENDING_BYTES):
            self._add(stream, data[start : start + PENDING_BYTES], waits)

    def _add(self, stream: str, data: bytes, waits: bool) -> None:
        with self.lock:
            while waits and not self.closed and self._size >= PENDING_BYTES:
                self._room = self._room or threading.Condition(self.lock)
                self._room.wait(1)
            if self.closed:
                return
            if self._size >= PENDING_BYTES:
                self._dropped += len(data)
                return
            pieces = self._pieces
            if pieces is None:
                pieces = self._pieces = deque()
            if pieces and pieces[-1][0] == stream:
                pieces[-1][1].extend(data)
            else:
                pieces.append((stream, bytearray(data)))
            first = self._size == 0
            self._size += len(data)
        if first:
            self._wake()

    def is_full(self) -> bool:
        return self._size >= PENDING_BYTES and not self.closed

    def __bool__(self) -> bool:
        return self._size > 0 or self._dropped > 0

    def take(self) -> tuple[str, bytes] | None:
        """The next chunk to send."""
        with self.lock:
            if not self._pieces:
                if self._dropped:
                    line = f"[{self._dropped} bytes of output were dropped: too many at once]\n"
                    self._dropped = 0
                    return "stderr", line.encode()
                return None
            stream, data = self._pieces[0]
            chunk = bytes(data[:CHUNK])
            if len(data) > CHUNK:
                del data[:CHUNK]
            else:
                self._pieces.popleft()
            self._size -= len(chunk)
            if self._room is not None:
                self._room.notify_all()
        if self.on_room is not None:
            self.on_room()
        return stream, chunk

    def close(self) -> None:
        """Further output is dropped: the server's limit is reached, or the attempt has ended."""
        if self.closed:
            return
        with self.lock:
            self.closed = True
            self._pieces = None
            self._size = self._dropped = 0
            if self._room is not None:
                self._room.notify_all()
        # The attempt refers to its output: without a way back, both are freed without a garbage collection.
        self._wake = _nobody
        if self.on_room is not None:
            self.on_room()


def _nobody() -> None:
    """Replaces the function that wakes the session."""


def _output() -> Sink | None:
    """The output of the job that runs here. A process that a job has forked cannot send any."""
    return None if _forks.is_fork() else current.get()


class _Stream(io.TextIOBase):
    """Replaces ``sys.stdout`` or ``sys.stderr``; outside of a job the original is used."""

    def __init__(self, name: str, original: TextIO) -> None:
        self._name = name
        self.original = original

    def write(self, text: str) -> int:
        output = _output()
        if output is None:
            return self.original.write(text)
        if text:
            output.write(self._name, text.encode("utf-8", "replace"))
        return len(text)

    def flush(self) -> None:
        if _output() is None:
            self.original.flush()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.original.fileno()

    def isatty(self) -> bool:
        return False

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        output = _output()
        if output is None:
            return
        try:
            output.write("stderr", (self.format(record) + "\n").encode("utf-8", "replace"))
        except Exception:
            # A wrong format is no failure of the job: as with other handlers, the error is printed.
            self.handleError(record)


FORMAT = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")


def outside_of_jobs(_: logging.LogRecord) -> bool:
    """A filter for handlers of the worker's own log."""
    return _output() is None


class Capture:
    """Redirects the standard streams and the root logger while it is entered."""

    def __init__(self, level: int = logging.INFO) -> None:
        self._level = level
        self._handler = _Handler()
        self._handler.setFormatter(FORMAT)
        self._before: tuple[TextIO, TextIO, int] | None = None

    def __enter__(self) -> Capture:
        _forks.begin()
        root = logging.getLogger()
        self._before = (sys.stdout, sys.stderr, root.level)
        sys.stdout = _Stream("stdout", sys.stdout)
        sys.stderr = _Stream("stderr", sys.stderr)
        root.addHandler(self._handler)
        if root.level == logging.WARNING:
            root.setLevel(self._level)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._before is not None
        sys.stdout, sys.stderr, level = self._before
        root = logging.getLogger()
        root.removeHandler(self._handler)
        root.setLevel(level)


def capture_descriptors() -> None:
    """Opens the standard streams again, on their descriptors, and sends the root logger to them."""
    old = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # type: ignore[misc]
    root = logging.getLogger()
    for handler in list(root.handlers):
        if isinstance(handler, logging.StreamHandler) and handler.stream in old:
            root.removeHandler(handler)
    own = logging.StreamHandler(sys.stderr)
    own.setFormatter(FORMAT)
    root.addHandler(own)
    if root.level == logging.WARNING:
        root.setLevel(logging.INFO)
