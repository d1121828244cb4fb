"""Jobs in this process: what they report, how they are retried, what they submit, and how they are stopped."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import jobhall
from jobhall import errors, testing
from jobhall.worker import NoRetry, Retry, Skip, Snooze, SubJobFailed

log = logging.getLogger("app")
worker = jobhall.Worker(slots=2)


@worker.job("add", max_attempts=2)
def add(a: int, b: int = 1) -> int:
    print(f"adding {a} and {b}")
    log.info("logged")
    return a + b


@worker.job("flaky", max_attempts=4)
async def flaky(ctx: jobhall.Context, until: int) -> str:
    print(f"attempt {ctx.attempt}")
    if ctx.attempt < until:
        raise ValueError("not yet") from KeyError("cause")
    return "done"


@worker.job("verdict")
def verdict(ctx: jobhall.Context, kind: str) -> str:
    if ctx.attempt > 2:
        return f"after {ctx.attempt}"
    if kind == "snooze":
        raise Snooze(3600)
    if kind == "in":
        raise Retry("later", in_=90)
    if kind == "now":
        raise Retry
    if kind == "never":
        raise NoRetry("no use")
    raise Skip("nothing to do")


@worker.job("sum")
async def total(ctx: jobhall.Context, numbers: list[int]) -> int:
    parts = [await ctx.submit("add", a=one) for one in numbers]
    return sum(await ctx.results(parts))


@worker.job("report")
def report(ctx: jobhall.Context) -> str:
    ctx.artifact_sync("a.txt", b"from bytes")
    given = ctx.inputs_sync()
    return f"{len(given)} inputs: {[one.get('result') for one in given]}, {[f['name'] for f in given[0]['artifacts']]}"


@worker.job("files")
async def files(ctx: jobhall.Context, path: str) -> None:
    for _ in ctx.track(["x", "y"]):
        await ctx.artifact("b.txt", path)


@worker.job("steps")
def steps(ctx: jobhall.Context, n: int) -> str:
    for step in range(n):
        ctx.progress(step, n)
    return "not stopped"


@worker.job("async-steps")
async def async_steps(ctx: jobhall.Context) -> None:
    try:
        for step in range(100):
            print(f"step {step}")
            await asyncio.sleep(0)
    finally:
        print("cleaned up")


@worker.job("endless")
async def endless() -> None:
    await asyncio.Event().wait()


@worker.job("endless-thread")
def endless_thread() -> None:
    while True:
        threading.Event().wait(0.01)


@dataclasses.dataclass
class Picky:
    name: str

    def __post_init__(self) -> None:
        raise LookupError(f"{self.name} is not known")


@worker.job("picky")
def picky(what: Picky) -> None: ...


def test_a_result_with_its_log() -> None:
    job = testing.run(worker, "add", a=2, b=3)
    assert (job.result(), job.state, job.outcomes) == (5, "succeeded", ["succeeded"])
    assert job.log("stdout") == ["adding 2 and 3"]
    assert job.log("stderr")[0].endswith("INFO app: logged")
    assert testing.run(worker, add, a=2).result() == 3


def test_arguments_are_checked_as_by_the_worker() -> None:
    job = testing.run(worker, "add", a="2")
    with pytest.raises(jobhall.JobFailed, match="argument 'a' must be an integer, not a string"):
        job.result()
    assert job.error is not None
    assert (job.error.reason, job.outcomes) == ("bad_arguments", ["failed"])
    with pytest.raises(jobhall.InvalidRequest, match="JSON"):
        testing.run(worker, "add", a=object())
    with pytest.raises(jobhall.InvalidRequest, match=r"no worker has a function for type 'ad' \(they have: add, flaky"):
        testing.run(worker, "ad")


def test_an_error_of_the_apps_own_conversion_is_a_failure_of_the_job() -> None:
    job = testing.run(worker, "picky", what={"name": "x"}, max_attempts=2)
    assert (job.state, job.outcomes) == ("failed", ["failed", "failed"])
    assert job.error is not None
    assert job.error.reason == "LookupError"


def test_retries_move_a_virtual_clock() -> None:
    job = testing.run(worker, flaky, until=4)
    assert job.result() == "done"
    assert job.outcomes == ["failed", "failed", "failed", "succeeded"]
    assert job.delays == [5, 10, 20]
    assert [attempt.log() for attempt in job.attempts] == [[f"attempt {n}"] for n in (1, 2, 3, 4)]
    first = job.attempts[0].error
    assert first is not None
    assert first.reason == "ValueError"
    assert [one["type"] for one in first.data["exceptions"]] == ["ValueError", "KeyError"]
    exhausted = testing.run(worker, flaky, until=5)
    with pytest.raises(jobhall.JobFailed) as failed:
        exhausted.result()
    assert isinstance(failed.value.__cause__, ValueError)
    assert failed.value.job.attempt == 4


@pytest.mark.parametrize(
    ("retry", "delays"),
    [
        ({"max_attempts": 4, "delay": "1m30s", "backoff": "constant"}, [90, 90, 90]),
        ({"max_attempts": 5, "delay": "2s", "max_delay": "5s", "backoff": "linear"}, [2, 4, 5, 5]),
        ({"max_attempts": 5, "delay": "1s", "max_delay": "3s"}, [1, 2, 3, 3]),
        ({"max_attempts": 3, "delay": "2h"}, [7200, 7200]),
        ({"max_attempts": 3, "on": ["crashed"]}, []),
    ],
)
def test_the_retry_policy_of_a_submit_counts(retry: Any, delays: list[float]) -> None:
    assert testing.run(worker, "flaky", until=9, retry=retry).delays == delays


def test_a_policy_that_the_server_refuses_is_refused() -> None:
    for retry in ({"max_attempts": 0}, {"max_attempts": 1001}, {"delay": "1x"}, {"backoff": "cubic"}, {"on": ["bad"]}):
        with pytest.raises(jobhall.InvalidRequest):
            testing.run(worker, "flaky", until=1, retry=retry)
    with pytest.raises(jobhall.InvalidRequest, match="at_most_once"):
        testing.run(worker, "flaky", until=1, at_most_once=True, max_attempts=2)
    assert testing.run(worker, "flaky", until=2, at_most_once=True).outcomes == ["failed"]


@pytest.mark.parametrize(
    ("kind", "outcomes", "delays", "result"),
    [
        ("snooze", ["failed", "failed", "succeeded"], [3600, 3600], "after 3"),
        ("in", ["failed", "failed"], [90], None),
        ("now", ["failed", "failed"], [0], None),
        ("never", ["failed"], [], None),
        ("skip", ["skipped"], [], None),
    ],
)
def test_verdicts(kind: str, outcomes: list[str], delays: list[float], result: str | None) -> None:
    job = testing.run(worker, "verdict", kind=kind, max_attempts=2)
    assert (job.outcomes, job.delays) == (outcomes, delays)
    assert job.value == result
    assert job.state == ("succeeded" if kind in ("snooze", "skip") else "failed")
    assert job.log() == (["skipped: nothing to do"] if kind == "skip" else [])


def test_sub_jobs_run_here_and_share_the_clock() -> None:
    job = testing.run(worker, "sum", numbers=[1, 2, 3])
    assert job.result() == 9
    assert [sub.params for sub in job.sub_jobs] == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert all(sub.data.parent == job.id for sub in job.sub_jobs)
    parents = jobhall.Worker()

    @parents.job("parent")
    def parent(ctx: jobhall.Context) -> str:
        sub = ctx.submit_sync("flaky", until=3)
        other = ctx.submit_sync("flaky", call="other", until=9, options={"retry": {"max_attempts": 1}})
        with pytest.raises(SubJobFailed, match="has ended as failed: ValueError"):
            other.result_sync()
        if ctx.attempt == 1:
            raise RuntimeError("again")
        return f"{sub.result_sync()} {sub.id}"

    hall = testing.LocalHall(parents, worker)
    ended = hall.run("parent")
    assert ended.result() == "done 2", "the second attempt joins the sub-job of the first"
    assert [sub.outcomes for sub in ended.sub_jobs] == [["failed", "failed", "succeeded"], ["failed"], ["failed"]]
    assert hall.now == 15, "5 s and 10 s of one sub-job; the parent waited 5 s of them"


def test_a_sub_job_that_no_worker_here_runs_is_an_error_of_the_test(caplog: pytest.LogCaptureFixture) -> None:
    alone = jobhall.Worker(slots=2)
    alone.job(total.type)(total.function)
    alone.job(flaky.type)(flaky.function)

    @alone.job("both")
    async def both(ctx: jobhall.Context) -> None:
        await ctx.submit("flaky", until=2)
        while hall.jobs[-1].state != "scheduled":  # noqa: ASYNC110
            await asyncio.sleep(0)
        await ctx.submit("add", a=1)

    hall = testing.LocalHall(alone)
    for job in ("sum", "both"):
        with pytest.raises(jobhall.InvalidRequest, match="no worker has a function for type 'add'"):
            hall.run(job, **({"numbers": [1]} if job == "sum" else {}))
    assert hall.run("flaky", until=3).delays == [5, 10], "the hall can be used further"
    assert caplog.records == []


async def test_a_test_that_gives_up_leaves_nothing_behind() -> None:
    left = asyncio.Event()
    short = jobhall.Worker()

    @short.job("wait")
    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    hall = testing.LocalHall(short, worker)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await hall.run_async("wait")
    await asyncio.wait_for(left.wait(), 10)
    assert (await hall.run_async("flaky", until=2)).delays == [5]


def test_jobs_after_each_other_with_inputs_and_artifacts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("from a file")
    hall = testing.LocalHall(worker)
    first = hall.run("files", path=str(tmp_path / "file"))
    assert first.last.artifacts == {"b.txt": b"from a file"}
    assert [(one.step, one.total) for one in first.last.progress] == [(0, 2), (1, 2), (2, 2)]
    second = hall.run("add", a=4)
    last = hall.run("report", after=[first, second])
    assert last.result() == "2 inputs: [None, 5], ['b.txt']"
    assert last.last.artifacts == {"a.txt": b"from bytes"}
    failed = hall.run("verdict", kind="never")
    with pytest.raises(errors.DependencyUnmet, match=f"job {failed.id} has failed"):
        hall.run("report", after=failed)
    with pytest.raises(errors.DependencyUnmet, match="job 99 does not exist"):
        hall.run("report", after=99)
    assert hall.run("report", after=[failed, second], after_any=True).result() == "2 inputs: [None, 5], []"


def test_a_cancel_is_delivered_into_the_job() -> None:
    hall = testing.LocalHall(worker, cancel_when=lambda attempt: len(attempt.progress) == 3)
    job = hall.run("steps", n=1000)
    assert (job.state, job.outcomes) == ("cancelled", ["cancelled"])
    assert len(job.last.progress) == 3, "the job ends where it was"
    with pytest.raises(jobhall.JobCancelled):
        job.result()
    hall = testing.LocalHall(worker, cancel_when=lambda attempt: attempt.log() == ["step 0"])
    assert hall.run("async-steps").log() == ["step 0", "cleaned up"]


@pytest.mark.parametrize("type", ["endless", "endless-thread"])
def test_a_job_that_is_too_long_times_out_and_is_retried(type: str) -> None:
    job = testing.run(worker, type, timeout=0.05, max_attempts=2)
    assert (job.state, job.outcomes, job.delays) == ("crashed", ["timed_out", "timed_out"], [5])
    assert job.error is not None
    assert job.error.reason == "timed_out"
    assert testing.run(worker, type, silence=0.05, max_attempts=1).outcomes == ["timed_out"]


def test_the_time_limit_counts_the_work_and_not_the_waits() -> None:
    slow = jobhall.Worker()

    @slow.job("part")
    def part(seconds: float) -> None:
        threading.Event().wait(seconds)

    @slow.job("whole")
    def whole(ctx: jobhall.Context, own: float, of_part: float) -> None:
        for _ in range(4):
            threading.Event().wait(own)
            ctx.submit_sync("part", seconds=of_part).result_sync()

    options = {"timeout": 0.6, "max_attempts": 1}
    assert testing.run(slow, "whole", own=0.001, of_part=0.2, **options).outcomes == ["succeeded"]
    assert testing.run(slow, "whole", own=0.2, of_part=0.001, **options).outcomes == ["timed_out"]


def test_a_job_that_ignores_its_cancel_is_given_up() -> None:
    stubborn = jobhall.Worker(grace=0.05)
    release = threading.Event()

    @stubborn.job("stubborn")
    def stuck() -> None:
        release.wait(20)

    try:
        job = testing.run(stubborn, "stubborn", timeout=0.05, max_attempts=1)
        assert (job.state, job.outcomes) == ("crashed", ["timed_out"])
    finally:
        release.set()


def test_jobs_that_wait_for_each_other_do_not_hang() -> None:
    circle = jobhall.Worker()

    @circle.job("one")
    async def one(ctx: jobhall.Context) -> None:
        await (await ctx.submit("two", options={"key": "k"})).result()

    @circle.job("two")
    async def two(ctx: jobhall.Context) -> None:
        await (await ctx.submit("two", options={"key": "k"})).result()

    job = testing.run(circle, "one", max_attempts=1)
    assert job.state == "failed"
    assert "wait for each other" in str(job.last.exception)


async def test_in_a_running_event_loop() -> None:
    with pytest.raises(RuntimeError, match="run_async"):
        testing.run(worker, "add", a=1)
    hall = testing.LocalHall(worker)
    jobs = await asyncio.gather(*(hall.run_async("sum", numbers=[n, n]) for n in range(5)))
    assert [job.result() for job in jobs] == [2, 4, 6, 8, 10]


def test_what_needs_a_server_is_refused() -> None:
    for options in ({"group": 1}, {"reuse": "1h"}, {"on_duplicate": "supersede"}):
        with pytest.raises(jobhall.InvalidRequest, match="jobhall_server"):
            testing.run(worker, "add", a=1, **options)


def test_output_is_bounded_and_the_streams_are_restored(capsys: pytest.CaptureFixture[str]) -> None:
    loud = jobhall.Worker()

    @loud.job("loud")
    def shout() -> None:
        for _ in range(20):
            print("x" * (1 << 20))

    before = sys.stdout, sys.stderr, list(logging.getLogger().handlers), logging.getLogger().level
    job = testing.run(loud, "loud")
    assert before == (sys.stdout, sys.stderr, list(logging.getLogger().handlers), logging.getLogger().level)
    assert sum(len(data) for _, data in job.last.output) == 16 << 20
    assert job.last.truncated
    print("back")
    assert capsys.readouterr().out == "back\n"
