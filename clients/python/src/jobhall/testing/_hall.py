"""Runs the jobs of workers in this process, on a virtual clock. Only delays are virtual: the functions really run."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterable
from typing import Any

from .. import errors, models
from .._core import dumps
from .._spec import JobType, spec, wire_of
from ..worker import Context, JobFunction, Worker, _verdicts
from ..worker._commands.values import Content
from ..worker._output import Capture, current
from ._calls import StillRuns, start_task, start_thread
from ._clock import Clock, Wait
from ._jobs import LocalAttempt, LocalJob
from ._policy import Next, decide, milliseconds, policy_of
from ._port import NO_CONNECTION, LocalAccess, Port, Watch, as_json

CALL_BYTES = 512
SUB_JOBS = 10_000
_REFUSED = ("group", "attached", "copy_of", "reuse")
_DEPENDENCY = {"failed": "has failed", "crashed": "has failed", "cancelled": "was cancelled"}


class _Session:
    """What belongs to one event loop."""

    def __init__(self, slots: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.slots = asyncio.Semaphore(slots)
        self.tasks: set[asyncio.Task[None]] = set()
        self.users = 0
        self.capture = Capture()
        self.error: asyncio.Future[None] = self.loop.create_future()
        """An error of the test, not of a job."""

    def fail(self, error: BaseException) -> None:
        if not self.error.done():
            self.error.set_exception(error)

    def ended(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)


class LocalHall:
    """Runs jobs of these workers without a server, with the verdicts and retries of the worker and the server.

    A delay before a retry takes no time: it moves a virtual clock (:attr:`now`). Sub-jobs run in this process too, as
    many at once as the workers have slots. ``cancel_when`` is called at every progress and output of an attempt; if it
    returns true, the job is cancelled. Queues, limits, needs and time windows have no effect here.
    """

    def __init__(self, *workers: Worker, cancel_when: Callable[[LocalAttempt], bool] | None = None) -> None:
        if not workers:
            raise ValueError("a hall needs at least one worker")
        self.workers = workers
        self.cancel_when = cancel_when
        self.jobs: list[LocalJob] = []
        """All jobs, in the order of their ids."""
        self.values: dict[str, Content] = {}
        """The inputs of commands, by identity."""
        self._clock = Clock()
        self._session: _Session | None = None

    @property
    def now(self) -> float:
        """The virtual time, in seconds since the first job."""
        return self._clock.now

    def run(self, type: str | JobType, /, **options: Any) -> LocalJob:
        """Runs a job to its end. The arguments are those of ``Client.submit``."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.run_async(type, **options))
        raise RuntimeError("an event loop runs in this thread: use `await hall.run_async(...)`")

    async def run_async(self, type: str | JobType, /, **options: Any) -> LocalJob:
        """The same, in a running event loop."""
        wire = wire_of(spec(type, **options))
        session = self._session
        if session is None or session.loop is not asyncio.get_running_loop():
            session = self._session = _Session(sum(worker.slots for worker in self.workers))
            session.capture.__enter__()
        session.users += 1
        try:
            job = self._submit(dict(wire), None)
            while session.tasks:
                await asyncio.wait({*session.tasks, session.error}, return_when=asyncio.FIRST_COMPLETED)
                if session.error.done():
                    session.error.result()
        finally:
            session.users -= 1
            if session.users == 0:
                await self._close(session)
        return job

    async def _close(self, session: _Session) -> None:
        """Ends what an error has left."""
        tasks = list(session.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        session.capture.__exit__()
        self._session = None
        self._clock.clear()

    @property
    def _now(self) -> _Session:
        assert self._session is not None
        return self._session

    def _submit(self, wire: dict[str, Any], parent: LocalJob | None) -> LocalJob:
        for name in _REFUSED:
            if name in wire:
                raise errors.InvalidRequest(f"{name} needs a server: use the fixture jobhall_server")
        if wire.get("on_duplicate", "join") != "join":
            raise errors.InvalidRequest("on_duplicate needs a server: use the fixture jobhall_server")
        self._function(wire["type"])
        wire = {**as_json(dumps(wire)), "params": as_json(dumps(wire.get("params", {})))}
        after = self._named(wire.get("after", ()))
        for one in after:
            if one.is_completed and one.state != "succeeded" and not wire.get("after_any"):
                raise errors.DependencyUnmet(f"job {one.id} {_DEPENDENCY[one.state]}")
        job = LocalJob(len(self.jobs) + 1, wire, policy_of(wire), self.now, parent)
        self.jobs.append(job)
        self._clock.enter()
        task = self._now.loop.create_task(self._life(job, after), context=contextvars.Context())
        self._now.tasks.add(task)
        task.add_done_callback(self._now.ended)
        return job

    def _function(self, type: str) -> tuple[JobFunction, Worker]:
        for worker in self.workers:
            if type in worker.functions:
                return worker.functions[type], worker
        known = ", ".join(name for worker in self.workers for name in worker.functions) or "none"
        unknown = errors.InvalidRequest(f"no worker has a function for type {type!r} (they have: {known})")
        unknown.add_note("jobs of other workers: LocalHall(worker, other_worker)")
        raise unknown

    def _named(self, ids: Iterable[Any]) -> list[LocalJob]:
        found = []
        for id in ids:
            if not isinstance(id, int) or not 1 <= id <= len(self.jobs):
                raise errors.DependencyUnmet(f"job {id} does not exist")
            found.append(self.jobs[id - 1])
        return found

    async def _life(self, job: LocalJob, after: list[LocalJob]) -> None:
        try:
            await self._clock.wait(Wait(self._clock, after))
            unmet = [one for one in after if one.state != "succeeded"]
            if unmet and not job.wire.get("after_any"):
                self._not_after(job, unmet[0])
                return
            while (following := await self._turn(job)) is not None:
                await self._clock.delay(following.delay_ms / 1000)
        finally:
            for wait in job.waits:
                wait.job_ended()
            self._clock.leave()

    def _not_after(self, job: LocalJob, unmet: LocalJob) -> None:
        kind = "cancelled" if unmet.state == "cancelled" else "failed"
        text = f"it depends on job {unmet.id}, which {_DEPENDENCY[unmet.state]}"
        failure = models.Failure(reason=f"dependency_{kind}", explanation=text, data={"job": unmet.id})
        self._end(job, kind, error=failure)

    async def _turn(self, job: LocalJob) -> Next | None:
        """One attempt, and what follows it."""
        async with self._now.slots:
            attempt = LocalAttempt(job, len(job.attempts) + 1, self.now)
            job.attempts.append(attempt)
            job.state = "running"
            port = Port(self, attempt)
            report, value = await self._attempt(job, port)
        return self._settle(job, port, report, value)

    def _settle(self, job: LocalJob, port: Port, report: _verdicts.Report, value: Any) -> Next | None:
        attempt, outcome, stopped = port.attempt, str(report["outcome"]), port.stopped
        if stopped is not None:
            outcome = "timed_out" if port.timed_out else "cancelled"
        attempt.outcome = outcome
        if outcome in ("succeeded", "skipped"):
            self._end(job, "succeeded", value=value)
            return None
        error = report.get("error")
        attempt.error = stopped or (None if error is None else models.Failure.from_wire(error))
        if outcome == "cancelled":
            self._end(job, "cancelled", error=attempt.error)
            return None
        verdict = None if stopped else report.get("retry")
        tries = len(job.attempts) - job.snoozed
        following = decide(job.policy, outcome, verdict, tries=tries, snoozed=job.snoozed)
        if following is None:
            self._end(job, "failed" if outcome == "failed" else "crashed", error=attempt.error)
            return None
        job.snoozed += following.snoozed
        job.error, job.state = attempt.error, "scheduled"
        return following

    def _end(self, job: LocalJob, state: str, *, error: models.Failure | None = None, value: Any = None) -> None:
        job.state, job.error, job.value, job.ended_at = state, error, value, self.now

    async def _attempt(self, job: LocalJob, port: Port) -> tuple[_verdicts.Report, Any]:
        function, worker = self._function(job.type)
        try:
            arguments = function.signature.bind(as_json(dumps(job.params)))
        except Exception as error:
            # Also of the app's own code, such as the __post_init__ of a dataclass.
            port.attempt.exception = error
            return _verdicts.of_exception(error), None
        if function.signature.context:
            number = port.attempt.number
            assigned = {"id": job.id, "type": job.type, "queue": job.queue, "attempt": number}
            assigned |= {"params": job.params, "key": job.wire.get("key")}
            access = LocalAccess(NO_CONNECTION, f"{job.id}-{number}", "", port)
            arguments[function.signature.context] = Context(port, access, assigned)
        limits = {name: milliseconds(limit) for name, limit in (job.wire.get("timeouts") or {}).items()}
        port.watch = Watch(limits.get("total"), limits.get("silence"), port.time_out)
        try:
            return await self._call(port, function, arguments, worker.grace)
        finally:
            port.watch.pause()

    async def _call(
        self, port: Port, function: JobFunction, arguments: dict[str, Any], grace: float
    ) -> tuple[_verdicts.Report, Any]:
        session = self._now
        ended: asyncio.Future[tuple[Any, BaseException | None]] = session.loop.create_future()

        def end(value: Any, error: BaseException | None) -> None:
            if not ended.done():
                ended.set_result((value, error))

        context = contextvars.copy_context()
        context.run(current.set, port.output)
        start = start_task if function.is_async else start_thread
        stop = start(function.function, arguments, context, end)

        def deliver() -> None:
            stop()
            text = f"the job did not end within {grace:g} s of its cancel and still runs"
            late = session.loop.call_later(grace, end, None, StillRuns(text))
            ended.add_done_callback(lambda _: late.cancel())

        port.deliver = deliver
        try:
            value, error = await ended
        except asyncio.CancelledError:
            stop()
            raise
        return self._report(port, value, error)

    def _report(self, port: Port, value: Any, error: BaseException | None) -> tuple[_verdicts.Report, Any]:
        port.attempt.exception = error
        if port.stopped is not None:
            return _verdicts.cancelled(str(error) if isinstance(error, StillRuns) else None), None
        if isinstance(error, _verdicts.Skip) and str(error):
            port.output.write("stderr", f"skipped: {error}\n".encode())
        if error is not None:
            return _verdicts.of_exception(error), None
        encoded = _verdicts.encode_result(value)
        if isinstance(encoded, str):
            return {"outcome": "succeeded"}, as_json(encoded)
        return encoded, None

    def call(self, parent: LocalJob, name: str, wire: dict[str, Any]) -> dict[str, Any]:
        """A sub-job: the one with the same call, or the live one with the same key, or a new one."""
        if not 1 <= len(name.encode()) <= CALL_BYTES:
            raise errors.BadRequest(f"call length of {len(name.encode())} is outside 1 to {CALL_BYTES}")
        if wire.setdefault("queue", parent.queue) != parent.queue:
            text = f"queue {wire['queue']}: a sub-job is in the queue of its parent, which is {parent.queue}"
            raise errors.Forbidden(text)
        known = parent.calls.get(name)
        if known is not None and (not known.is_completed or known.state == "succeeded"):
            return {"id": known.id, "disposition": "joined", "state": known.state}
        if known is None and len(parent.calls) >= SUB_JOBS:
            raise errors.BadRequest(f"sub-jobs of {len(parent.calls) + 1} is outside 0 to {SUB_JOBS}")
        job = self._live(wire) or self._call_new(wire, parent)
        parent.calls[name] = job
        parent.sub_jobs.append(job)
        return {"id": job.id, "disposition": "created", "state": job.state}

    def _live(self, wire: dict[str, Any]) -> LocalJob | None:
        key = wire.get("key")
        same = (job for job in self.jobs if not job.is_completed and job.type == wire["type"])
        return next((job for job in same if key is not None and job.wire.get("key") == key), None)

    def _call_new(self, wire: dict[str, Any], parent: LocalJob) -> LocalJob:
        try:
            return self._submit(wire, parent)
        except errors.InvalidRequest as error:
            # It would be a job that no worker runs, or that this hall cannot run: an error of the test, not of the job.
            self._now.fail(error)
            raise

    async def wait_for(self, port: Port, ids: list[int]) -> list[dict[str, Any]]:
        """Waits for sub-jobs. Meanwhile other jobs may use the slot."""
        wait = Wait(self._clock, [self.jobs[id - 1] for id in ids])
        if not wait.is_over():
            port.asked(wait.future)
            slots, watch = self._now.slots, port.watch
            slots.release()
            if watch is not None:
                watch.pause()
            try:
                await self._clock.wait(wait)
            finally:
                await slots.acquire()
                if watch is not None:
                    watch.resume()
        return [_state(self.jobs[id - 1]) for id in ids]

    def inputs(self, job: LocalJob) -> list[dict[str, Any]]:
        """The inputs of a job, as the server lists them."""
        found = [_input(n, self.jobs[id - 1]) for n, id in enumerate(job.wire.get("after", ()))]
        return found if job.parent is None else [*found, _input("parent", job.parent)]


def _input(n: int | str, job: LocalJob) -> dict[str, Any]:
    artifacts = job.last.artifacts if job.attempts else {}
    files = [{"name": name, "size": len(data)} for name, data in sorted(artifacts.items())]
    found = {"n": n, "job": job.id, "type": job.type, "state": job.state, "artifacts": files}
    if job.wire.get("key") is not None:
        found["key"] = job.wire["key"]
    if job.state == "succeeded":
        found["result"] = job.value
    return found


def _state(job: LocalJob) -> dict[str, Any]:
    state: dict[str, Any] = {"id": job.id, "state": job.state, "outcome": job.last.outcome if job.attempts else None}
    if job.state == "succeeded":
        state["result"] = job.value
    elif job.error is not None:
        error = job.error
        state["error"] = {"reason": error.reason, "explanation": error.explanation, "data": error.data}
    return state
