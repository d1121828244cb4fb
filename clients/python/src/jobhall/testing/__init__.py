"""Test helpers: jobs that run in this process without a server, and servers that live as long as a test.

The plugin for pytest, ``jobhall_pytest``, makes fixtures of them. Nothing here depends on pytest.
"""

from __future__ import annotations

import asyncio
from typing import Any

from .._spec import JobType
from ..worker import Worker
from ..worker._commands.function import CommandFunction
from ._commands import LocalValue, call_of, find_command, run_call
from ._hall import LocalHall
from ._jobs import LocalAttempt, LocalJob
from ._server import RunningWorker, Server, find_binary

__all__ = [
    "LocalAttempt",
    "LocalHall",
    "LocalJob",
    "LocalValue",
    "RunningWorker",
    "Server",
    "find_binary",
    "run",
    "run_async",
    "run_command",
    "run_command_async",
]


def run(worker: Worker, type: str | JobType, /, **options: Any) -> LocalJob:
    """Runs one job of a worker to its end, in this process and without a server; retries are not waited for.

    The arguments are those of ``Client.submit``. For several workers, a cancel, or jobs that come after each other, see
    :class:`LocalHall`.
    """
    return LocalHall(worker).run(type, **options)


async def run_async(worker: Worker, type: str | JobType, /, **options: Any) -> LocalJob:
    """The same, in a running event loop."""
    return await LocalHall(worker).run_async(type, **options)


def run_command(
    worker: Worker, command: str | CommandFunction, /, *arguments: Any, input: Any = None, format: str | None = None
) -> LocalValue:
    """Runs one command of a worker in this process, without a server, and returns its value.

    ``input`` is the value of the step before: bytes, a text, a path, or anything else that a command may return. The
    arguments are converted to texts and back, as in a query. ``format`` is the extension of the query's file name.
    Raises ``JobFailed`` if the command fails.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run_command_async(worker, command, *arguments, input=input, format=format))
    raise RuntimeError("an event loop runs in this thread: use `await testing.run_command_async(...)`")


async def run_command_async(
    worker: Worker, command: str | CommandFunction, /, *arguments: Any, input: Any = None, format: str | None = None
) -> LocalValue:
    """The same, in a running event loop."""
    return await run_call(LocalHall(worker), call_of(find_command(worker, command), arguments, input, format))
