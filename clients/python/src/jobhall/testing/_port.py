"""One attempt in this process: what takes the place of the session with a server."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import unquote

from .. import models
from .._connection import Connection
from ..errors import JobhallError
from ..worker._files import Access
from ..worker._output import Output
from ..worker._verdicts import encode
from ._jobs import LocalAttempt, moment

if TYPE_CHECKING:
    from ._hall import LocalHall

OUTPUT_BYTES = 16 << 20
"""Output of an attempt that is kept."""
NO_CONNECTION = Connection((), "")


class Recorder(Output):
    """Keeps the output of an attempt instead of sending it."""

    def __init__(self, port: Port) -> None:
        super().__init__(lambda: None, port.thread)
        self._port = port
        self._left = OUTPUT_BYTES

    def write(self, stream: str, data: bytes) -> None:
        attempt = self._port.attempt
        if attempt.outcome is not None:
            return
        if len(data) > self._left:
            attempt.truncated = True
            data = data[: self._left]
        self._left -= len(data)
        if data:
            attempt.output.append((stream, data))
            self._port.reported()


class Watch:
    """The time limits of an attempt, in real time. They are suspended while the attempt waits for other jobs."""

    def __init__(self, total_ms: int | None, silence_ms: int | None, stop: Callable[[str], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._total = None if total_ms is None else total_ms / 1000
        self._silence = None if silence_ms is None else silence_ms / 1000
        self._too_long = f"the attempt took longer than {total_ms} ms"
        self._too_silent = f"there was no output or progress for {silence_ms} ms"
        self._stop = stop
        self._timers: list[asyncio.TimerHandle] = []
        self.last_received = self._since = time.monotonic()
        self.resume()

    def resume(self) -> None:
        self._since = self.last_received = time.monotonic()
        if self._total is not None:
            self._timers.append(self._loop.call_later(self._total, self._stop, self._too_long))
        if self._silence is not None:
            self._timers.append(self._loop.call_later(self._silence, self._check_silence, self._silence))

    def _check_silence(self, limit: float) -> None:
        left = self.last_received + limit - time.monotonic()
        if left <= 0:
            self._stop(self._too_silent)
        else:
            self._timers.append(self._loop.call_later(left, self._check_silence, limit))

    def pause(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        if self._total is not None:
            self._total -= min(self._total, time.monotonic() - self._since)


class Port:
    """What a context reports and requests. Implements the ``Port`` of the worker's contexts."""

    def __init__(self, hall: LocalHall, attempt: LocalAttempt) -> None:
        self.hall = hall
        self.attempt = attempt
        self.loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()
        self.output = Recorder(self)
        self.watch: Watch | None = None
        self.stopped: models.Failure | None = None
        """Why the attempt is stopped."""
        self.timed_out = False
        self.deliver: Callable[[], None] | None = None
        self._asked: set[asyncio.Future[Any]] = set()

    def progress(self, indicator: dict[str, Any]) -> None:
        self.attempt.progress.append(models.Indicator.from_wire(indicator))
        self.reported()

    def reported(self) -> None:
        """Output or progress. The cancel of a test is delivered before the job continues."""
        if self.watch is not None:
            self.watch.last_received = time.monotonic()
        condition = self.hall.cancel_when
        if condition is None or self.stopped is not None or not condition(self.attempt):
            return
        if threading.get_ident() == self.thread:
            self.cancel()
        else:
            delivered = threading.Event()
            self.loop.call_soon_threadsafe(self.cancel)
            self.loop.call_soon_threadsafe(delivered.set)
            delivered.wait()

    def cancel(self) -> None:
        self._stop(models.Failure(reason="cancelled", explanation="cancelled on request"))

    def time_out(self, explanation: str) -> None:
        self.timed_out = self.timed_out or self.stopped is None
        self._stop(models.Failure(reason="timed_out", explanation=explanation))

    def _stop(self, why: models.Failure) -> None:
        if self.stopped is not None or self.attempt.outcome is not None:
            return
        self.stopped = why
        for future in self._asked:
            future.cancel()
        if self.deliver is not None:
            self.deliver()

    def is_cancelled(self) -> bool:
        return self.stopped is not None

    async def ask(self, kind: str, body: Any) -> Any:
        if self.stopped is not None:
            raise asyncio.CancelledError
        if kind == "sub_job":
            return self.hall.call(self.attempt.job, str(body["call"]), as_json(encode(body["job"])))
        return await self.hall.wait_for(self, body)

    def ask_sync(self, kind: str, body: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(self.ask(kind, body), self.loop).result()

    def asked(self, future: asyncio.Future[Any]) -> None:
        """A future that is cancelled with the attempt."""
        self._asked.add(future)
        future.add_done_callback(self._asked.discard)


@dataclass(frozen=True, slots=True)
class LocalAccess(Access):
    """Artifacts and inputs without a server."""

    port: Port

    def request(self, method: str, path: str, **options: Any) -> Any:
        if method == "GET" and path == "inputs":
            return {"items": self.port.hall.inputs(self.port.attempt.job)}
        if path == "queries":
            raise JobhallError("this command runs without a server: what it asks for needs one (jobhall_server)")
        name = unquote(path.removeprefix("artifacts/"))
        given = options["content"]
        content = Path(given).read_bytes() if isinstance(given, str | os.PathLike) else bytes(given)
        attempt = self.port.attempt
        attempt.artifacts[name] = content
        return {
            "at": moment(self.port.hall.now).isoformat(),
            "attempt": f"{attempt.job.id}-{attempt.number}",
            # The server's digest is BLAKE3, which the standard library does not have.
            "digest": hashlib.sha256(content).hexdigest(),
            "media_type": options["headers"]["Content-Type"],
            "name": name,
            "size": len(content),
        }

    def download(self, path: str, file: BinaryIO) -> str:
        found = self.port.hall.values[path.removeprefix("values/")]
        file.write(found.read())
        return found.media_type


def as_json(value: Any) -> Any:
    """The value as the other side reads it."""
    return json.loads(value)
