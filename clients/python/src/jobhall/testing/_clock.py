"""Virtual time: it does not move while a job can run, and then moves to the next delay."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Iterable
from typing import Protocol

from ..errors import JobhallError


class Ended(Protocol):
    """A job that may be waited for."""

    @property
    def is_completed(self) -> bool: ...

    @property
    def waits(self) -> list[Wait]: ...


class Wait:
    """A wait for several jobs."""

    def __init__(self, clock: Clock, jobs: Iterable[Ended]) -> None:
        self._clock = clock
        self._left = 0
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for job in {id(one): one for one in jobs if not one.is_completed}.values():
            self._left += 1
            job.waits.append(self)

    def is_over(self) -> bool:
        return self._left == 0

    def job_ended(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._clock.resume(self)


class Clock:
    """Counts what can run. Jobs that delay or wait do not count; what ends their pause counts them again."""

    def __init__(self) -> None:
        self.now = 0.0
        """Seconds since the first job."""
        self._active = 0
        self._number = itertools.count()
        self._delayed: list[tuple[float, int, asyncio.Future[None]]] = []
        self._waits: set[Wait] = set()

    def clear(self) -> None:
        """Nothing runs or waits any more. The time stays."""
        self._active = 0
        self._delayed.clear()
        self._waits.clear()

    def enter(self) -> None:
        self._active += 1

    def leave(self) -> None:
        """Something that could run has ended or paused. If it was the last, time moves."""
        self._active -= 1
        while self._active == 0 and self._delayed:
            at, _, future = heapq.heappop(self._delayed)
            if not future.done():
                self.now = max(self.now, at)
                self._active += 1
                future.set_result(None)
        if self._active == 0:
            self._stalled()

    def _stalled(self) -> None:
        waits, self._waits = self._waits, set()
        for wait in waits:
            self._active += 1
            wait.future.set_exception(JobhallError("these jobs wait for each other: none of them can end"))

    async def delay(self, seconds: float) -> None:
        """Pauses for this long in virtual time."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._delayed, (self.now + seconds, next(self._number), future))
        self.leave()
        await future

    async def wait(self, wait: Wait) -> None:
        """Pauses until the jobs have ended. The future of the wait may be cancelled."""
        if wait.is_over():
            return
        self._waits.add(wait)
        self.leave()
        try:
            await wait.future
        except asyncio.CancelledError:
            if wait in self._waits:
                self._waits.discard(wait)
                self._active += 1
            raise

    def resume(self, wait: Wait) -> None:
        if wait in self._waits:
            self._waits.discard(wait)
            self._active += 1
            if not wait.future.done():
                wait.future.set_result(None)
