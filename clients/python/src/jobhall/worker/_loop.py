"""The loop of a worker: one session grants credit for free slots, receives assignments and renews all leases.

If the connection breaks, the loop connects again, to the next address, and names the attempts it still has.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import signal
import socket
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

import websockets.exceptions
from websockets.frames import CloseCode

from . import _forks
from ._attempt import Attempt
from ._commands.declare import Declaring
from ._executor import Executor
from ._output import Capture
from ._session import Refused, Session, Term, Unreachable, open_session
from ._watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from .._connection import Connection
    from . import Worker
    from ._registry import Registry

log = logging.getLogger("jobhall.worker")
START_SECONDS = 0.02
NAME_SECONDS = 45.0
HEARTBEAT_SECONDS = 0.5
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def host_name() -> str | None:
    """The name of this machine, if a worker can have it."""
    name = socket.gethostname()
    return name if _NAME.fullmatch(name) else None


class Loop:
    """Runs the jobs of a worker until it is drained."""

    def __init__(self, worker: Worker, connection: Connection, registry: Registry | None = None) -> None:
        self.worker = worker
        self.connection = connection
        self.registry = registry
        """Where a parent process finds the attempts if this process dies."""
        self.name = worker.name or host_name()
        self.loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()
        self.executor = Executor(self)
        self.declaring = Declaring(connection, worker.commands)
        self.attempts: dict[str, Attempt] = {}
        self.busy = 0
        self.session: Session | None = None
        self.draining = self.is_replaced = False
        self.done = asyncio.Event()
        self._term: Term | None = None
        self._starts: deque[tuple[float, Attempt]] = deque()
        self._address = 0
        self._connected = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._watch = Watch(self)

    def call(self, function: Callable[[], None]) -> None:
        """Calls a function in the loop, from any thread."""
        if threading.get_ident() == self.thread:
            self.loop.call_soon(function)
        else:
            self.loop.call_soon_threadsafe(function)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs a coroutine beside the session."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def later(self, seconds: float, function: Callable[[], None]) -> None:
        self.loop.call_later(seconds, function)

    def send(self, message: str) -> None:
        if self.session is not None:
            self.session.send(message)

    def slot_left(self) -> None:
        self.busy -= 1
        self.touch()

    def touch(self) -> None:
        """The number of free slots may have changed."""
        if self.session is not None:
            self.session.touch()

    def _grant(self) -> None:
        """Grants the server one job per free slot. Attempts that wait count; the server knows them."""
        session = self.session
        if session is None:
            return
        room = self.worker.slots - self.executor.lost_slots - self.busy
        total = session.assigned + (min(room, 0) if self.draining else room)
        if session.granted != total:
            session.granted = total
            session.send(f'{{"credit":{{"total":{total}}}}}')

    def forget(self, attempt: Attempt) -> None:
        if self.attempts.pop(attempt.id, None) is not None:
            if attempt.record is not None and self.registry is not None:
                self.registry.remove(attempt.record)
            if attempt.busy:
                attempt.leave_slot()
        if not self.attempts:
            self.check_done()

    def check_done(self) -> None:
        if self.registry is not None and self.executor.lost_slots and not self.attempts and not self.draining:
            log.warning("this process is replaced: %d of its slots are lost", self.executor.lost_slots)
            self.is_replaced = True
            self.drain()
        if self.draining and not self.attempts:
            self.done.set()

    def drain(self) -> None:
        """Takes no more jobs, and ends when the current ones have. The second call gives their leases up."""
        if self.draining:
            log.warning("stopping: %d jobs are given back", len(self.attempts))
            for attempt in list(self.attempts.values()):
                attempt.lose()
        else:
            log.info("draining: no more jobs are taken, %d still run", len(self.attempts))
        self.draining = True
        self.touch()
        self.check_done()

    async def run(self) -> None:
        self.executor.open()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self.loop.add_signal_handler(number, self.drain)
            _forks.handles(signal.SIGTERM, signal.SIGINT)
        with Capture():
            connecting = asyncio.create_task(self._connect_forever())
            ended = asyncio.create_task(self.done.wait())
            self._heartbeat()
            self._watch.start()
            await asyncio.wait((connecting, ended), return_when=asyncio.FIRST_COMPLETED)
            session, self.session = self.session, None
            ended.cancel()
            connecting.cancel()
            (refused, _) = await asyncio.gather(connecting, ended, return_exceptions=True)
            if session is not None:
                await session.leave()
            self._watch.stop()
            self.declaring.stop()
            await self.executor.close()
        _forks.handles()
        if isinstance(refused, Exception):
            raise refused

    def _hello(self) -> dict[str, Any]:
        own = [attempt for attempt in self.attempts.values() if not attempt.lost]
        hello = {
            "version": 1,
            "features": ["finish"],
            "abilities": self.worker.all_abilities(),
            "accepts": self.worker.accepts(),
            "attempts": [{"attempt": attempt.id, "lease": attempt.lease} for attempt in own],
            "instance": self.worker.instance,
            "fresh": self.worker.fresh and not self._connected,
        }
        if self.worker.lease is not None:
            hello["lease_ms"] = round(self.worker.lease * 1000)
        return hello

    async def _connect_forever(self) -> None:
        failures, taken_since = 0, None
        while True:
            addresses = self.connection.addresses
            address = addresses[self._address % len(addresses)]
            try:
                session = await open_session(self.connection, address, self.name, self._hello())
            except Refused as refused:
                now = self.loop.time()
                taken_since = taken_since or now
                if refused.code != "conflict" or now > taken_since + NAME_SECONDS:
                    raise
                log.warning("not connected: %s (--name, or Worker(name=...))", refused)
                await asyncio.sleep(1)
                continue
            except Unreachable as unreachable:
                log.warning("the server is unreachable: %s", unreachable)
            else:
                failures, taken_since = 0, None
                self._welcomed(session, address)
                await self._serve(session)
            self._address += 1
            failures += 1
            most = min(5.0, 0.1 * 2 ** min(failures - 1, 10))
            await asyncio.sleep(random.uniform(most / 2, most))

    def _welcomed(self, session: Session, address: str) -> None:
        name = session.welcome.get("worker") or self.name
        if not self._connected:
            types, slots = ", ".join(self.worker.functions), self.worker.slots
            log.info("worker %s connected to %s: types %s; %d slots", name, address, types, slots)
            if self.worker.name not in (None, name):
                log.warning("the token is the one of worker %s, so this worker is not %s", name, self.worker.name)
        else:
            log.info("worker %s connected again to %s", name, address)
        self._connected, self.name = True, name
        self.declaring.begin()
        if self.registry is not None:
            self.registry.set_connection(self.connection, name)
            self.registry.connected()

    async def _serve(self, session: Session) -> None:
        kept = [self.attempts.get(name) for name in session.welcome["kept"]]
        if any(attempt is None or attempt.lost for attempt in kept):
            # An attempt was stopped after the hello had named it: its lease must end, so nothing renews it.
            await session.socket.close()
            return
        self.session, self._term = session, session.term
        session.before_write = self._grant
        if self.registry is not None:
            self.registry.heartbeat(session.term.end())
        for name in session.welcome["lost"]:
            if name in self.attempts:
                self.attempts[name].lose()
        for attempt in self.attempts.values():
            if attempt.begun and not attempt.ended and not attempt.lost:
                session.send(attempt.start_message())
            for message in attempt.unanswered():
                session.send(message)
        session.touch()
        tasks = [asyncio.create_task(step) for step in (self._read(session), session.write())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if self.session is session:
                self.session = None
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        expected = (websockets.exceptions.ConnectionClosed, OSError, asyncio.CancelledError)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, expected):
                raise result
        code, why = session.socket.close_code, session.socket.close_reason or ""
        log.warning("the connection to the server has ended%s", f": {why}" if why else "")
        if code in (CloseCode.INVALID_DATA, CloseCode.MESSAGE_TOO_BIG):
            for attempt in list(self.attempts.values()):
                attempt.not_understood()
        await session.socket.close()

    def _heartbeat(self) -> None:
        """Renews the leases, detects a server that no longer answers, and stops what was not renewed in time."""
        now, term, session = self.loop.time(), self._term, self.session
        self._watch.heartbeat()
        step = HEARTBEAT_SECONDS
        if term is not None:
            step = min(step, term.lease / 12)
            if term.is_over(now):
                self._lose_running()
                if session is not None:
                    session.abort()
            elif session is not None and term.is_unanswered(now):
                session.abort()
            elif session is not None and term.is_due(now):
                term.asked = now
                session.send('{"renew":{}}')
        if self.registry is not None:
            self.registry.heartbeat(term.end() if term is not None else 0.0)
        self.later(step, self._heartbeat)

    def _lose_running(self) -> None:
        """The leases may have ended. A known outcome is kept."""
        for attempt in list(self.attempts.values()):
            if not attempt.ended and not attempt.lost:
                log.warning("attempt %s is stopped: its lease was not renewed in time", attempt.id)
                attempt.lose()

    async def _read(self, session: Session) -> None:
        while True:
            for message in await session.receive():
                for kind, body in message.items():
                    # Nearly all messages are these two.
                    if kind == "assign":
                        session.assigned += 1
                        self._take(body)
                    elif kind == "moved" and body["to"] == "outcome":
                        attempt = self.attempts.get(body["attempt"])
                        if attempt is not None:
                            self.forget(attempt)
                    else:
                        self._handle(session, kind, body)
            session.touch()

    def _handle(self, session: Session, kind: str, body: dict[str, Any]) -> None:
        if kind == "renewed":
            session.term.renewed()
            return
        if kind == "finish":
            if not self.draining:
                self.drain()
            return
        attempt = self.attempts.get(body.get("attempt", ""))
        if attempt is None:
            if kind == "refused":
                log.warning("the server refused %s: %s", body["to"], body["detail"])
            return
        if kind == "moved":
            if body["to"] == "accept" and attempt.accepted is not None and not attempt.accepted.done():
                attempt.accepted.set_result(None)
        elif kind == "cancel":
            attempt.cancel()
        elif kind == "revoke":
            attempt.lose()
        elif kind == "logged":
            attempt.logged(body)
        elif kind == "sub_job":
            attempt.answered("sub_job", body["job"])
        elif kind == "resumed":
            attempt.answered("wait", body["jobs"])
        elif kind == "refused":
            attempt.refused(body)

    def _take(self, message: dict[str, Any]) -> None:
        attempt = Attempt(self, message)
        self.attempts[attempt.id] = attempt
        self.busy += 1
        if self.registry is not None:
            attempt.record = self.registry.add(attempt.id, attempt.lease)
        if not self._starts:
            self.later(START_SECONDS, self._report_starts)
        self._starts.append((self.loop.time() + START_SECONDS, attempt))
        if attempt.job.get("at_most_once"):
            attempt.accepted = self.loop.create_future()
            attempt.accept_sent = True
            self.send(f'{{"accept":{{{attempt.head},"answer":true}}}}')
            attempt.task = self.loop.create_task(self._start_accepted(attempt))
        else:
            self.executor.start(attempt)

    def _report_starts(self) -> None:
        """A job that ends sooner needs no message about its start: its outcome implies it."""
        now = self.loop.time()
        starts = self._starts
        while starts and starts[0][0] <= now:
            _, attempt = starts.popleft()
            if attempt.ended or attempt.lost:
                continue
            if attempt.begun:
                self.send(attempt.start_message())
                continue
            if not attempt.accept_sent:
                attempt.accept_sent = True
                self.send(attempt.accept_message())
            starts.append((now + START_SECONDS, attempt))
        if starts:
            self.later(max(0.0, starts[0][0] - now), self._report_starts)

    def unaccepted(self) -> list[Attempt]:
        """The attempts whose start the server does not know, the earliest first. May be called from any thread."""
        return [one for _, one in list(self._starts) if not (one.accept_sent or one.ended or one.lost)]

    async def _start_accepted(self, attempt: Attempt) -> None:
        assert attempt.accepted is not None
        try:
            await attempt.accepted
        except asyncio.CancelledError:
            self.forget(attempt)
            return
        self.executor.start(attempt)
