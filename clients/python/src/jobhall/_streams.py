"""Streams of events and logs, and waits for ends. They continue after lost connections; nothing here polls."""

from __future__ import annotations

import base64
import json
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, cast

from ._core import (
    NODE_TRIES,
    Backoff,
    Close,
    Core,
    Deadline,
    Lost,
    Op,
    Opened,
    Pause,
    Read,
    Reply,
    Request,
    Send,
    get,
    parsed,
    path,
    read_json,
)
from .errors import ConnectionFailed, UnexpectedAnswer, WaitTimeout
from .models import Job

TERMINAL = frozenset({"succeeded", "failed", "crashed", "cancelled"})
_SILENCE = 60.0
"""The server sends heartbeats more often; a stream without any data for this long is dead."""
_SLACK = 1.0
_LOOK_SECONDS = 2.0
_EVENT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Event:
    """One event: ``job`` (a new state), ``progress``, ``group`` (its end), or ``reset`` (events were missed)."""

    id: str
    """The position to resume from."""
    name: str
    data: dict[str, Any]


class SseParser:
    """Parses server-sent events from chunks of any size."""

    def __init__(self, last_id: str = "") -> None:
        self.last_id = last_id
        self._buffer = b""

    def push(self, chunk: bytes) -> list[Event]:
        """The events that these bytes complete."""
        self._buffer += chunk
        *complete, self._buffer = self._buffer.split(b"\n\n")
        if len(self._buffer) > _EVENT_BYTES:
            raise UnexpectedAnswer("an event is too long")
        return [event for block in complete if (event := self._event(block)) is not None]

    def _event(self, block: bytes) -> Event | None:
        name, data = "message", []
        for line in block.decode("utf-8", "replace").split("\n"):
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "id":
                self.last_id = value
            elif field == "event":
                name = value
            elif field == "data":
                data.append(value)
        if not data:
            return None
        try:
            return Event(self.last_id, name, read_json("\n".join(data)))
        except ValueError:
            raise UnexpectedAnswer("an event is not JSON") from None


class Stream:
    """A body that is read in pieces and opened again when the connection is lost."""

    def __init__(self, core: Core, deadline: Deadline) -> None:
        self.core, self.deadline = core, deadline
        self._opened: Opened | None = None
        self._patience = Backoff(NODE_TRIES)
        self._silence = _SILENCE

    def request(self) -> Request:
        """The request that continues the stream."""
        raise NotImplementedError

    def piece(self) -> Op[bytes]:
        """The next bytes, or none at the end of the answer."""
        while True:
            try:
                return (yield from self._step())
            except Lost as lost:
                yield from self.close()
                if self.deadline.left() <= 0:
                    raise WaitTimeout("timed out") from None
                if lost.timed_out and self._silence < _SILENCE:
                    continue
                pause = self._patience.pause()
                if pause is None:
                    raise ConnectionFailed(f"no server answers at {self.core.address}: {lost}") from lost
                yield Pause(min(pause, max(self.deadline.left(), 0.0)))

    def _step(self) -> Op[bytes]:
        # The time limit of a read is set when the stream is opened. Once less time is left, it is opened again.
        if self._opened is not None and self._silence > self.deadline.left() + _SLACK:
            yield from self.close()
        if self._opened is None:
            if self.deadline.left() <= 0:
                raise WaitTimeout("timed out")
            self._silence = min(_SILENCE, max(self.deadline.left(), 0.001))
            self._opened = yield from self.core.open(replace(self.request(), timeout=self._silence))
        bytes_read = cast("bytes", (yield Read(self._opened.handle)))
        if bytes_read:
            self._patience = Backoff(NODE_TRIES)
        return bytes_read

    def close(self) -> Op[None]:
        """Ends the stream."""
        if self._opened is not None:
            opened, self._opened = self._opened, None
            yield Close(opened.handle)


