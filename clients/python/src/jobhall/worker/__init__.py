"""Workers: functions that run as jobs.

``run`` of ``@worker.job`` says where a function runs:

- ``async`` (coroutine functions): in the event loop. A cancel raises ``asyncio.CancelledError`` in it.
- ``thread`` (other functions): in a thread. A cancel raises :class:`Cancelled` in it, as soon as it runs Python code.
- ``process``: in a process of a pool, one job at a time, in its main thread. What it prints is captured by the
  descriptors, so that programs that it starts are included, and they end with the job. A cancel is a SIGTERM, which
  raises :class:`Cancelled`; after ``grace`` the process is killed. If the process dies, only this job has crashed. The
  processes are forked from one that was forked when the worker started: what the module of the app has loaded is there,
  threads that it has started are not.

A job in the event loop or a thread that does not end within ``grace`` of its cancel is reported, and its slot counts
as lost. If one of them ends the process, it ends all of them: ``python -m jobhall worker app:worker`` runs the worker
in a child process, reports these jobs as crashed and starts another child.

The options of ``@worker.job`` are defaults of submits that name the function: a worker may not change the
settings of a type on the server.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import inspect
import logging
import re
import selectors
import threading
import uuid
from typing import TYPE_CHECKING, Any, Literal

from .._connection import find_server
from .._spec import span
from . import _forks
from ._arguments import Signature
from ._commands import Commands
from ._context import Context, SubJob, SubJobFailed
from ._loop import Loop
from ._session import ssl_context
from ._threads import DaemonExecutor
from ._verdicts import BadArguments, Cancelled, NoRetry, Retry, Skip, Snooze

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from .._connection import Connection
    from .._spec import Span
    from ._registry import Registry

__all__ = [
    "BadArguments",
    "Cancelled",
    "Context",
    "JobFunction",
    "NoRetry",
    "Retry",
    "Skip",
    "Snooze",
    "SubJob",
    "SubJobFailed",
    "Worker",
]

log = logging.getLogger("jobhall.worker")
Run = Literal["async", "thread", "process"]
_END_SECONDS = 1.0
MAX_SLOTS = 10_000
"""The server's bound."""
MAX_PROCESSES = 4_096
LEAST_LEASE = 3
MOST_SECONDS = 86_400
_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def _check_number(field: str, value: Any, kind: Any, least: float, most: float) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{field} must be a number, not {value!r:.80}")
    if not least <= value <= most:
        raise ValueError(f"{field} must be from {least} to {most}, not {value}")


class JobFunction:
    """A function that runs as a job. Calling it runs it here."""

    def __init__(
        self, type: str, function: Callable[..., Any], options: dict[str, Any], run: Run | None = None
    ) -> None:
        self.type = type
        self.function = function
        self.options = options
        """Fields of a job for submits that name this function."""
        self.signature = Signature(function, Context)
        self.is_async = inspect.iscoroutinefunction(function)
        self.run: Run = run or ("async" if self.is_async else "thread")
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", type)
        self.check_run()

    def check_run(self) -> None:
        """Refuses a way to run that the function does not have."""
        if self.run not in ("async", "thread", "process"):
            raise ValueError(f"run of {self.type!r} must be 'async', 'thread' or 'process', not {self.run!r}")
        if self.is_async and self.run == "thread":
            raise ValueError(f"{self.__name__} is a coroutine function: run must be 'async' or 'process'")
        if not self.is_async and self.run == "async":
            raise ValueError(f"{self.__name__} is no coroutine function: run must be 'thread' or 'process'")

    def __call__(self, *args: Any, **arguments: Any) -> Any:
        return self.function(*args, **arguments)

    def submit_fields(self, **params: Any) -> dict[str, Any]:
        """The job to submit, with the defaults of the decorator."""
        return {"type": self.type, "params": params, **self.options}


