"""Runs the functions of jobs: in the event loop, in threads, or in processes."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import signal
from typing import TYPE_CHECKING, Any

from . import _forks, _output, _verdicts
from ._context import Context
from ._files import Access, put_artifact
from ._pool import Pool
from ._runners import Runners
from ._threads import Threads

if TYPE_CHECKING:
    from . import JobFunction
    from ._attempt import Attempt
    from ._loop import Loop

log = logging.getLogger("jobhall.worker")


class Executor:
    """Starts attempts, delivers their cancels, and makes the report of how they ended."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.grace = loop.worker.grace
        self.lost_slots = 0
        self._threads = Threads()
        self._runners = Runners(self._run, self._stop_task)
        self.pool = Pool(self)

    def open(self) -> None:
        """Makes the template of the processes, as long as this process has only one thread.

        Under a parent it exists in any case: it ends what is left if both are killed.
        """
        if self.loop.registry is not None or any(
            function.run == "process" for function in self.loop.worker.functions.values()
        ):
            self.pool.open()

    async def close(self) -> None:
        """Ends what runs nothing."""
        self._runners.close()
        await self.pool.close()

    def start(self, attempt: Attempt) -> None:
        function = self.loop.worker.functions.get(attempt.job["type"])
        if function is None:
            known = ", ".join(self.loop.worker.functions) or "none"
            text = f"this worker has no function for type {attempt.job['type']} (it has: {known})"
            attempt.finish(_verdicts.failed("unknown_type", text, retry="never"))
        elif function.run == "process":
            attempt.stop = lambda: self._stop_process(attempt)
            self.pool.start(attempt)
        else:
            self._start_here(attempt, function)

    def _start_here(self, attempt: Attempt, function: JobFunction) -> None:
        attempt.begun = True
        try:
            arguments = function.signature.bind(attempt.job["params"])
        except Exception as error:
            # Also of the app's own code, such as the __post_init__ of a dataclass.
            attempt.finish(_verdicts.of_exception(error))
            return
        if function.signature.context:
            access = Access(self.loop.connection, attempt.id, attempt.token)
            arguments[function.signature.context] = Context(attempt, access, attempt.job)
        if function.is_async:
            self._runners.start(attempt, function, arguments)
        else:
            self._start_thread(attempt, function, arguments)

    async def _run(self, attempt: Attempt, function: JobFunction, arguments: dict[str, Any]) -> None:
        if attempt.is_cancelled():
            # Before it has begun.
            self.end(attempt)
            return
        try:
            value = await function.function(**arguments)
        except BaseException as error:
            if _forks.is_fork():
                os._exit(1)
            self.end(attempt, error=error)
        else:
            if _forks.is_fork():
                # The job has forked, and this is the copy: the attempt belongs to the original.
                os._exit(0)
            self.end(attempt, value)

    def _stop_task(self, attempt: Attempt, task: asyncio.Task[None]) -> None:
        task.cancel()
        self.loop.later(self.grace, lambda: self._give_up(attempt))

    def _start_thread(self, attempt: Attempt, function: JobFunction, arguments: dict[str, Any]) -> None:
        context = contextvars.copy_context()
        context.run(_output.current.set, attempt)

        def done(value: Any, error: BaseException | None) -> None:
            self.loop.loop.call_soon_threadsafe(lambda: self.end(attempt, value, error=error))

        running = self._threads.start(lambda: context.run(function.function, **arguments), done)

        def stop() -> None:
            if running.cancel():
                self.loop.later(self.grace, lambda: self._give_up(attempt))
            else:
                self.end(attempt, error=_verdicts.Cancelled())

        attempt.stop = stop

    def _stop_process(self, attempt: Attempt) -> None:
        if self.pool.withdraw(attempt):
            attempt.finish(_verdicts.cancelled())
            return
        self.pool.signal(attempt, signal.SIGTERM)
        self.loop.later(self.grace, lambda: self.pool.signal(attempt, signal.SIGKILL))

    def end_process(self, attempt: Attempt, report: _verdicts.Report, value: str | None) -> None:
        if attempt.cancel_asked or attempt.lost:
            attempt.finish(_verdicts.cancelled())
        else:
            attempt.finish(report, value)

    def _give_up(self, attempt: Attempt) -> None:
        """A cancelled job that does not end is reported, and its slot counts as lost."""
        if attempt.ended:
            return
        self.lost_slots += 1
        text = f"the job did not end within {self.grace:g} s of its cancel and still runs"
        slots = self.loop.worker.slots
        log.error("attempt %s: %s; %d of %d slots are lost", attempt.id, text, self.lost_slots, slots)
        attempt.stuck = True
        attempt.output.write("stderr", f"[{text}]\n".encode())
        attempt.finish(_verdicts.cancelled(text))

    def end(self, attempt: Attempt, value: Any = None, *, error: BaseException | None = None) -> None:
        """The function has returned or raised."""
        if attempt.stuck:
            attempt.stuck = False
            self.lost_slots -= 1
            self.loop.touch()
        elif attempt.cancel_asked or attempt.lost:
            attempt.finish(_verdicts.cancelled())
        elif error is not None:
            if message := _verdicts.final_message(error):
                attempt.output.write("stderr", message.encode())
            attempt.finish(_verdicts.of_exception(error))
        elif attempt.job.get("external"):
            attempt.finish({"outcome": "started"})
        else:
            self._succeed(attempt, value)

    def _succeed(self, attempt: Attempt, value: Any) -> None:
        encoded = "null" if value is None else _verdicts.encode_result(value)
        if not isinstance(encoded, str):
            attempt.finish(encoded)
        elif _verdicts.is_inline(value, encoded):
            attempt.finish(_verdicts.SUCCEEDED, encoded)
        else:
            self.loop.spawn(self._store_result(attempt, encoded))

    async def _store_result(self, attempt: Attempt, encoded: str) -> None:
        access = Access(self.loop.connection, attempt.id, attempt.token)

        def put(data: bytes) -> Any:
            return put_artifact(access, "result", data, "application/json")

        report, _ = await asyncio.to_thread(_verdicts.store_result, put, encoded)
        attempt.finish(report)
