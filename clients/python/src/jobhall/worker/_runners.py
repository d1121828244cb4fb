"""Tasks in which async jobs run, one after another: a new task for each costs more than a short job.

A task is reused only if its job has ended by itself and has left nothing behind: no cancel, no context variable.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ._output import current

if TYPE_CHECKING:
    from . import JobFunction
    from ._attempt import Attempt

    Call = tuple[Attempt, JobFunction, dict[str, Any]]

SLICE_SECONDS = 0.005


class Runners:
    """Starts jobs in the order of their assignment. ``run`` runs one and reports it; ``stop`` delivers a cancel."""

    def __init__(
        self,
        run: Callable[[Attempt, JobFunction, dict[str, Any]], Awaitable[None]],
        stop: Callable[[Attempt, asyncio.Task[None]], None],
    ) -> None:
        self.run = run
        self.stop = stop
        self.calls: deque[Call] = deque()
        self.idle: list[asyncio.Future[None]] = []
        self._loop = asyncio.get_running_loop()
        self._runners: set[_Runner] = set()
        self._context = contextvars.copy_context()
        self._looks = False

    def start(self, attempt: Attempt, function: JobFunction, arguments: dict[str, Any]) -> None:
        self.calls.append((attempt, function, arguments))
        if not self._looks:
            self._looks = True
            self._look()

    def _look(self) -> None:
        """Gives the first job to a task, which also takes the next ones until one of them waits for something."""
        if not self.calls:
            self._looks = False
            return
        if self.idle:
            self.idle.pop().set_result(None)
        else:
            runner = _Runner(self, self._loop, self._context.copy())
            self._runners.add(runner)
            runner.task.add_done_callback(lambda _: self._runners.discard(runner))
        self._loop.call_soon(self._look)

    def close(self) -> None:
        """Ends the tasks that run nothing."""
        for idle in self.idle:
            idle.cancel()
        self.idle.clear()


class _Runner:
    def __init__(self, runners: Runners, loop: asyncio.AbstractEventLoop, context: contextvars.Context) -> None:
        self._runners = runners
        self._loop = loop
        self._attempt: Attempt | None = None
        self._stop = self._stop_attempt
        self.task = loop.create_task(self._work(), context=context)

    def _stop_attempt(self) -> None:
        if self._attempt is not None:
            self._runners.stop(self._attempt, self.task)

    async def _work(self) -> None:
        calls, run, loop, task = self._runners.calls, self._runners.run, self._loop, self.task
        current.set(None)
        clean = contextvars.copy_context()
        while True:
            slice_end = loop.time() + SLICE_SECONDS
            while calls:
                attempt, function, arguments = calls.popleft()
                self._attempt, attempt.stop = attempt, self._stop
                current.set(attempt)
                await run(attempt, function, arguments)
                self._attempt = None
                current.set(None)
                if attempt.cancel_asked or attempt.lost or task.cancelling() or not _is_clean(clean):
                    return
                late = loop.time() >= slice_end
                # What an idle task no longer uses is not kept.
                del attempt, function, arguments
                if late:
                    # Messages are read and written; then this task or another one takes the next job.
                    break
            idle = loop.create_future()
            self._runners.idle.append(idle)
            await idle


def _is_clean(clean: contextvars.Context) -> bool:
    try:
        return contextvars.copy_context() == clean
    except Exception:
        # A value that cannot be compared is a new one.
        return False
