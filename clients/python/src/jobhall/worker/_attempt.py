"""One attempt: its unanswered messages, its output, and its port to the session."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from ..errors import ApiError
from ._files import Access
from ._output import Output
from ._session import FRAME_BYTES
from ._verdicts import SUCCEEDED, Report, crashed, encode, failed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ._loop import Loop

TRANSIENT = {"no_leader", "outcome_unknown", "unavailable", "too_many_requests", "storage_full", "internal"}
AGAIN_SECONDS = 0.5
PROGRESS_SECONDS = 0.1
JOB_BYTES = FRAME_BYTES - 4_096
"""Longest sub-job: it must fit into a frame."""
REPORTED_INDICATORS = 32
"""Indicators in one message; the server's bound."""
_NO_OUTPUT = Output(lambda: None, 0)
"""The output of an attempt that has ended without any: what still comes is dropped."""
_NO_OUTPUT.close()
_making = threading.Lock()


class Attempt:
    """The state of an attempt in the event loop. ``stop`` delivers a cancel into the job."""

    __slots__ = (
        *("_alone", "_indicators", "_output", "_report", "_second", "_wait_lock", "accept_sent", "accepted", "begun"),
        *("busy", "calls", "cancel_asked", "chunk", "chunk_len", "ended", "head", "id", "job", "lease", "loop", "lost"),
        *("record", "reported", "stop", "stuck", "task", "token", "wait"),
    )

    def __init__(self, loop: Loop, message: dict[str, Any]) -> None:
        self.loop = loop
        self.id: str = message["attempt"]
        self.lease: str = message["lease"]
        self.token: str = message["token"]
        self.job: dict[str, Any] = message["job"]
        self.head = f'"attempt":"{self.id}","lease":"{self.lease}"'
        self._output: Output | None = None
        self.stop: Callable[[], None] | None = None
        self.begun = self.cancel_asked = self.lost = self.ended = self.stuck = self.accept_sent = False
        self.busy = True
        """Whether it counts as a taken slot."""
        self.task: asyncio.Task[None] | None = None
        self.record: int | None = None
        """Its place in the registry."""
        self.reported: str | None = None
        """The encoded outcome, until it is answered."""
        self.chunk: str | None = None
        self.chunk_len = 0
        self.accepted: asyncio.Future[None] | None = None
        self.calls: deque[tuple[str, asyncio.Future[Any]]] | None = None
        self.wait: tuple[str, asyncio.Future[Any]] | None = None
        self._wait_lock: asyncio.Lock | None = None
        self._alone: Sequence[asyncio.Future[Any]] = ()
        """Sub-jobs that are requested outside of the session."""
        self._indicators: dict[str, dict[str, Any]] | None = None
        self._report: str | None = None
        self._second = False

    @property
    def output(self) -> Output:
        """Its output, which is made when it is first used: most short jobs print nothing."""
        if self._output is None:
            with _making:
                if self._output is None:
                    self._output = Output(self._wake, self.loop.thread)
        return self._output

    def write(self, stream: str, data: bytes) -> None:
        """Adds to its output, in any thread."""
        self.output.write(stream, data)

    def _close_output(self) -> None:
        with _making:
            found = self._output
            if found is None:
                self._output = _NO_OUTPUT
                return
        found.close()

    def leave_slot(self) -> None:
        if self.busy:
            self.busy = False
            self.loop.slot_left()

    def _wake(self) -> None:
        self.loop.call(self.send_output)

    def send_output(self) -> None:
        """Sends the next chunk. One is unanswered at a time, which bounds what is kept for a slow server."""
        if self.chunk is not None or self.lost or self.reported is not None:
            return
        taken = self.output.take()
        if taken is None:
            if self._report is not None:
                self._send_report()
            return
        stream, data = taken
        text = base64.b64encode(data).decode()
        offset = self.output.offset
        self.chunk_len = len(data)
        self.chunk = f'{{"log":{{{self.head},"offset":{offset},"stream":"{stream}","bytes":"{text}"}}}}'
        self.loop.send(self.chunk)
        if self._report is not None and not self.output:
            self._send_report()

    def finish(self, report: Report, value: str | None = None) -> None:
        """The job has ended: its outcome follows the rest of its output."""
        if self.ended:
            return
        self.ended = True
        self.stop = self.task = None
        text = '{"outcome":"succeeded"}' if report is SUCCEEDED else encode(report)
        if value is not None:
            text = f'{text[:-1]},"value":{value}}}'
        self._report = text
        if self._indicators and not self.lost:
            self._send_progress()
        if self._output is not None and self._output:
            self.send_output()
        else:
            self._send_report()

    def _send_report(self) -> None:
        self.reported = f'{{"outcome":{{{self.head},"report":{self._report}}}}}'
        self._close_output()
        if self.lost:
            self.loop.forget(self)
            return
        self.loop.send(self.reported)
        if self.busy:
            # The frame that reports it also grants its slot.
            self.busy = False
            self.loop.busy -= 1

    def progress(self, indicator: dict[str, Any]) -> None:
        """May be called from any thread."""
        with self.output.lock:
            first = not self._indicators
            self._indicators = self._indicators or {}
            self._indicators[indicator["name"]] = indicator
        if first:
            self.loop.call(self._progress_later)

    def _progress_later(self) -> None:
        self.loop.later(PROGRESS_SECONDS, self._send_progress)

    def _send_progress(self) -> None:
        with self.output.lock:
            indicators, self._indicators = self._indicators, None
        if not indicators or self.lost or self.reported is not None:
            return
        found = list(indicators.values())
        for start in range(0, len(found), REPORTED_INDICATORS):
            some = encode(found[start : start + REPORTED_INDICATORS])
            self.loop.send(f'{{"progress":{{{self.head},"indicators":{some}}}}}')

    def is_cancelled(self) -> bool:
        return self.cancel_asked or self.lost

    def cancel(self) -> None:
        if not self.cancel_asked and not self.ended:
            self.cancel_asked = True
            self._end_calls()
            if self.stop is not None:
                self.stop()

    def lose(self) -> None:
        """The lease is lost: stop, and report nothing."""
        if self.lost:
            return
        self.lost = True
        self._close_output()
        self._end_calls()
        if self.accepted is not None and not self.accepted.done():
            self.accepted.cancel()
        if self.ended or self.stuck:
            self.loop.forget(self)
        elif self.stop is not None and not self.cancel_asked:
            self.stop()

    def _end_calls(self) -> None:
        for _, future in [*(self.calls or ()), *([self.wait] if self.wait else [])]:
            future.cancel()
        for future in self._alone:
            future.cancel()
        self.calls = None
        self.wait = None

    async def ask(self, kind: str, body: Any) -> Any:
        """Requests a sub-job, or waits for sub-jobs."""
        if self.is_cancelled():
            raise asyncio.CancelledError
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if kind == "sub_job":
            job = encode(body["job"])
            if len(job) > JOB_BYTES:
                detail = (
                    f"the sub-job has {len(job)} bytes, the limit is {JOB_BYTES}; store what is large as an artifact"
                )
                raise ApiError.from_problem(0, {"code": "too_large", "detail": detail})
            text = f'{{"sub_job":{{{self.head},"call":{json.dumps(body["call"])},"job":{job}}}}}'
            self.calls = self.calls or deque()
            self.calls.append((text, future))
            self.loop.send(text)
            return await future
        self._wait_lock = self._wait_lock or asyncio.Lock()
        async with self._wait_lock:
            text = f'{{"wait":{{{self.head},"jobs":{json.dumps(body)}}}}}'
            self.wait = (text, future)
            self.loop.send(text)
            return await future

    def ask_sync(self, kind: str, body: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(self.ask(kind, body), self.loop.loop).result()

    def not_understood(self) -> None:
        """The server could not read a message of this session, perhaps another job's. What was asked for is asked again
        in requests of its own, so that only the wrong one fails."""
        for text, future in self.calls or ():
            self._alone = [*(one for one in self._alone if not one.done()), future]
            self.loop.spawn(self._ask_alone(json.loads(text)["sub_job"], future))
        self.calls = None

    async def _ask_alone(self, sub_job: dict[str, Any], future: asyncio.Future[Any]) -> None:
        access = Access(self.loop.connection, self.id, self.token)
        body = {"call": sub_job["call"], "job": sub_job["job"]}
        try:
            called = await asyncio.to_thread(access.request, "POST", "jobs", json=body)
        except Exception as error:
            if not future.done():
                future.set_exception(error)
        else:
            if not future.done():
                future.set_result(called)

    def unanswered(self) -> list[str]:
        """What is sent again on a new connection."""
        found = [text for text, _ in self.calls or ()]
        found += [self.wait[0]] if self.wait else []
        found += [self.chunk] if self.chunk else []
        return found + ([self.reported] if self.reported else [])

    def start_message(self) -> str:
        return f'{{"progress":{{{self.head}}}}}'

    def accept_message(self) -> str:
        return f'{{"accept":{{{self.head}}}}}'

    def answered(self, to: str, value: Any) -> None:
        """A sub-job was submitted, or the jobs that it waits for have ended."""
        if to == "sub_job" and self.calls:
            _, future = self.calls.popleft()
        elif to == "wait" and self.wait is not None:
            (_, future), self.wait = self.wait, None
        else:
            return
        if not future.done():
            future.set_result(value)

    def logged(self, message: dict[str, Any]) -> None:
        if self.chunk is None:
            return
        self.output.offset += self.chunk_len
        self.chunk = None
        if message["truncated"]:
            self.output.close()
        self.send_output()

    def refused(self, message: dict[str, Any]) -> None:
        code, to, detail = message["code"], message["to"], message["detail"]
        if code in ("lease_lost", "not_found") and to not in ("sub_job", "wait"):
            self.lose()
        elif to == "sub_job" and self.calls:
            _fail(self.calls.popleft()[1], code, detail)
        elif to == "wait" and self.wait:
            wait, self.wait = self.wait, None
            _fail(wait[1], code, detail)
        elif code in TRANSIENT:
            text = {"log": self.chunk, "outcome": self.reported}.get(to)
            if text:
                self.loop.later(AGAIN_SECONDS, lambda: self.loop.send(text))
        elif to == "progress":
            self.output.write("stderr", f"[progress was refused: {detail}]\n".encode())
        elif to == "log":
            self.chunk = None
            self.output.close()
            self.send_output()
        elif to == "outcome" and not self._second:
            self._second = True
            refused = crashed("outcome_refused", detail)
            if code == "bad_request" and (self._report or "").startswith('{"outcome":"succeeded","value":'):
                refused = failed("bad_result", f"the server refused the result: {detail}", retry="never")
            self._report = encode(refused)
            self._send_report()
        elif to == "outcome":
            self.loop.forget(self)
        elif to == "accept" and self.accepted is not None and not self.accepted.done():
            self.lose()


def _fail(future: asyncio.Future[Any], code: str, detail: str) -> None:
    if not future.done():
        future.set_exception(ApiError.from_problem(0, {"code": code, "detail": detail}))
