"""Linux process control: no process outlives the one that is responsible for it."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Collection
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_ROUNDS = 200

_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def die_with(parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Has the kernel send this process a signal when its parent dies."""
    _prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        # The parent died before the kernel knew whom to signal.
        os.kill(os.getpid(), number)


def adopt_orphans() -> None:
    """Makes this process the parent of descendants whose parent has died."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def children() -> list[int]:
    """The children of this process; none if the kernel does not list them."""
    found: list[int] = []
    try:
        for thread in Path("/proc/self/task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    except OSError:
        pass
    return found


def kill_children(keep: Collection[int] = ()) -> None:
    """Kills all descendants, except for the children in ``keep`` and theirs. Needs :func:`adopt_orphans`."""
    for _ in range(_ROUNDS):
        others = [pid for pid in children() if pid not in keep]
        if not others:
            return
        for pid in others:
            _signal(pid, signal.SIGKILL)
        for pid in others:
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                continue


def end_children() -> None:
    """Ends what a job has started and left behind. Costs one system call if there is nothing."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return
    kill_children()


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def kill_group(pid: int) -> None:
    """Kills a child that leads a process group, and the group."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        _signal(pid, signal.SIGKILL)


def describe(status: int) -> str:
    """How a process ended: a negative status is a signal."""
    if status >= 0:
        return f"exited with code {status}"
    try:
        return f"was ended by signal {-status} ({signal.Signals(-status).name})"
    except ValueError:
        return f"was ended by signal {-status}"
