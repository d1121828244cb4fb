"""Async jobs share tasks: what one of them leaves behind does not reach the next one."""

from __future__ import annotations

import asyncio
import contextvars
import weakref
from types import SimpleNamespace
from typing import Any

from jobhall.worker import _runners
from jobhall.worker._output import current
from jobhall.worker._runners import Runners

user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")


class Rig:
    """Runners of functions without a server."""

    def __init__(self) -> None:
        self.runners = Runners(self._run, self._stop)
        self.ended: list[tuple[str, Any]] = []
        self._waits: tuple[int, asyncio.Event] | None = None

    def _stop(self, _: Any, task: asyncio.Task[None]) -> None:
        task.cancel()

    async def _run(self, attempt: Any, function: Any, arguments: dict[str, Any]) -> None:
        try:
            value = await function(**arguments)
        except BaseException as error:
            value = type(error).__name__
        self.ended.append((attempt.id, value))
        if self._waits is not None and len(self.ended) == self._waits[0]:
            self._waits[1].set()

    def start(self, name: str, function: Any) -> Any:
        attempt = SimpleNamespace(id=name, output=name, stop=None, cancel_asked=False, lost=False)
        self.runners.start(attempt, function, {})  # type: ignore[arg-type]
        return attempt

    async def until_ended(self, count: int) -> dict[str, Any]:
        enough = asyncio.Event()
        self._waits = (count, enough)
        await asyncio.wait_for(enough.wait(), 10)
        return dict(self.ended)


async def task_of() -> Any:
    return asyncio.current_task()


async def test_short_jobs_share_a_task_and_keep_their_order() -> None:
    rig = Rig()
    for number in range(50):
        rig.start(str(number), task_of)
    ended = await rig.until_ended(50)
    assert list(ended) == [str(number) for number in range(50)]
    assert len(set(ended.values())) == 1
    rig.runners.close()


async def test_jobs_that_wait_run_at_the_same_time() -> None:
    rig, all_run = Rig(), asyncio.Barrier(20)

    async def meets() -> int:
        return await all_run.wait()

    for number in range(20):
        rig.start(str(number), meets)
    assert sorted((await rig.until_ended(20)).values()) == list(range(20))
    rig.runners.close()


async def test_a_task_that_finds_no_job_waits_for_the_next_one() -> None:
    rig = Rig()
    rig.start("a", task_of)
    task = (await rig.until_ended(1))["a"]
    await asyncio.sleep(0)
    rig.runners.idle.pop().set_result(None)
    await asyncio.sleep(0)
    rig.start("b", task_of)
    assert (await rig.until_ended(2))["b"] is task
    rig.runners.close()


async def test_an_idle_task_keeps_nothing_of_its_last_job() -> None:
    class Value:
        pass

    rig, value = Rig(), Value()
    found = weakref.ref(value)

    async def job(value: Value = value) -> None:
        assert value is not None

    rig.start("a", job)
    del job, value
    await rig.until_ended(1)
    await asyncio.sleep(0)
    assert found() is None
    rig.runners.close()


async def test_each_job_has_its_own_output() -> None:
    rig = Rig()

    async def output() -> Any:
        await asyncio.sleep(0)
        found = current.get()
        return getattr(found, "id", found)

    for name in ("a", "b", "c"):
        rig.start(name, output)
    assert await rig.until_ended(3) == {"a": "a", "b": "b", "c": "c"}
    rig.runners.close()


async def test_a_context_variable_does_not_reach_the_next_job() -> None:
    rig = Rig()

    async def sets() -> str:
        before = user.get()
        user.set("alice")
        return before

    for name in ("a", "b", "c"):
        rig.start(name, sets)
    assert set((await rig.until_ended(3)).values()) == {"nobody"}
    rig.runners.close()


async def test_a_cancel_reaches_only_its_job() -> None:
    rig, runs, waits = Rig(), asyncio.Event(), asyncio.Event()

    async def swallows() -> str:
        runs.set()
        try:
            await waits.wait()
        except asyncio.CancelledError:
            return "swallowed"
        return "not cancelled"

    attempt = rig.start("a", swallows)
    await asyncio.wait_for(runs.wait(), 10)
    attempt.cancel_asked = True
    attempt.stop()
    rig.start("b", task_of)
    ended = await rig.until_ended(2)
    assert ended["a"] == "swallowed"
    assert ended["b"].cancelling() == 0
    rig.runners.close()


async def test_a_job_that_cancels_its_own_task_is_alone_in_it() -> None:
    rig = Rig()

    async def cancels() -> Any:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return task

    rig.start("a", cancels)
    rig.start("b", task_of)
    ended = await rig.until_ended(2)
    assert ended["a"] is not ended["b"]
    rig.runners.close()


async def test_long_jobs_let_the_event_loop_run(monkeypatch: Any) -> None:
    monkeypatch.setattr(_runners, "SLICE_SECONDS", 0.0)
    rig, turns = Rig(), 0

    async def job() -> int:
        return turns

    async def count() -> None:
        nonlocal turns
        while len(rig.ended) < 10:
            turns += 1
            await asyncio.sleep(0)

    for number in range(10):
        rig.start(str(number), job)
    await asyncio.gather(count(), rig.until_ended(10))
    assert len(set(dict(rig.ended).values())) == 10
    rig.runners.close()


async def test_close_ends_the_tasks_that_run_nothing() -> None:
    rig = Rig()
    rig.start("a", task_of)
    task = (await rig.until_ended(1))["a"]
    await asyncio.sleep(0)
    rig.runners.close()
    await asyncio.wait([task], timeout=10)
    assert task.cancelled()
