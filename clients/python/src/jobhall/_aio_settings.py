"""Schedules, queues, types and workers. ``_client_settings.py`` is generated from this file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal, TypeVar

from . import _ops
from ._core import Op, change, get, with_key
from ._spec import JobSpec, Span, span, wire_of
from ._transport import AsyncTransport
from .models import Queue, QueueSettings, Schedule, Submitted, Tick, TypeSettings, Worker
from .requests import Limit, SetQueue, SetSchedule, SetType

T = TypeVar("T")


class AsyncSettings:
    """The part of a client that concerns no single job."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport
        self._core = transport.core

    async def _run(self, op: Op[T]) -> T:
        return await self._transport.run(op)

    async def _pages(self, segments: tuple[str | int, ...], query: Mapping[str, Any], read: Any) -> AsyncIterator[Any]:
        pages = _ops.Pages(self._core, segments, query, read)
        while (items := await self._run(pages.next())) is not None:
            for item in items:
                yield item

    async def set_schedule(
        self,
        name: str,
        *,
        job: JobSpec | None = None,
        cron: str | None = None,
        every: Span | None = None,
        zone: str | None = None,
        jitter: Span | None = None,
        catch_up: Literal["none", "one", "all"] | None = None,
        overlap: Literal["skip", "allow"] | None = None,
        paused: bool | None = None,
    ) -> Schedule:
        """Creates or changes a schedule; what is not given is unchanged."""
        body: SetSchedule = {}
        if job is not None:
            body["job"] = wire_of(job)
        if every is not None:
            body["every"] = span(every)
        if jitter is not None:
            body["jitter"] = span(jitter)
        given = {"cron": cron, "zone": zone, "catch_up": catch_up, "overlap": overlap, "paused": paused}
        request = change("PUT", "schedules", name, body={**body, **_ops.edit_body(given)}, repeatable=True)
        return await self._run(_ops.read(self._core, Schedule.from_wire, request))

    async def schedule(self, name: str) -> Schedule:
        """A schedule by its name."""
        return await self._run(_ops.read(self._core, Schedule.from_wire, get("schedules", name)))

    async def schedules(self) -> list[Schedule]:
        """All schedules."""
        return [one async for one in self._pages(("schedules",), {}, Schedule.from_wire)]

    async def schedule_ticks(self, name: str, n: int = 10) -> list[Tick]:
        """The next ticks of a schedule."""
        page = await self._run(self._core.json(get("schedules", name, "ticks", query={"n": n})))
        return [Tick.from_wire(one) for one in page["items"]]

    async def remove_schedule(self, name: str) -> None:
        """Removes a schedule; its jobs stay."""
        await self._run(self._core.send(change("DELETE", "schedules", name)))

    async def run_schedule(self, name: str) -> Submitted:
        """Submits the job of a schedule now."""
        request = with_key(change("POST", "schedules", name, "run"), None)
        return await self._run(_ops.read(self._core, Submitted.from_wire, request))

    async def queue(self, name: str) -> Queue:
        """A queue with its open jobs and limits."""
        return await self._run(_ops.read(self._core, Queue.from_wire, get("queues", name)))

    async def queues(self) -> list[Queue]:
        """All queues that have settings or open jobs."""
        return [one async for one in self._pages(("queues",), {}, Queue.from_wire)]

    async def set_queue(
        self, name: str, *, paused: bool | None = None, limits: list[Limit] | None = None
    ) -> QueueSettings:
        """Changes the settings of a queue; what is not given is unchanged."""
        body: SetQueue = {}
        if paused is not None:
            body["paused"] = paused
        if limits is not None:
            body["limits"] = limits
        request = change("PUT", "queues", name, body=body, repeatable=True)
        return await self._run(_ops.read(self._core, QueueSettings.from_wire, request))

    async def type(self, name: str) -> TypeSettings:
        """The settings of a type."""
        return await self._run(_ops.read(self._core, TypeSettings.from_wire, get("types", name)))

    async def types(self) -> list[TypeSettings]:
        """The types that have settings."""
        return [one async for one in self._pages(("types",), {}, TypeSettings.from_wire)]

    async def set_type(self, name: str, settings: SetType) -> TypeSettings:
        """Changes the settings of a type; what is not given is unchanged."""
        request = change("PUT", "types", name, body=settings, repeatable=True)
        return await self._run(_ops.read(self._core, TypeSettings.from_wire, request))

    async def workers(self) -> list[Worker]:
        """The workers that the server knows, with their attempts."""
        page = await self._run(self._core.json(get("workers")))
        return [Worker.from_wire(one) for one in page["items"]]
