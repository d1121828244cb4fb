"""How a function runs: in the event loop, or in a thread. Both can be stopped."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Any

from ..worker import Cancelled
from ..worker._threads import Running

End = Callable[[Any, BaseException | None], None]
Stop = Callable[[], None]


class StillRuns(Exception):
    """A cancelled job has not ended in its grace."""


def start_task(function: Callable[..., Any], arguments: dict[str, Any], context: contextvars.Context, end: End) -> Stop:
    """Runs a coroutine function."""

    async def call() -> None:
        try:
            value = await function(**arguments)
        except BaseException as error:
            end(None, error)
        else:
            end(value, None)

    task = asyncio.get_running_loop().create_task(call(), context=context)

    def stop() -> None:
        task.cancel()

    return stop


def start_thread(
    function: Callable[..., Any], arguments: dict[str, Any], context: contextvars.Context, end: End
) -> Stop:
    """Runs a function in a thread of its own, which ends with it. To stop it, ``Cancelled`` is raised in it."""
    loop = asyncio.get_running_loop()

    def done(value: Any, error: BaseException | None) -> None:
        with contextlib.suppress(RuntimeError):  # a job that was given up outlives the event loop
            loop.call_soon_threadsafe(end, value, error)

    running = Running(lambda: context.run(function, **arguments), done)

    def stop() -> None:
        if not running.cancel():
            end(None, Cancelled())

    threading.Thread(target=running.run, daemon=True, name="jobhall").start()
    return stop
