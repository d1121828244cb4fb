"""The asynchronous client. ``client.py``, the synchronous one, is generated from this file."""

from __future__ import annotations

import codecs
import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, Self, TypeVar

from . import _ops, models
from ._aio_queries import AsyncPromise as AsyncPromise
from ._aio_queries import AsyncQueries
from ._connection import find_server
from ._core import Op, change, get, path, with_key
from ._core import Request as _Request
from ._spec import HasId, JobSpec, JobType, milliseconds, spec, texts, timestamp, wire_of
from ._streams import TERMINAL, Ends, Event, Events, Log, wait_group, wait_job
from ._transport import AsyncTransport
from .errors import GroupFailed
from .models import Artifact, Attempt, Explanation, Failure, Submitted
from .requests import Retry

T = TypeVar("T")
_LINE = 1 << 20


def _id(job: int | HasId) -> int:
    return job if isinstance(job, int) else job.id


class AsyncJob:
    """A job at the server. Its properties are those of the last answer; :meth:`refresh` reads it again."""

    def __init__(self, client: AsyncClient, data: models.Job) -> None:
        self._client = client
        self.data = data
        """All fields of the job."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.data.type} {self.state}>"

    @property
    def id(self) -> int:
        return self.data.id

    @property
    def state(self) -> str:
        return self.data.state

    @property
    def disposition(self) -> str | None:
        """``created``, ``joined``, ``reused``, ``superseding`` or ``again``; only in the answer to a submit."""
        return self.data.disposition

    @property
    def error(self) -> Failure | None:
        """Why the job, or its last attempt, did not succeed."""
        return self.data.error

    @property
    def is_completed(self) -> bool:
        """Whether the job has ended."""
        return self.state in TERMINAL

    async def _change(self, op: Op[models.Job]) -> Self:
        self.data = await self._client._run(op)
        return self

    async def refresh(self) -> Self:
        """Reads the job again."""
        return await self._change(_ops.read(self._client._core, models.Job.from_wire, get("jobs", self.id)))

    async def wait(self, timeout: float | None = None) -> Self:
        """Waits until the job has ended, however it ended. Raises ``WaitTimeout``."""
        return await self._change(wait_job(self._client._core, self.id, timeout))

    async def result(self, timeout: float | None = None) -> Any:
        """Waits for the end and returns the result. Raises ``JobFailed``, ``JobCrashed`` or ``JobCancelled``."""
        await self.wait(timeout)
        return await self._client._run(_ops.result_of(self._client._core, self.data))

    async def _verb(self, verb: str, body: Any = None) -> Self:
        request = change("POST", "jobs", self.id, verb, body=body, repeatable=True)
        return await self._change(_ops.read(self._client._core, models.Job.from_wire, request))

    async def cancel(self, reason: str | None = None, explanation: str | None = None) -> Self:
        """Cancels the job. A running attempt is asked to stop; :meth:`wait` waits until it has."""
        return await self._verb("cancel", _ops.failure(reason, explanation))

    async def hold(self) -> Self:
        """Keeps the job from starting until it is released."""
        return await self._verb("hold")

    async def release(self) -> Self:
        """Ends a hold."""
        return await self._verb("release")

    async def run_now(self) -> Self:
        """Starts the job without waiting for its time or window."""
        return await self._verb("run_now")

    async def retry(self) -> AsyncJob:
        """Submits the work of a job that has ended once more, as a new job."""
        request = with_key(change("POST", "jobs", self.id, "retry"), None)
        data = await self._client._run(_ops.read(self._client._core, models.Job.from_wire, request))
        return AsyncJob(self._client, data)

    async def edit(
        self,
        *,
        params: Any = None,
        priority: int | None = None,
        run_at: datetime | str | None = None,
        needs: str | None = None,
        uses: str | None = None,
        windows: str | None = None,
        tags: Sequence[str] | None = None,
        owner: str | None = None,
        retry: Retry | None = None,
        timeout: float | timedelta | None = None,
        silence: float | timedelta | None = None,
        avoid: bool | None = None,
        throttle_factor: int | None = None,
    ) -> Self:
        """Changes a job that has not ended; what is not given is unchanged."""
        given = {
            "params": params,
            "priority": priority,
            "run_at": None if run_at is None else timestamp(run_at),
            "needs": needs,
            "uses": uses,
            "windows": windows,
            "tags": None if tags is None else texts("tags", tags),
            "owner": owner,
            "retry": retry,
            "timeouts": _ops.edit_body({"total_ms": milliseconds(timeout), "silence_ms": milliseconds(silence)})
            or None,
            "avoid": avoid,
            "throttle_factor": throttle_factor,
        }
        request = change("PATCH", "jobs", self.id, body=_ops.edit_body(given), repeatable=True)
        return await self._change(_ops.read(self._client._core, models.Job.from_wire, request))

    async def explain(self) -> Explanation:
        """Why the job does not run."""
        request = get("jobs", self.id, "explain")
        return await self._client._run(_ops.read(self._client._core, Explanation.from_wire, request))

    async def attempts(self) -> list[Attempt]:
        """All attempts, the oldest first."""
        found = [one async for one in self._client._pages(("jobs", self.id, "attempts"), {}, Attempt.from_wire)]
        return found[::-1]

    async def log_bytes(self, *, attempt: str | int | None = None, stream: str | None = None) -> bytes:
        """The log as far as it is written, byte for byte."""
        return b"".join([piece async for piece in self._log(attempt, stream, False)])

    async def log(
        self,
        *,
        follow: bool = False,
        attempt: str | int | None = None,
        stream: Literal["stdout", "stderr", "note"] | None = None,
    ) -> AsyncIterator[str]:
        """The lines of the log of the last attempt. With ``follow``, new lines too until that attempt ends."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        rest = ""
        async for piece in self._log(attempt, stream, follow):
            rest += decoder.decode(piece)
            *lines, rest = rest.split("\n")
            for line in lines:
                yield line
            while len(rest) > _LINE:
                yield rest[:_LINE]
                rest = rest[_LINE:]
        if rest:
            yield rest

    async def _log(self, attempt: str | int | None, stream: str | None, follow: bool) -> AsyncIterator[bytes]:
        named = None if attempt is None else str(attempt)
        log = Log(self._client._core, self.id, named, stream, follow)
        try:
            while (piece := await self._client._run(log.next())) is not None:
                yield piece
        finally:
            await self._client._run(log.close())

    async def events(self, after: str | None = None) -> AsyncIterator[Event]:
        """The events of the job, from its current state to its end."""
        async for event in self._client._events(Events(self._client._core, job=self.id, after=after)):
            yield event

    async def artifacts(self, attempt: str | int | None = None) -> list[Artifact]:
        """The files that the job stored."""
        query = {"attempt": attempt}
        return [one async for one in self._client._pages(("jobs", self.id, "artifacts"), query, Artifact.from_wire)]

    async def download(
        self, artifact: str | Artifact, to: str | os.PathLike[str], *, attempt: str | int | None = None
    ) -> None:
        """Writes a file of the job to a path; a large one is never in memory as a whole."""
        with open(to, "wb") as file:  # noqa: ASYNC230, PTH123
            async for piece in self.read_artifact(artifact, attempt=attempt):
                file.write(piece)

    async def read_artifact(
        self, artifact: str | Artifact, *, attempt: str | int | None = None
    ) -> AsyncIterator[bytes]:
        """The content of a file of the job, in pieces."""
        if isinstance(artifact, Artifact):
            attempt, artifact = attempt or artifact.attempt, artifact.name
        target = path("jobs", self.id, "artifacts", artifact, query={"attempt": attempt})
        async for piece in self._client._body(_Request("GET", target, repeatable=True)):
            yield piece