class Worker(Commands):
    """A set of functions and the slots in which they run.

    ``processes`` is the largest number of processes for jobs with ``run="process"``; by default there is one for each
    slot. If it is lower, the other slots hold jobs that wait here for a process: they start sooner when one is free.
    ``name`` is needed if the token is an administrator's; it is the name of this machine by default. ``grace`` is the
    time in seconds that a cancelled job has to end. ``lease`` is the time in seconds after which the server gives the
    jobs of a silent worker to another one: 3 to the server's own, which is the default.
    """

    def __init__(
        self,
        *,
        slots: int = 1,
        processes: int | None = None,
        name: str | None = None,
        abilities: str = "",
        server: str | Sequence[str] | None = None,
        token: str | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        ca: str | os.PathLike[str] | None = None,
        grace: float = 10.0,
        lease: float | None = None,
    ) -> None:
        _check_number("slots", slots, int, 1, MAX_SLOTS)
        if processes is not None:
            _check_number("processes", processes, int, 1, MAX_PROCESSES)
        _check_number("grace", grace, int | float, 0, MOST_SECONDS)
        if lease is not None:
            _check_number("lease", lease, int | float, LEAST_LEASE, MOST_SECONDS)
        if not isinstance(abilities, str):
            raise TypeError(f"abilities must be a text such as 'gpu=2, os=linux', not {abilities!r:.80}")
        self.slots = slots
        self.processes = processes or MAX_PROCESSES
        self.name = name
        self.abilities = abilities
        self.server = server
        self.token = token
        self.data_dir = data_dir
        self.ca = ca
        self.grace = grace
        self.lease = lease
        super().__init__()
        self.functions: dict[str, JobFunction]
        self.loop: Loop | None = None
        self.instance = uuid.uuid4().hex
        self.fresh = True
        """Whether the attempts of an earlier process of this worker have ended with it."""

    def job(
        self,
        type: str,
        *,
        run: Run | None = None,
        needs: str | None = None,
        uses: str | None = None,
        max_attempts: int | None = None,
        timeout: Span | None = None,
        queue: str | None = None,
        priority: int | None = None,
    ) -> Callable[[Callable[..., Any]], JobFunction]:
        """Registers a function for a type. The options are the defaults of submits that name the function."""
        if not isinstance(type, str):
            name = getattr(type, "__name__", "NAME")
            raise TypeError(f'write @worker.job("{name}"): the decorator takes the type of the job first')
        if not _TYPE.fullmatch(type):
            raise ValueError(f"type {type!r:.80} must have letters, digits, '.', '_' and '-' only, at most 128 of them")
        options: dict[str, Any] = {"needs": needs, "uses": uses, "queue": queue, "priority": priority}
        options["retry"] = None if max_attempts is None else {"max_attempts": max_attempts}
        options["timeouts"] = None if timeout is None else {"total": span(timeout)}
        given = {name: value for name, value in options.items() if value is not None}

        def register(function: Callable[..., Any]) -> JobFunction:
            if type in self.functions:
                raise ValueError(f"type {type!r} has a function already: {self.functions[type].__name__}")
            self.functions[type] = JobFunction(type, function, given, run)
            return self.functions[type]

        return register

    def accepts(self) -> str:
        """The filter of the jobs that the server may assign."""
        return f"type in ({','.join(self.functions)})"

    def all_abilities(self) -> str:
        """The abilities that are sent to the server: those of the app, and its commands."""
        return ", ".join(text for text in (self.abilities, self.command_abilities()) if text)

    def connection(self) -> Connection:
        """The server that this worker uses, with a certificate that can be read."""
        found = find_server(self.server, self.token, self.data_dir, ca=self.ca)
        for address in found.addresses:
            ssl_context(found, address)
        return found

    async def serve(self, registry: Registry | None = None) -> None:
        """Runs jobs until the worker is drained, in the running event loop."""
        if not self.functions:
            raise ValueError("this worker has no jobs: register functions with @worker.job or @worker.command")
        edited = self.freeze_commands()
        self.loop = Loop(self, self.connection(), registry)
        if edited is not None and registry is not None:
            # The parent starts another process.
            self.loop.is_replaced = True
            return
        await self.loop.run()

    def run(self, registry: Registry | None = None) -> None:
        """Runs jobs until SIGTERM or SIGINT, which let the current ones end. A second signal gives them back.

        A thread of a job that never ends does not keep the process when this has returned.
        """
        loop = asyncio.SelectorEventLoop(_Selector())
        loop.set_default_executor(DaemonExecutor())
        earlier = set(threading.enumerate())
        # What was loaded before the first job lives as long as the worker: collections need not visit it.
        gc.collect()
        gc.freeze()
        try:
            asyncio.set_event_loop(loop)
            loop.run_until_complete(self.serve(registry))
        finally:
            rest = asyncio.all_tasks(loop)
            for task in rest:
                task.cancel()
            if rest:
                _, left = loop.run_until_complete(asyncio.wait(rest, timeout=_END_SECONDS))
                for task in left:
                    _keep(task)
            asyncio.set_event_loop(None)
            loop.close()
            gc.unfreeze()
            _warn_of_threads(earlier)


def _keep(task: asyncio.Task[Any]) -> None:
    """Has a coroutine that ignores its cancel never be freed: then it would run again, perhaps forever."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))


def _warn_of_threads(earlier: set[threading.Thread]) -> None:
    """Python waits for threads that are no daemons, as those that a coroutine starts."""
    left = [thread.name for thread in threading.enumerate() if not thread.daemon and thread not in earlier]
    if left:
        text = (
            "the worker has ended; the process ends after the threads that jobs have started, or at the next signal: %s"
        )
        log.warning(text, ", ".join(left))


class _Selector(selectors.DefaultSelector):
    """Ends a process that a job has forked: its event loop shares the connections of the worker."""

    def select(self, timeout: float | None = None) -> Any:
        _forks.end_fork()
        return super().select(timeout)
