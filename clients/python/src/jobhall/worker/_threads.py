"""Threads for sync jobs. They are daemons: one that never ends does not keep the process."""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes
import os
import queue
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from ._verdicts import Cancelled

P = ParamSpec("P")
T = TypeVar("T")
_raise = ctypes.pythonapi.PyThreadState_SetAsyncExc
Done = Callable[[Any, BaseException | None], None]


class Running:
    """One call in a thread. ``done`` is called there with its value, or with what it raised."""

    def __init__(self, call: Callable[[], Any], done: Done) -> None:
        self._call = call
        self._done = done
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._cancelled = False

    def run(self) -> None:
        with self._lock:
            if self._cancelled:
                return
            self._thread = threading.get_ident()
        process = os.getpid()
        outcome: tuple[Any, BaseException | None] = (None, Cancelled())
        # A cancel may arrive after the call has ended.
        with contextlib.suppress(Cancelled):
            outcome = self._outcome()
        if os.getpid() != process:
            # The job has forked, and this is the copy: the attempt belongs to the original.
            os._exit(0 if outcome[1] is None else 1)
        self._settle()
        self._done(*outcome)

    def _outcome(self) -> tuple[Any, BaseException | None]:
        try:
            return self._call(), None
        except BaseException as error:
            return None, error

    def _settle(self) -> None:
        """After this, no cancel arrives."""
        while True:
            try:
                with self._lock:
                    self._thread = None
                    _raise(ctypes.c_ulong(threading.get_ident()), None)
                return
            except Cancelled:
                continue

    def cancel(self) -> bool:
        """Raises :class:`Cancelled` in the call; false if it has not begun and now never will."""
        with self._lock:
            if self._thread is None:
                self._cancelled = True
                return False
            _raise(ctypes.c_ulong(self._thread), ctypes.py_object(Cancelled))
            return True


class Threads:
    """Runs calls; a thread is started if none is idle."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Running] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._free = 0

    def start(self, call: Callable[[], Any], done: Done) -> Running:
        running = Running(call, done)
        with self._lock:
            starts = self._free <= 0
            if not starts:
                self._free -= 1
        self._calls.put(running)
        if starts:
            threading.Thread(target=self._work, daemon=True, name="jobhall").start()
        return running

    def _work(self) -> None:
        while True:
            self._calls.get().run()
            with self._lock:
                self._free += 1


class DaemonExecutor(concurrent.futures.ThreadPoolExecutor):
    """The threads of ``asyncio.to_thread``. The interpreter would wait for those of its own executor when it ends, also
    for one that never ends, although the job that has started it was cancelled and reported."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._guard = threading.Lock()
        self._idle = self._started = 0

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> concurrent.futures.Future[T]:
        future: concurrent.futures.Future[T] = concurrent.futures.Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                value = fn(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(value)

        with self._guard:
            starts = self._idle <= 0 and self._started < self._max_workers
            self._started += starts
            self._idle -= not starts
        self._calls.put(call)
        if starts:
            threading.Thread(target=self._work, daemon=True, name="jobhall-executor").start()
        return future

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            # What an idle thread no longer uses is not kept.
            del call
            with self._guard:
                self._idle += 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        for _ in range(self._started):
            self._calls.put(None)
