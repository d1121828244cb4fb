"""Processes that jobs fork: they have a copy of the worker, but are not the worker."""

from __future__ import annotations

import os
import signal
import threading

_forked = False
_handled: tuple[signal.Signals, ...] = ()
_thread = threading.local()


def _before_fork() -> None:
    """Until the copy has the default handlers, a signal to it waits: the worker's would write it to the worker."""
    _thread.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _handled) if _handled else None


def _unblock() -> None:
    mask, _thread.mask = getattr(_thread, "mask", None), None
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _in_fork() -> None:
    global _forked
    _forked = True
    if _handled:
        # Python writes the number of a signal to this descriptor, which the worker reads: a signal to the copy, such as
        # the one that ends a multiprocessing.Pool, would be taken for one to the worker.
        signal.set_wakeup_fd(-1)
    for number in _handled:
        default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, default)
    _unblock()


os.register_at_fork(before=_before_fork, after_in_parent=_unblock, after_in_child=_in_fork)


def begin() -> None:
    """Marks this process as the one that runs jobs."""
    global _forked
    _forked = False


def is_fork() -> bool:
    """Whether this process was forked by a job of the worker."""
    return _forked


def end_fork() -> None:
    """Ends this process if a job has forked it."""
    if _forked:
        os._exit(1)


def handles(*numbers: signal.Signals) -> None:
    """Records which signals have handlers of the worker: a process that a job forks has the default ones."""
    global _handled
    _handled = numbers
