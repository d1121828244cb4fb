"""What a running job can do: progress, sub-jobs, artifacts, inputs."""

from __future__ import annotations

import asyncio
import copy
import operator
from collections.abc import Iterable, Iterator, Sized
from typing import Any, Protocol, TypeVar

from .._query_text import Query
from .._spec import JobType, over, type_name
from ..errors import JobhallError
from ._files import Access, Data, put_artifact, read_inputs
from ._queries import Asking, do
from ._verdicts import cut

T = TypeVar("T")
INDICATOR_BYTES = 1_024
"""Longest name or message of an indicator; the server's bound."""
MOST_STEPS = 2**63 - 1


class Port(Protocol):
    """The way of a context to the session of its worker."""

    def progress(self, indicator: dict[str, Any]) -> None: ...

    def is_cancelled(self) -> bool: ...

    async def ask(self, kind: str, body: Any) -> Any: ...

    def ask_sync(self, kind: str, body: Any) -> Any: ...


class SubJobFailed(JobhallError):
    """A sub-job has ended without success."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.id: int = state["id"]
        self.state: str = state["state"]
        self.error: dict[str, Any] | None = state.get("error")
        reason = f": {self.error.get('reason', '')}" if self.error else ""
        super().__init__(f"sub-job {self.id} has ended as {self.state}{reason}")


def _count(field: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{field} must be an integer, not {value!r:.80}") from None
    if not 0 <= number <= MOST_STEPS:
        raise ValueError(f"{field} of {number} is outside 0 to {MOST_STEPS}")
    return number


class _Wait:
    """A wait for several sub-jobs. The server leaves out results that do not fit into one message: they are asked for
    in another one. Results that are artifacts are always left out, and read with a request each."""

    def __init__(self, access: Access | None, jobs: Iterable[SubJob]) -> None:
        self._access = access
        # One wrong id would end the session, which other jobs use too.
        self._ids = [_count("id of a sub-job", job.id) for job in jobs]
        self._states: dict[int, dict[str, Any]] = {}

    def left(self) -> list[int]:
        """The jobs to ask for."""
        return [id for id in self._ids if id not in self._states]

    def received(self, states: list[dict[str, Any]]) -> None:
        whole = [state for state in states if not state.get("left_out")]
        # The first one always fits: if all are left out, all are artifacts.
        self._states.update((state["id"], state) for state in whole or states)

    async def results(self) -> list[Any]:
        if any(state.get("left_out") for state in self._states.values()):
            return await asyncio.to_thread(self.results_sync)
        return self.results_sync()

    def results_sync(self) -> list[Any]:
        values = {id: _value(self._access, self._states[id]) for id in dict.fromkeys(self._ids)}
        return [values[id] for id in self._ids]


def _value(access: Access | None, state: dict[str, Any]) -> Any:
    if state["state"] != "succeeded":
        raise SubJobFailed(state)
    if state.get("left_out") and access is not None:
        return access.request("GET", f"jobs/{state['id']}/result")
    return state.get("result")


class SubJob:
    """A sub-job. While an attempt waits for its result, other jobs may use its slot."""

    def __init__(self, port: Port, access: Access | None, called: dict[str, Any]) -> None:
        self._port = port
        self._access = access
        self.id: int = called["id"]

    async def result(self) -> Any:
        """The result; raises :class:`SubJobFailed`."""
        wait = _Wait(self._access, [self])
        wait.received(await self._port.ask("wait", wait.left()))
        return (await wait.results())[0]

    def result_sync(self) -> Any:
        """The same, in a sync job."""
        wait = _Wait(self._access, [self])
        wait.received(self._port.ask_sync("wait", wait.left()))
        return wait.results_sync()[0]


class Context:
    """The attempt that runs. Annotate a parameter of the function with it.

    Methods that wait exist twice: as coroutines for async jobs, and with the suffix ``_sync`` for the others.
    """

    def __init__(self, port: Port, access: Access | None, job: dict[str, Any]) -> None:
        self._port = port
        self._access = access
        self._job = job
        self._calls = 0
        self._asking = Asking()
        self._blocks = False
        self.format: str | None = None
        """In a command: the extension of the query's file name, if the command has declared formats."""

    @property
    def job_id(self) -> int:
        return int(self._job["id"])

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 1."""
        return int(self._job["attempt"])

    @property
    def type(self) -> str:
        return str(self._job["type"])

    @property
    def key(self) -> str | None:
        key: str | None = self._job.get("key")
        return key

    @property
    def queue(self) -> str:
        return str(self._job.get("queue", "default"))

    @property
    def cancelled(self) -> bool:
        """Whether the job was cancelled or timed out and should end."""
        return self._port.is_cancelled()

    def progress(self, step: int, total: int | None = None, message: str = "", *, name: str = "") -> None:
        """Reports progress; of reports in quick succession the last one is sent. A long message is shortened."""
        if not isinstance(name, str) or len(name.encode()) > INDICATOR_BYTES:
            raise ValueError(f"name must be a string of at most {INDICATOR_BYTES} bytes, not {name!r:.80}")
        text = cut(str(message), INDICATOR_BYTES)
        indicator: dict[str, Any] = {"name": name, "step": _count("step", step), "message": text}
        if total is not None:
            indicator["total"] = _count("total", total)
        self._port.progress(indicator)

    def track(self, items: Iterable[T], total: int | None = None, message: str = "") -> Iterator[T]:
        """Yields the items and reports how many are done."""
        if total is None and isinstance(items, Sized):
            total = len(items)
        self.progress(0, total, message)
        for step, item in enumerate(items, 1):
            yield item
            self.progress(step, total, message)

    def _sub_job(
        self, type: str | JobType, call: str | None, options: dict[str, Any] | None, params: dict[str, Any]
    ) -> Any:
        self._calls += 1
        name = type_name(type)
        job: dict[str, Any] = {"type": name, "params": params, **(options or {})}
        if not isinstance(type, str):
            # A sub-job is in the queue of its parent.
            job = over(job, {field: value for field, value in type.options.items() if field != "queue"})
        key = job.get("key")
        call = call or (f"{name}/{key}" if key else f"{name}#{self._calls}")
        return {"call": call, "job": job}

    async def submit(
        self, type: str | JobType, /, *, call: str | None = None, options: dict[str, Any] | None = None, **params: Any
    ) -> SubJob:
        """Submits a sub-job. The same ``call`` in a later attempt is the same job, unless that has failed.

        By default it is the type with the key, or with the position among the calls of this attempt.
        ``options`` are fields of a job, such as ``key`` or ``needs``. The type may be a function that ``@worker.job``
        registered: the options of the decorator are then the defaults, without the queue.
        """
        called = await self._port.ask("sub_job", self._sub_job(type, call, options, params))
        return SubJob(self._port, self._access, called)

    def submit_sync(
        self, type: str | JobType, /, *, call: str | None = None, options: dict[str, Any] | None = None, **params: Any
    ) -> SubJob:
        """The same, in a sync job."""
        called = self._port.ask_sync("sub_job", self._sub_job(type, call, options, params))
        return SubJob(self._port, self._access, called)

    async def results(self, jobs: Iterable[SubJob]) -> list[Any]:
        """The results of several sub-jobs, with one wait for all."""
        wait = _Wait(self._access, jobs)
        while asked := wait.left():
            wait.received(await self._port.ask("wait", asked))
        return await wait.results()

    def results_sync(self, jobs: Iterable[SubJob]) -> list[Any]:
        """The same, in a sync job."""
        wait = _Wait(self._access, jobs)
        while asked := wait.left():
            wait.received(self._port.ask_sync("wait", asked))
        return wait.results_sync()

    async def query(self, query: Query) -> bytes:
        """The value of a query; only a command may ask. Other jobs may use the slot while it waits.

        What was asked for counts for the value of this command: it is made again when the query means something else.
        A step that fails raises :class:`jobhall.QueryFailed`, which fails this command too unless it is handled.
        """
        if self._blocks:
            return self.query_sync(query)
        access, steps, given = self._reach(), self._asking.steps(query), None
        error: Exception | None = None
        try:
            while True:
                step = steps.throw(error) if error is not None else steps.send(given)
                given = error = None
                try:
                    if step[0] == "wait":
                        await self._port.ask(*step)
                    else:
                        given = await asyncio.to_thread(do, access, self._asking, step)
                except Exception as caught:
                    error = caught
        except StopIteration as end:
            value: bytes = end.value
            return value

    def _within(self) -> Context:
        """The context of a command that another one runs in a thread, which is blocked while it waits."""
        inner = copy.copy(self)
        inner._blocks = True
        return inner

    def query_sync(self, query: Query) -> bytes:
        """The same, in a sync command."""
        access, steps, given = self._reach(), self._asking.steps(query), None
        error: Exception | None = None
        try:
            while True:
                step = steps.throw(error) if error is not None else steps.send(given)
                given = error = None
                try:
                    given = self._port.ask_sync(*step) if step[0] == "wait" else do(access, self._asking, step)
                except Exception as caught:
                    error = caught
        except StopIteration as end:
            value: bytes = end.value
            return value

    def _reach(self) -> Access:
        if self._access is None:
            raise JobhallError("this job runs without a server: artifacts and inputs need one")
        return self._access

    async def artifact(self, name: str, data: Data, media_type: str | None = None) -> dict[str, Any]:
        """Stores bytes, or the file at a path, as an artifact of this attempt."""
        return await asyncio.to_thread(put_artifact, self._reach(), name, data, media_type)

    def artifact_sync(self, name: str, data: Data, media_type: str | None = None) -> dict[str, Any]:
        """The same, in a sync job."""
        return put_artifact(self._reach(), name, data, media_type)

    async def inputs(self) -> list[dict[str, Any]]:
        """The jobs that this one comes after, with their results, in the order of ``after``."""
        return await asyncio.to_thread(read_inputs, self._reach())

    def inputs_sync(self) -> list[dict[str, Any]]:
        """The same, in a sync job."""
        return read_inputs(self._reach())
