"""The parent of a worker process: it reports what the process ran when it died, and starts another one.

It loads nothing of the app. It knows the attempts from memory that the child writes (:mod:`._registry`). The child and
all that it has started die with the parent.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from . import _processes
from ._registry import CONNECTED, ENDED, STARTING, Left, Shared
from ._reload import Files
from ._reports import Reports

log = logging.getLogger("jobhall.worker")

REPLACE = 75
"""The exit code of a child that is to be replaced."""
LOOK_SECONDS = 0.25
BLOCKED_SECONDS = 1.5
PAUSE_SECONDS = (0.05, 0.4)
"""The first and the longest pause before a crashed child is replaced."""
STEADY_SECONDS = 10.0
RELOAD_SECONDS = 1.0
KILL_SECONDS = 4.0


class Parent:
    def __init__(self, arguments: Sequence[str], reload: bool) -> None:
        self._command = [sys.executable, "-m", "jobhall", "worker", *arguments]
        self._instance = uuid.uuid4().hex
        self._files = Files(Path.cwd()) if reload else None
        self._reports = Reports()
        self._asked = 0
        self._was_connected = False
        self._pause = PAUSE_SECONDS[0]
        self._woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def run(self) -> int:
        _processes.adopt_orphans()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)
        while True:
            code = _Child(self).run()
            if code is not None:
                self._reports.finish()
                return code

    def _ask(self, *_: object) -> None:
        self._asked += 1

    def wait(self, seconds: float, *descriptors: int) -> None:
        """Waits for a signal or one of the descriptors, at most this long."""
        select.select([self._woken, *descriptors], [], [], max(0.0, seconds))
        try:
            os.read(self._woken, 4_096)
        except BlockingIOError:
            return

    def wait_for_change(self, why: str) -> int | None:
        """Waits for an edit after an app could not be started; the exit code if there will be none."""
        if self._files is None:
            return 1
        log.error("%s; waiting for a change", why)
        while not self._asked:
            if self._files.changed():
                return None
            self.wait(LOOK_SECONDS)
        return 0

    def pause(self, lived: float) -> None:
        """A child that crashes again soon is replaced a little later each time."""
        first, longest = PAUSE_SECONDS
        self._pause = first if lived >= STEADY_SECONDS else min(self._pause * 2, longest)
        until = time.monotonic() + self._pause
        while not self._asked and (left := until - time.monotonic()) > 0:
            self.wait(left)


class _Child:
    """One child, from its start to its end."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._shared = Shared()
        extra = ["--child", str(self._shared.descriptor), "--parent", str(os.getpid())]
        extra += ["--instance", parent._instance]
        if parent._reports.are_open():
            # A fresh session would end the leases before they are reported.
            extra.append("--continued")
        descriptors = (self._shared.descriptor,)
        # In a group of its own: a Ctrl-C of the terminal reaches the parent only.
        self._process = subprocess.Popen(
            parent._command + extra, stdin=subprocess.DEVNULL, pass_fds=descriptors, process_group=0
        )
        self._since = time.monotonic()
        self._sent = 0
        self._reload_at: float | None = None
        self._killed: str | None = None

    def run(self) -> int | None:
        """The exit code of the parent; none if another child is to be started."""
        descriptor = os.pidfd_open(self._process.pid)
        try:
            while self._process.poll() is None:
                self._look()
                self._parent.wait(LOOK_SECONDS, descriptor)
        finally:
            os.close(descriptor)
        _processes.kill_children()
        left = self._shared.left()
        self._shared.close()
        self._parent._was_connected |= left.state != STARTING and left.connection is not None
        status = self._process.returncode
        return self._ended(status) if left.state == ENDED else self._died(status, left)

    def _look(self) -> None:
        now = time.monotonic()
        while self._sent < self._parent._asked:
            self._sent += 1
            # The first lets the jobs end, the second gives them up.
            self._process.send_signal(signal.SIGTERM if self._sent < 3 else signal.SIGKILL)
        heartbeat, lease_end = self._shared.times()
        if self._killed is None and 0 < lease_end < now and heartbeat + BLOCKED_SECONDS < now:
            self._killed = f"the event loop of the worker was blocked for {now - heartbeat:.0f} s, and its leases end"
            log.error("%s: the process is killed", self._killed)
            self._process.kill()
        if self._parent._files is not None:
            self._look_at_files(now)

    def _look_at_files(self, now: float) -> None:
        assert self._parent._files is not None
        changed = self._parent._files.changed()
        if changed and self._reload_at is None:
            log.info("loading the app again: %s has changed", os.path.relpath(changed[0]))
            self._reload_at = now
            self._process.send_signal(signal.SIGTERM)
        if self._reload_at is not None and now > self._reload_at + RELOAD_SECONDS:
            overdue = now > self._reload_at + RELOAD_SECONDS + KILL_SECONDS
            self._process.send_signal(signal.SIGKILL if overdue else signal.SIGTERM)

    def _ended(self, status: int) -> int | None:
        """It has ended in order."""
        if self._parent._asked:
            return status
        if self._reload_at is not None or status == REPLACE:
            return None
        if status != 0 and self._parent._files is not None:
            return self._parent.wait_for_change("the app was not started")
        return status

    def _died(self, status: int, left: Left) -> int | None:
        how = _processes.describe(status)
        if self._reload_at is not None and status < 0:
            # It was ended for the reload: its jobs run again.
            return None if not self._parent._asked else 0
        explanation = self._killed or f"the process of the worker {how}, with all jobs that ran in it"
        reason = f"signal_{-status}" if status < 0 else f"exit_{status}"
        if self._killed:
            reason = "loop_blocked"
        log.error("the worker process %s: %d attempts have crashed", how, len(left.attempts))
        if self._parent._asked < 3:
            self._parent._reports.crashed(left, reason, explanation)
        if self._parent._asked:
            return 1 if left.attempts else 0
        if left.state != CONNECTED and not self._parent._was_connected:
            return self._parent.wait_for_change(f"the worker process {how} before it was connected")
        self._parent.pause(time.monotonic() - self._since)
        return None
