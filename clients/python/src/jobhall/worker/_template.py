"""The process that the members of the pool are forked from.

It is forked from the worker before the worker runs a job: the app is loaded, no thread of the worker exists, and a
member is there within milliseconds. It answers over a socket of packets::

    fork, with a number and four descriptors → pid, or error
    kill, with pid and signal
    end
                                             ← exited, with pid and status

It adopts the processes that jobs start, so that none is left when a member ends, or the worker. If the worker was
killed together with its parent, it also ends what jobs in threads and in the event loop have started.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import os
import select
import signal
import socket
import sys
import traceback
from typing import TYPE_CHECKING, Any, NoReturn

from . import _processes
from ._member import run_member

if TYPE_CHECKING:
    from mmap import mmap

    from .._connection import Connection
    from . import Worker

PACKET_BYTES = 4_096


def fork_template(worker: Worker, connection: Connection, started: mmap, owns_group: bool) -> tuple[int, socket.socket]:
    """The template's pid, and the socket over which it takes requests.

    ``owns_group`` says that the process group of this process has nothing but what the worker has started.
    """
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        try:
            near.close()
            group = os.getpgid(parent) if owns_group else None
            _Template(far, worker, connection, started, parent, group).run()
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        os._exit(1)
    far.close()
    return pid, near


class _Template:
    def __init__(
        self,
        control: socket.socket,
        worker: Worker,
        connection: Connection,
        started: mmap,
        parent: int,
        group: int | None,
    ) -> None:
        self._started = started
        self._group = group
        self._is_dismissed = False
        self._control = control
        self._worker = worker
        self._connection = connection
        self._members: set[int] = set()
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: self._end())
        _processes.adopt_orphans()
        _processes.die_with(parent, signal.SIGTERM)
        self._woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        gc.collect()
        gc.freeze()

    def run(self) -> NoReturn:
        while True:
            ready, _, _ = select.select([self._control.fileno(), self._woken], [], [])
            if self._woken in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._woken, PACKET_BYTES)
                self._reap()
            if self._control.fileno() in ready:
                packet, descriptors, _, _ = socket.recv_fds(self._control, PACKET_BYTES, 4)
                if not packet:
                    self._end()
                self._handle(json.loads(packet), descriptors)

    def _handle(self, message: dict[str, Any], descriptors: list[int]) -> None:
        if "fork" in message:
            try:
                self._send({"pid": self._fork(message["fork"], descriptors)})
            except OSError as error:
                self._send({"error": f"no process could be started: {error.strerror}"})
            for descriptor in descriptors:
                os.close(descriptor)
        elif "end" in message:
            self._is_dismissed = True
            self._end()
        elif message["kill"] in self._members:
            if message["signal"] == signal.SIGKILL:
                _processes.kill_group(message["kill"])
            else:
                os.kill(message["kill"], message["signal"])

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._control.send(json.dumps(message).encode())
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.ECONNRESET):
                raise
            self._end()

    def _fork(self, number: int, descriptors: list[int]) -> int:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                self._begin_member(parent, descriptors)
                run_member(self._worker, self._connection, descriptors[0], descriptors[1], self._started, number)
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        self._members.add(pid)
        return pid

    def _begin_member(self, parent: int, descriptors: list[int]) -> None:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        # A cancel that arrives before the first job is for none.
        signal.signal(signal.SIGTERM, lambda *_: None)
        for number in (signal.SIGCHLD, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _processes.die_with(parent)
        _processes.adopt_orphans()
        self._control.close()
        null = os.open(os.devnull, os.O_RDONLY)
        for target, descriptor in ((0, null), (1, descriptors[2]), (2, descriptors[3])):
            os.dup2(descriptor, target)
            os.close(descriptor)

    def _reap(self) -> None:
        """Reports members that have ended, after everything that they have left behind."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._members:
                self._members.discard(pid)
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
                _processes.kill_children(self._members)
                self._send({"exited": pid, "status": os.waitstatus_to_exitcode(status)})

    def _end(self) -> NoReturn:
        if self._group is not None and not self._is_dismissed:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, signal.SIGKILL)
        for pid in self._members:
            _processes.kill_group(pid)
        _processes.kill_children()
        os._exit(0)
