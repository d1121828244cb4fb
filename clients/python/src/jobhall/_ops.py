"""The operations of the client that need more than one line: submit, results, pages."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

from . import errors
from ._core import Close, Core, Lost, Op, Opened, Read, Request, change, dumps, get, parsed, with_key
from ._spec import MAX_BYTES, JobSpec, chunks, graph, wire_of
from ._streams import wait_job
from .models import Job, Submitted
from .requests import SubmitJob

T = TypeVar("T")


def submit(core: Core, job: JobSpec, key: str | None) -> Op[Job]:
    """Submits one job. A lost answer is asked for again with the same idempotency key: there is no second job."""
    wire = wire_of(job)
    found = Job.from_wire((yield from core.json(with_key(change("POST", "jobs", body=wire), key))))
    if found.params_differ and "on_duplicate" not in wire:
        raise errors.ParamsDiffer(found.id, found.type, found.key)
    return found


def submit_many(core: Core, jobs: Iterable[JobSpec | Mapping[str, Any]]) -> Op[list[Submitted]]:
    """Submits jobs in as few requests as the server permits; each request is accepted or refused as a whole."""
    bulk = _Bulk(jobs)
    try:
        while (array := bulk.take()) is not None:
            wires, body = array
            request = with_key(change("POST", "jobs", encoded=body), None)
            reply = yield from core.send(replace(request, meanwhile=bulk.meanwhile))
            bulk.answered(wires, reply.body)
        bulk.read()
    except errors.JobhallError as error:
        with contextlib.suppress(errors.JobhallError):
            bulk.read()
        if not bulk.done:
            raise
        raise errors.PartlySubmitted(bulk.done) from error
    if bulk.differs is not None:
        raise bulk.differs
    return bulk.done


class _Bulk:
    """The arrays of a bulk submit. While the server works on one, the next is encoded and the last answer read."""

    def __init__(self, jobs: Iterable[JobSpec | Mapping[str, Any]]) -> None:
        self.done: list[Submitted] = []
        self.differs: errors.ParamsDiffer | None = None
        self._arrays = chunks(jobs)
        self._ahead: list[tuple[list[SubmitJob], bytes] | Exception | None] = []
        self._unread: tuple[list[SubmitJob], bytes] | None = None

    def meanwhile(self) -> None:
        if not self._ahead:
            try:
                self.read()
                self._ahead.append(next(self._arrays, None))
            except Exception as error:
                # The request that is under way is answered first.
                self._ahead.append(error)

    def take(self) -> tuple[list[SubmitJob], bytes] | None:
        """The next array to send."""
        found = self._ahead.pop() if self._ahead else next(self._arrays, None)
        if isinstance(found, Exception):
            raise found
        return found

    def answered(self, wires: list[SubmitJob], body: bytes) -> None:
        self._unread = (wires, body)

    def read(self) -> None:
        """Reads the last answer."""
        if self._unread is not None:
            (wires, body), self._unread = self._unread, None
            part = _submitted(wires, parsed(body))
            self.differs = self.differs or _differs(wires, part)
            self.done += part


def _array(core: Core, wires: list[SubmitJob], body: bytes) -> Op[list[Submitted]]:
    return _submitted(wires, (yield from core.json(with_key(change("POST", "jobs", encoded=body), None))))


def _submitted(wires: list[SubmitJob], answers: Any) -> list[Submitted]:
    if not isinstance(answers, list) or len(answers) != len(wires):
        raise errors.UnexpectedAnswer(f"{len(wires)} jobs were sent, and the answer has another number")
    return [Submitted.from_wire(one) for one in answers]


def _differs(wires: list[SubmitJob], answers: list[Submitted]) -> errors.ParamsDiffer | None:
    for wire, answer in zip(wires, answers, strict=True):
        if answer.params_differ and "on_duplicate" not in wire:
            return errors.ParamsDiffer(answer.id, wire["type"], wire.get("key"))
    return None


def submit_graph(core: Core, jobs: Mapping[str, JobSpec]) -> Op[dict[str, Submitted]]:
    """Submits jobs that come after each other by name, all or nothing, in one request."""
    order, wires = graph(jobs)
    body = dumps(wires)
    if len(body) > MAX_BYTES + 2:
        raise errors.InvalidRequest(f"a graph has at most {MAX_BYTES} bytes of JSON, this one has {len(body)}")
    answers = (yield from _array(core, wires, body)) if wires else []
    differs = _differs(wires, answers)
    if differs is not None:
        raise differs
    found = dict(zip(order, answers, strict=True))
    return {name: found[name] for name in jobs}


def result(core: Core, id: int, timeout: float | None) -> Op[Any]:
    """Waits for a job and returns its result, or raises how it ended."""
    return (yield from result_of(core, (yield from wait_job(core, id, timeout))))


def result_of(core: Core, job: Job) -> Op[Any]:
    """The result of a job that has ended."""
    if job.state != "succeeded":
        raise not_successful(job)
    if job.result is None and job.result_artifact is not None:
        return (yield from core.json(get("jobs", job.id, "result")))
    return job.result


def not_successful(job: Job) -> errors.JobNotSuccessful:
    """The exception for a job that has ended without success."""
    kinds = {"crashed": errors.JobCrashed, "cancelled": errors.JobCancelled}
    return kinds.get(job.state, errors.JobFailed)(job)


class Pages:
    """The items of a list, page by page."""

    def __init__(
        self, core: Core, segments: tuple[str | int, ...], query: Mapping[str, Any], read: Callable[[Any], Any]
    ) -> None:
        self.core, self.segments, self.query, self.read = core, segments, dict(query), read
        self._more = True

    def next(self) -> Op[list[Any] | None]:
        """The items of the next page, or none after the last."""
        if not self._more:
            return None
        page = yield from self.core.json(get(*self.segments, query=self.query))
        self.query["cursor"] = page.get("next_cursor")
        self._more = page.get("next_cursor") is not None
        return [self.read(item) for item in page["items"]]


def read(core: Core, model: Callable[[Any], T], request: Any) -> Op[T]:
    """Makes a call and reads its answer as a model."""
    return model((yield from core.json(request)))


def edit_body(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that were given; ``None`` means unchanged."""
    return {name: value for name, value in given.items() if value is not None}


def failure(reason: str | None, explanation: str | None) -> dict[str, Any]:
    """The body of a cancel."""
    error = edit_body({"reason": reason, "explanation": explanation})
    return {"error": error} if error else {}


class Body:
    """The content of an artifact. A lost connection is an error: the reader has already seen its beginning."""

    def __init__(self, core: Core, request: Request) -> None:
        self.core, self.request = core, request
        self._opened: Opened | None = None

    def next(self) -> Op[bytes]:
        """The next bytes; none at the end."""
        try:
            if self._opened is None:
                self._opened = yield from self.core.open(self.request)
            return cast("bytes", (yield Read(self._opened.handle)))
        except Lost as lost:
            raise errors.ConnectionFailed(f"the download was broken off: {lost}") from lost

    def close(self) -> Op[None]:
        if self._opened is not None:
            opened, self._opened = self._opened, None
            yield Close(opened.handle)
