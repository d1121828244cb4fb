"""A process of the pool: it runs one job at a time, in its main thread, until the worker closes its socket."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import itertools
import os
import signal
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import ApiError, JobhallError
from . import _forks, _processes, _verdicts
from ._channel import Channel
from ._context import Context
from ._files import Access, put_artifact
from ._output import capture_descriptors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from mmap import mmap

    from .._connection import Connection
    from . import JobFunction, Worker

PROGRESS_SECONDS = 0.05


def run_member(worker: Worker, connection: Connection, jobs: int, replies: int, started: mmap, number: int) -> NoReturn:
    """``started`` has a byte for each process, which says whether it has taken its job."""
    capture_descriptors()
    _forks.handles(signal.SIGTERM, signal.SIGINT)
    member = _Member(worker, connection, jobs, replies)
    while True:
        try:
            message = member.channel.receive()
        except (EOFError, ConnectionError):
            os._exit(0)
        started[number] = 1
        member.run(message)


class _Member:
    def __init__(self, worker: Worker, connection: Connection, jobs: int, replies: int) -> None:
        self.worker = worker
        self.connection = connection
        self.channel = Channel(socket.socket(fileno=jobs))
        self._replies = Channel(socket.socket(fileno=replies))
        self._streams = (sys.stdout, sys.stderr)
        self._process = os.getpid()
        self._active = self._pending = self._interrupts = False
        self._shielded = 0
        self._runner: asyncio.Runner | None = None
        self._task: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._numbers = itertools.count()
        self._asked: dict[int, concurrent.futures.Future[Any]] = {}
        self._listening = False
        self._lock = threading.Lock()
        self._indicators: dict[str, dict[str, Any]] = {}
        self._flush_at = 0.0
        self.cancelled = False

    def run(self, message: dict[str, Any]) -> None:
        self.cancelled = self._pending = False
        signal.signal(signal.SIGTERM, self._cancel)
        value, error = None, None
        try:
            value, error = self._outcome(message)
        except _verdicts.Cancelled as late:
            # It arrived after the job had ended.
            error = late
        self._active = False
        if os.getpid() != self._process:
            # The job has forked, and this is the copy: the attempt belongs to the original.
            os._exit(0 if error is None else 1)
        self._report(message, value, error)
        self._restore_streams()

    def _outcome(self, message: dict[str, Any]) -> tuple[Any, BaseException | None]:
        try:
            function = self.worker.functions[message["job"]["type"]]
            arguments = function.signature.bind(message["job"]["params"])
            if function.signature.context:
                access = Access(self.connection, message["attempt"], message["token"])
                arguments[function.signature.context] = Context(self, access, message["job"])
            self._interrupts = not function.is_async
            self._active = True
            value = self._call(function, arguments)
            self._active = False
        except BaseException as error:
            self._active = False
            return None, error
        return value, None

    def _call(self, function: JobFunction, arguments: dict[str, Any]) -> Any:
        if not function.is_async:
            return function.function(**arguments)
        if self._runner is None:
            self._runner = asyncio.Runner()
        loop = self._runner.get_loop()

        async def call() -> Any:
            task = asyncio.current_task()
            assert task is not None
            self._task = (loop, task)
            if self.cancelled:
                task.cancel()
            return await function.function(**arguments)

        try:
            return self._runner.run(call())
        finally:
            self._task = None

    def _cancel(self, *_: Any) -> None:
        """The handler of SIGTERM, which says that the job should end."""
        if not self._active or os.getpid() != self._process:
            return
        self.cancelled = True
        if self._task is not None:
            loop, task = self._task
            loop.call_soon_threadsafe(task.cancel)
        elif self._shielded:
            self._pending = True
        elif self._interrupts:
            raise _verdicts.Cancelled

    @contextlib.contextmanager
    def _shield(self) -> Iterator[None]:
        """Defers a cancel: a message is sent completely."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._shielded += 1
        try:
            yield
        finally:
            self._shielded -= 1
        if self._pending and not self._shielded and self._active:
            self._pending = False
            raise _verdicts.Cancelled

    def _report(self, message: dict[str, Any], value: Any, error: BaseException | None) -> None:
        report, text = self._verdict(message, value, error)
        for stream, final in zip(self._streams, ("", _verdicts.final_message(error)), strict=True):
            with contextlib.suppress(Exception):
                stream.write(final)
                stream.flush()
        _processes.end_children()
        with self._lock:
            self._flush()
        self.channel.send(["end", report, text])

    def _verdict(
        self, message: dict[str, Any], value: Any, error: BaseException | None
    ) -> tuple[_verdicts.Report, str | None]:
        if self.cancelled:
            return _verdicts.cancelled(), None
        if error is not None:
            return _verdicts.of_exception(error), None
        if message["job"].get("external"):
            return {"outcome": "started"}, None
        encoded = _verdicts.encode_result(value)
        if not isinstance(encoded, str):
            return encoded, None
        if _verdicts.is_inline(value, encoded):
            return _verdicts.SUCCEEDED, encoded
        access = Access(self.connection, message["attempt"], message["token"])
        return _verdicts.store_result(lambda data: put_artifact(access, "result", data, "application/json"), encoded)

    def _restore_streams(self) -> None:
        """What a job has done to the standard streams does not reach the next one."""
        sys.stdout, sys.stderr = self._streams
        try:
            for stream in self._streams:
                os.fstat(stream.fileno())
        except (OSError, ValueError):
            # One of them is closed. The next job gets another process.
            os._exit(0)

    # The port of the context.

    def is_cancelled(self) -> bool:
        return self.cancelled

    def progress(self, indicator: dict[str, Any]) -> None:
        with self._shield(), self._lock:
            now = time.monotonic()
            first = not self._indicators
            self._indicators[indicator["name"]] = indicator
            if now >= self._flush_at:
                self._flush_at = now + PROGRESS_SECONDS
                self._flush()
            elif first:
                timer = threading.Timer(self._flush_at - now, self._flush_later)
                timer.daemon = True
                timer.start()

    def _flush_later(self) -> None:
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        if self._indicators and os.getpid() == self._process:
            indicators, self._indicators = self._indicators, {}
            self.channel.send(["progress", list(indicators.values())])

    def _ask(self, kind: str, body: Any) -> concurrent.futures.Future[Any]:
        if self.cancelled:
            raise _verdicts.Cancelled
        if os.getpid() != self._process:
            raise JobhallError("a process that the job has forked cannot submit or wait for sub-jobs")
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        with self._shield():
            with self._lock:
                number = next(self._numbers)
                self._asked[number] = future
                if not self._listening:
                    self._listening = True
                    threading.Thread(target=self._listen, daemon=True, name="jobhall").start()
            self.channel.send(["ask", number, kind, body])
        return future

    async def ask(self, kind: str, body: Any) -> Any:
        return await asyncio.wrap_future(self._ask(kind, body))

    def ask_sync(self, kind: str, body: Any) -> Any:
        return self._ask(kind, body).result()

    def _listen(self) -> None:
        while True:
            try:
                kind, number, *rest = self._replies.receive()
            except (EOFError, OSError):
                return
            future = self._asked.pop(number, None)
            if future is None or future.cancelled():
                continue
            if kind == "reply":
                future.set_result(rest[0])
            elif kind == "refused":
                future.set_exception(ApiError.from_problem(0, {"code": rest[0], "detail": rest[1]}))
            else:
                future.cancel()
