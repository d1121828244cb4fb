"""The pool of processes: jobs that run with ``run="process"``, one at a time in each.

A process lives until the worker ends or its job ends it. Then only that job has crashed; the next job gets another
process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import mmap
import os
import signal
import socket
from collections import deque
from typing import TYPE_CHECKING, Any

from ..errors import ApiError, JobhallError
from . import _verdicts
from ._channel import Buffer, pack, packed
from ._template import PACKET_BYTES, fork_template

if TYPE_CHECKING:
    from ._attempt import Attempt
    from ._executor import Executor

READ_BYTES = 64 * 1024
SEND_SECONDS = 1.0
MOST_EARLY_DEATHS = 16
"""How many processes may die before they take a job, without one that ends its job between them."""
STARTS = 8
"""Processes that are forked at once."""


class Writer:
    """Sends to a non-blocking socket in order; what does not fit now is sent later."""

    def __init__(self, loop: asyncio.AbstractEventLoop, end: socket.socket) -> None:
        end.setblocking(False)
        self.end = end
        self._loop = loop
        self._rest = b""

    def send(self, data: bytes) -> None:
        if self._rest:
            self._rest += data
            return
        self._rest = data
        self._flush()
        if self._rest:
            self._loop.add_writer(self.end, self._writable)

    def _flush(self) -> None:
        try:
            self._rest = self._rest[self.end.send(self._rest) :]
        except BlockingIOError:
            return
        except OSError:
            # The process has ended, which is reported by the template.
            self._rest = b""

    def _writable(self) -> None:
        self._flush()
        if not self._rest:
            self._loop.remove_writer(self.end)

    def close(self) -> None:
        self._loop.remove_writer(self.end)
        self._loop.remove_reader(self.end)
        self.end.close()


class Pump:
    """Moves what the process writes to one of its streams into the output of its attempt."""

    def __init__(self, loop: asyncio.AbstractEventLoop, descriptor: int, stream: str) -> None:
        os.set_blocking(descriptor, False)
        self._loop = loop
        self._descriptor = descriptor
        self._stream = stream
        self._reads = False
        self.attempt: Attempt | None = None
        self.watch(True)

    def watch(self, reads: bool) -> None:
        if reads and not self._reads:
            self._loop.add_reader(self._descriptor, self.move)
        elif self._reads and not reads:
            self._loop.remove_reader(self._descriptor)
        self._reads = reads

    def move(self) -> bool:
        """Reads until nothing is left; false if the output has no room, which makes the process wait."""
        while self._descriptor >= 0:
            attempt = self.attempt
            if attempt is not None and attempt.output.is_full():
                self.watch(False)
                return False
            try:
                data = os.read(self._descriptor, READ_BYTES)
            except BlockingIOError:
                break
            if not data:
                self.close()
                break
            if attempt is not None:
                attempt.output.write(self._stream, data)
            if len(data) < READ_BYTES:
                break
        self.watch(self._descriptor >= 0)
        return True

    def close(self) -> None:
        if self._descriptor >= 0:
            self.watch(False)
            os.close(self._descriptor)
            self._descriptor = -1


class Process:
    """A process of the pool, as the worker sees it."""

    def __init__(
        self, pool: Pool, number: int, ends: tuple[socket.socket, socket.socket], streams: tuple[int, int]
    ) -> None:
        self.pool = pool
        self.number = number
        self.pid = 0
        self.attempt: Attempt | None = None
        loop = pool.loop
        self._jobs = Writer(loop, ends[0])
        self._replies = Writer(loop, ends[1])
        self._buffer = Buffer()
        self._pumps = [Pump(loop, descriptor, name) for descriptor, name in zip(streams, _STREAMS, strict=True)]
        self._end: tuple[_verdicts.Report, str | None] | None = None
        self.is_gone = self._called = False
        self._tasks: set[asyncio.Task[None]] = set()
        loop.add_reader(ends[0], self._read)

    def give(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.pool.started[self.number] = 0
        attempt.begun = True
        attempt.output.on_room = self._soon
        for pump in self._pumps:
            pump.attempt = attempt
        # With what the server has sent and Python reads, such as 1e999, which is infinite.
        self._jobs.send(packed(json.dumps({"attempt": attempt.id, "token": attempt.token, "job": attempt.job})))

    def _read(self) -> None:
        try:
            data = self._jobs.end.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.pool.loop.remove_reader(self._jobs.end)
            return
        for kind, *body in self._buffer.feed(data):
            if self.attempt is None:
                continue
            if kind == "end":
                self._end = (body[0], body[1])
                self.pool.early_deaths = 0
                self._room()
            elif kind == "progress":
                for indicator in body[0]:
                    self.attempt.progress(indicator)
            elif kind == "ask":
                task = self.pool.loop.create_task(self._ask(self.attempt, *body))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _ask(self, attempt: Attempt, number: int, kind: str, body: Any) -> None:
        try:
            reply = ["reply", number, await attempt.ask(kind, body)]
        except ApiError as error:
            reply = ["refused", number, error.code, error.detail]
        except (JobhallError, TypeError, ValueError) as error:
            reply = ["refused", number, "bad_request", str(error)]
        except asyncio.CancelledError:
            reply = ["cancelled", number]
        self._replies.send(pack(reply))

    def _has_not_begun(self) -> bool:
        if self.attempt is None or self.attempt.is_cancelled() or self.pool.early_deaths >= MOST_EARLY_DEATHS:
            return False
        return not self.pool.started[self.number]

    def _take_back(self) -> Attempt:
        assert self.attempt is not None
        attempt, self.attempt = self.attempt, None
        attempt.output.on_room = None
        for pump in self._pumps:
            pump.attempt = None
        return attempt

    def _soon(self) -> None:
        if not self._called:
            self._called = True
            self.pool.loop.call_soon(self._room)

    def _room(self) -> None:
        """There is room for output: what the job has written comes before its end."""
        self._called = False
        drained = [pump.move() for pump in self._pumps]
        if self._end is not None and all(drained) and self.attempt is not None:
            attempt = self._take_back()
            (report, value), self._end = self._end, None
            self.pool.executor.end_process(attempt, report, value)
            if not self.is_gone:
                self.pool.is_free(self)
        if self.is_gone and self.attempt is None:
            self._close()

    def exited(self, status: int) -> None:
        while True:
            before = self._buffer.received
            self._read()
            if self._buffer.received == before:
                break
        self.is_gone = True
        if self._has_not_begun():
            # It died before it took the job, which another one gets.
            attempt = self._take_back()
            self.pool.early_deaths += 1
            self._room()
            self.pool.start(attempt)
            return
        if self._end is None:
            self._end = (_verdicts.of_status(status), None)
        self._room()

    def _close(self) -> None:
        for pump in self._pumps:
            pump.close()
        self._jobs.close()
        self._replies.close()
        self.pool.is_closed(self)


_STREAMS = ("stdout", "stderr")


def _sockets() -> tuple[int, int]:
    near, far = socket.socketpair()
    return near.detach(), far.detach()


class Pool:
    """The processes of a worker, and the jobs that wait for one."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.loop: asyncio.AbstractEventLoop = executor.loop.loop
        self._numbers = list(range(executor.loop.worker.processes + STARTS - 1, -1, -1))
        """Numbers that no process has."""
        self.started = mmap.mmap(-1, len(self._numbers))
        """Shared with the processes: whether each has taken its job."""
        self.early_deaths = 0
        self._template = 0
        self._control: socket.socket | None = None
        self._processes: dict[int, Process] = {}
        self._starting: deque[Process] = deque()
        self._idle: list[Process] = []
        self._waiting: deque[Attempt] = deque()

    def open(self) -> None:
        loop = self.executor.loop
        self._template, self._control = fork_template(
            loop.worker, loop.connection, self.started, loop.registry is not None
        )
        self._control.setblocking(False)
        self.loop.add_reader(self._control, self._receive)

    def start(self, attempt: Attempt) -> None:
        if self._idle:
            self._idle.pop().give(attempt)
            return
        self._waiting.append(attempt)
        self._fork_more()

    def withdraw(self, attempt: Attempt) -> bool:
        """Whether the attempt still waited for a process. It gets none."""
        if attempt not in self._waiting:
            return False
        self._waiting.remove(attempt)
        return True

    def signal(self, attempt: Attempt, number: signal.Signals) -> None:
        """Sends a signal to the process of an attempt. The template knows whether it still exists."""
        for process in self._processes.values():
            if process.attempt is attempt:
                with contextlib.suppress(OSError):
                    self._send({"kill": process.pid, "signal": int(number)})

    def _send(self, message: dict[str, int], descriptors: list[int] | None = None) -> None:
        """Sends a request to the template, which reads at once."""
        if self._control is not None:
            self._control.settimeout(SEND_SECONDS)
            try:
                socket.send_fds(self._control, [json.dumps(message).encode()], descriptors or [])
            finally:
                self._control.setblocking(False)

    def is_free(self, process: Process) -> None:
        if self._waiting:
            process.give(self._waiting.popleft())
        else:
            self._idle.append(process)

    def is_closed(self, process: Process) -> None:
        self._numbers.append(process.number)
        self._fork_more()

    def _fork_more(self) -> None:
        while len(self._starting) < min(len(self._waiting), STARTS, self._room()):
            try:
                self._fork()
            except OSError as error:
                self._fail(f"no process could be started: {error.strerror}")

    def _room(self) -> int:
        """How many more processes there may be, counting those that start."""
        return min(self.executor.loop.worker.processes - len(self._processes), len(self._numbers))

    def _fail(self, text: str) -> None:
        """A job that waits for a process gets none."""
        if self._waiting:
            self.executor.end_process(self._waiting.popleft(), _verdicts.crashed("no_process", text), None)

    def _fork(self) -> None:
        if self._control is None:
            self.open()
        far: list[int] = []
        near: list[int] = []
        try:
            for make in (_sockets, _sockets, os.pipe, os.pipe):
                one, other = make()
                near.append(one)
                far.append(other)
            number = self._numbers[-1]
            self._send({"fork": number}, far)
            self._numbers.pop()
        except OSError:
            for descriptor in near:
                os.close(descriptor)
            raise
        finally:
            for descriptor in far:
                os.close(descriptor)
        jobs, replies = (socket.socket(fileno=descriptor) for descriptor in near[:2])
        self._starting.append(Process(self, number, (jobs, replies), (near[2], near[3])))

    def _receive(self) -> None:
        assert self._control is not None
        try:
            packet = self._control.recv(PACKET_BYTES)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if not packet:
            self._template_ended()
            return
        message = json.loads(packet)
        if "exited" in message:
            self._exited(message["exited"], message["status"])
            return
        process = self._starting.popleft()
        if "error" in message:
            process.exited(1)
            self._fail(message["error"])
        else:
            process.pid = message["pid"]
            self._processes[process.pid] = process
            self.is_free(process)
        self._fork_more()

    def _exited(self, pid: int, status: int) -> None:
        process = self._processes.pop(pid)
        if process in self._idle:
            self._idle.remove(process)
        process.exited(status)
        self._fork_more()

    def _template_ended(self) -> None:
        """Its members end with it; the next job makes another one."""
        assert self._control is not None
        self.loop.remove_reader(self._control)
        self._control.close()
        self._control = None
        _wait(self._template)
        gone = [*self._starting, *self._processes.values()]
        for known in (self._starting, self._processes, self._idle):
            known.clear()
        for process in gone:
            process.exited(-signal.SIGKILL)
        self._fork_more()

    async def close(self) -> None:
        """Ends all processes, and what their jobs have started."""
        if self._control is not None:
            self.loop.remove_reader(self._control)
            with contextlib.suppress(OSError):
                self._send({"end": 1})
            self._control.close()
            self._control = None
            await asyncio.to_thread(_wait, self._template)


def _wait(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