class AsyncGroup:
    """Jobs that are followed as one."""

    def __init__(self, client: AsyncClient, data: models.Group) -> None:
        self._client = client
        self.data = data

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.state}>"

    @property
    def id(self) -> int:
        return self.data.id

    @property
    def state(self) -> str:
        return self.data.state

    async def _change(self, op: Op[models.Group]) -> Self:
        self.data = await self._client._run(op)
        return self

    async def refresh(self) -> Self:
        """Reads the group again."""
        return await self._change(_ops.read(self._client._core, models.Group.from_wire, get("groups", self.id)))

    async def add(self, jobs: Iterable[JobSpec | Mapping[str, Any]]) -> list[Submitted]:
        """Adds jobs to a group that is not closed."""
        return await self._client.submit_many({**wire_of(job), "group": self.id} for job in jobs)

    async def close(self) -> Self:
        """Says that no further jobs are added. Only a closed group can end."""
        request = change("POST", "groups", self.id, "close", repeatable=True)
        return await self._change(_ops.read(self._client._core, models.Group.from_wire, request))

    async def cancel(self, reason: str | None = None, explanation: str | None = None, *, fails: bool = False) -> Self:
        """Cancels all jobs of the group."""
        body = {**_ops.failure(reason, explanation), "fails": fails}
        request = change("POST", "groups", self.id, "cancel", body=body, repeatable=True)
        return await self._change(_ops.read(self._client._core, models.Group.from_wire, request))

    async def retry(self) -> AsyncGroup:
        """A new group with copies of the members that did not succeed."""
        request = with_key(change("POST", "groups", self.id, "retry"), None)
        return AsyncGroup(
            self._client, await self._client._run(_ops.read(self._client._core, models.Group.from_wire, request))
        )

    async def wait(self, timeout: float | None = None) -> Self:
        """Waits until the group has ended. A group that is not closed never ends."""
        self.data = models.Group.from_wire(await self._client._run(wait_group(self._client._core, self.id, timeout)))
        return self

    async def jobs(self) -> list[AsyncJob]:
        """The jobs of the group in the order of their ids."""
        found = [job async for job in self._client.jobs(group=self.id)]
        return sorted(found, key=lambda job: job.id)

    async def results(self, timeout: float | None = None) -> list[Any]:
        """Waits for the end and returns the results in the order of the ids. Raises ``GroupFailed``."""
        await self.wait(timeout)
        if self.state != "succeeded":
            raise GroupFailed(self.id, self.state)
        return [await job.result() for job in await self.jobs()]