class Events(Stream):
    """Events of the hall, of one job or of one group, from the last one that was received."""

    def __init__(
        self,
        core: Core,
        *,
        job: int | None = None,
        group: int | None = None,
        after: str | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        super().__init__(core, deadline or Deadline(None))
        self.job, self.group = job, group
        self._parser = SseParser(after or "")
        self._here: deque[Event] = deque()
        self._over = False

    def request(self) -> Request:
        target = ("events",) if self.job is None else ("jobs", self.job, "events")
        headers = {"accept": "text/event-stream"}
        if self._parser.last_id:
            headers["last-event-id"] = self._parser.last_id
        return Request("GET", path(*target, query={"group": self.group}), headers)

    def next(self) -> Op[Event | None]:
        """The next event, or none after the end of the job."""
        while not self._here:
            if self._over or not (yield from self.fill()):
                yield from self.close()
                return None
        return self._here.popleft()

    def fill(self) -> Op[bool]:
        """Reads once; false if the stream has ended."""
        opened = self._opened
        piece = yield from self.piece()
        if self._opened is not opened:
            self._parser = SseParser(self._parser.last_id)
        if not piece:
            yield from self.close()
            return not self._over
        for event in self._parser.push(piece):
            self._over |= self.job is not None and event.name == "job" and event.data["state"] in TERMINAL
            # A server announces that it stops; the stream continues at the next one.
            if event.name != "closing":
                self._here.append(event)
        return True

    def opened(self) -> Op[None]:
        """Opens the stream: no event from now on is missed."""
        while not self._parser.last_id and not self._here:
            if not (yield from self.fill()):
                return


def wait_job(core: Core, id: int, timeout: float | None) -> Op[Job]:
    """Waits for the end of a job."""
    deadline = Deadline(timeout)
    events = Events(core, job=id, deadline=deadline)
    try:
        while (yield from events.next()) is not None:
            pass
    except WaitTimeout:
        job = yield from _last_look(core, id)
        if job is not None and job.state in TERMINAL:
            return job
        state = f"; it is {job.state}, and explain() says why" if job is not None else ""
        raise WaitTimeout(f"job {id} has not ended within {timeout} s{state}") from None
    finally:
        yield from events.close()
    return Job.from_wire((yield from core.json(get("jobs", id))))


def _last_look(core: Core, id: int) -> Op[Job | None]:
    """The job after a timeout, if the server answers at once."""
    try:
        reply = cast("Reply", (yield Send(core.address, replace(get("jobs", id), timeout=_LOOK_SECONDS))))
    except Lost:
        return None
    return Job.from_wire(parsed(reply.body)) if reply.status < 400 else None


class Ends:
    """Jobs in the order in which they end, by one stream of events."""

    def __init__(self, core: Core, ids: Iterable[int], timeout: float | None) -> None:
        self.core, self.timeout = core, timeout
        self.pending = set(ids)
        self._look: deque[int] = deque()
        self._events = Events(core, deadline=Deadline(timeout))
        self._started = False

    def next(self) -> Op[Job | None]:
        """The next job that has ended, or none after the last."""
        try:
            if not self._started and self.pending:
                self._started = True
                # Before the first read, so that no end is missed between them.
                yield from self._events.opened()
                self._look.extend(sorted(self.pending))
            while self.pending:
                while self._look:
                    id = self._look.popleft()
                    if id not in self.pending:
                        continue
                    job = Job.from_wire((yield from self.core.json(get("jobs", id))))
                    if job.state in TERMINAL:
                        self.pending.discard(id)
                        return job
                yield from self._receive()
        except WaitTimeout:
            left = len(self.pending)
            raise WaitTimeout(f"{left} jobs have not ended within {self.timeout} s") from None
        return None

    def _receive(self) -> Op[None]:
        event = yield from self._events.next()
        if event is None or event.name == "reset":
            self._look.extend(sorted(self.pending))
        elif event.name == "job" and event.data["state"] in TERMINAL and event.data["id"] in self.pending:
            self._look.append(event.data["id"])

    def close(self) -> Op[None]:
        yield from self._events.close()


def wait_group(core: Core, id: int, timeout: float | None) -> Op[dict[str, Any]]:
    """Waits for the end of a group."""
    events = Events(core, group=id, deadline=Deadline(timeout))
    try:
        while True:
            event = yield from events.next()
            if event is not None and event.name == "group" and event.data["id"] == id:
                break
    except WaitTimeout:
        raise WaitTimeout(f"group {id} has not ended within {timeout} s") from None
    finally:
        yield from events.close()
    return cast("dict[str, Any]", (yield from core.json(get("groups", id))))


class Log(Stream):
    """The log of one attempt, in chunks; followed, it continues until the attempt ends."""

    def __init__(self, core: Core, job: int, attempt: str | None, stream: str | None, follow: bool) -> None:
        super().__init__(core, Deadline(None))
        self.job, self.attempt, self.stream, self.follow = job, attempt, stream, follow
        self.offset = 0
        self._buffer = b""
        self._here: deque[bytes] = deque()

    def request(self) -> Request:
        # A frame that was cut off is sent again as a whole.
        self._buffer = b""
        query = {"attempt": self.attempt, "stream": self.stream, "from": self.offset or None}
        query["follow"] = True if self.follow else None
        target = path("jobs", self.job, "log", query=query)
        return Request("GET", target, {"accept": "application/x-ndjson"})

    def next(self) -> Op[bytes | None]:
        """The next bytes, or none at the end."""
        while not self._here:
            if self._opened is None and self.attempt is None:
                yield from self._pin()
            piece = yield from self.piece()
            if not piece:
                yield from self.close()
                if not self.follow or (yield from self._is_over()):
                    return None
                continue
            *lines, self._buffer = (self._buffer + piece).split(b"\n")
            for line in lines:
                self._frame(json.loads(line))
        return self._here.popleft()

    def _frame(self, frame: dict[str, Any]) -> None:
        text = frame.get("text")
        content = base64.b64decode(frame["base64"]) if text is None else text.encode()
        # A reader that reconnects may be sent the frame in which its position is.
        seen = max(self.offset - frame["offset"], 0)
        self.offset = max(self.offset, frame["offset"] + len(content))
        if content[seen:]:
            self._here.append(content[seen:])

    def _pin(self) -> Op[None]:
        """Names the attempt, so that a reconnect does not continue in the log of a later one."""
        attempts = (yield from self.core.json(get("jobs", self.job))).get("attempts", [])
        if attempts:
            # A log that was opened before there was an attempt is that of the first.
            self.attempt = attempts[0 if self.offset else -1]["id"]

    def _is_over(self) -> Op[bool]:
        job = yield from self.core.json(get("jobs", self.job))
        if job["state"] in TERMINAL:
            return True
        running = [one["id"] for one in job.get("attempts", []) if one.get("outcome") is None]
        return self.attempt is not None and self.attempt not in running