class AsyncClient(AsyncQueries):
    """A client of a Jobhall server. Without arguments it finds server and token as the command line does."""

    def __init__(
        self,
        server: str | Sequence[str] | None = None,
        token: str | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        ca: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(AsyncTransport(find_server(server, token, data_dir, ca=ca)))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._transport.close()

    async def _events(self, events: Events) -> AsyncIterator[Event]:
        try:
            while (event := await self._run(events.next())) is not None:
                yield event
        finally:
            await self._run(events.close())

    async def submit(
        self,
        type: str | JobType,
        /,
        *,
        idempotency_key: str | None = None,
        **options: Any,
    ) -> AsyncJob:
        """Submits one job. The options are those of :func:`spec`; other keyword arguments are the job's params.

        A request whose answer was lost is repeated with the same idempotency key: there is no second job. Raises
        ``ParamsDiffer`` if a live job has the key and other params, unless ``on_duplicate`` is given.
        """
        return await self.submit_spec(spec(type, **options), idempotency_key=idempotency_key)

    async def submit_spec(self, job: JobSpec, *, idempotency_key: str | None = None) -> AsyncJob:
        """Submits a job that :func:`spec` made."""
        return AsyncJob(self, await self._run(_ops.submit(self._core, job, idempotency_key)))

    async def submit_many(self, jobs: Iterable[JobSpec | Mapping[str, Any]]) -> list[Submitted]:
        """Submits any number of jobs; what fits into one request is accepted or refused as a whole."""
        return await self._run(_ops.submit_many(self._core, jobs))

    async def submit_graph(self, jobs: Mapping[str, JobSpec]) -> dict[str, Submitted]:
        """Submits jobs that name each other in ``after``, all or nothing."""
        return await self._run(_ops.submit_graph(self._core, jobs))

    async def job(self, id: int) -> AsyncJob:
        """A job by its id."""
        return AsyncJob(self, await self._run(_ops.read(self._core, models.Job.from_wire, get("jobs", id))))

    async def jobs(
        self,
        *,
        state: str | Sequence[str] | None = None,
        type: str | None = None,
        key: str | None = None,
        queue: str | None = None,
        group: int | None = None,
        owner: str | None = None,
        tag: str | None = None,
        q: str | None = None,
        created_after: datetime | str | None = None,
        created_before: datetime | str | None = None,
    ) -> AsyncIterator[AsyncJob]:
        """Jobs that match all given conditions, the newest first, over all pages."""
        query = {
            "state": state if state is None or isinstance(state, str) else ",".join(state),
            "type": type,
            "key": key,
            "queue": queue,
            "group": group,
            "owner": owner,
            "tag": tag,
            "q": q,
            "created_after": None if created_after is None else timestamp(created_after),
            "created_before": None if created_before is None else timestamp(created_before),
        }
        async for data in self._pages(("jobs",), query, models.Job.from_wire):
            yield AsyncJob(self, data)

    async def as_completed(self, jobs: Iterable[int | HasId], timeout: float | None = None) -> AsyncIterator[AsyncJob]:
        """The jobs in the order in which they end, by one stream of events."""
        ends = Ends(self._core, (_id(job) for job in jobs), timeout)
        try:
            while (data := await self._run(ends.next())) is not None:
                yield AsyncJob(self, data)
        finally:
            await self._run(ends.close())

    async def results(self, jobs: Iterable[int | HasId], timeout: float | None = None) -> list[Any]:
        """The results of these jobs, in their order. Raises how the first unsuccessful one ended."""
        order = [_id(job) for job in jobs]
        found = {}
        async for job in self.as_completed(order, timeout):
            found[job.id] = await self._run(_ops.result_of(self._core, job.data))
        return [found[id] for id in order]

    async def events(self, after: str | None = None, *, group: int | None = None) -> AsyncIterator[Event]:
        """The events of the hall from now on, or after an earlier one. It does not end by itself."""
        async for event in self._events(Events(self._core, group=group, after=after)):
            yield event

    async def create_group(
        self,
        jobs: Sequence[JobSpec | Mapping[str, Any]] = (),
        *,
        name: str | None = None,
        owner: str | None = None,
        tags: Sequence[str] = (),
        closed: bool = False,
    ) -> AsyncGroup:
        """Creates a group, with these jobs, all or nothing."""
        body = {"jobs": [wire_of(job) for job in jobs], "tags": texts("tags", tags), "closed": closed}
        body |= _ops.edit_body({"name": name, "owner": owner})
        request = with_key(change("POST", "groups", body=body), None)
        return AsyncGroup(self, await self._run(_ops.read(self._core, models.Group.from_wire, request)))

    async def group(self, id: int) -> AsyncGroup:
        """A group by its id."""
        return AsyncGroup(self, await self._run(_ops.read(self._core, models.Group.from_wire, get("groups", id))))

    async def groups(self, *, owner: str | None = None, tag: str | None = None) -> AsyncIterator[AsyncGroup]:
        """Groups that match all given conditions, the newest first, over all pages."""
        async for data in self._pages(("groups",), {"owner": owner, "tag": tag}, models.Group.from_wire):
            yield AsyncGroup(self, data)

    async def _body(self, request: _Request) -> AsyncIterator[bytes]:
        stream = _ops.Body(self._core, request)
        try:
            while piece := await self._run(stream.next()):
                yield piece
        finally:
            await self._run(stream.close())
