"""The app of the tests of isolation: jobs that break what the others of their process use."""

# ruff: noqa: ASYNC240

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import jobhall

worker = jobhall.Worker(slots=8, name="hostile", grace=0.5)
log = logging.getLogger("app")


def value(value: Any) -> Any:
    return value


async def value_async(value: Any) -> Any:
    return value


worker.job("value_async")(value_async)
worker.job("value_thread")(value)
worker.job("value_process", run="process")(value)


def hello() -> int:
    print("hello")
    return os.getpid()


worker.job("hello_thread")(hello)
worker.job("hello_process", run="process")(hello)


@worker.job("gated")
async def gated(go: str) -> str:
    await asyncio.to_thread(_wait_file, go)
    return "done"


def _wait_file(path: str) -> None:
    while not Path(path).exists():
        time.sleep(0.01)


@worker.job("waits_for_sub_job")
async def waits_for_sub_job(ctx: jobhall.Context, begun: str, go: str) -> str:
    """Has a sub-job, and then submits another one, while other jobs of the worker make mistakes."""
    job = await ctx.submit("gated", go=go)
    Path(begun).touch()
    first = await job.result()
    return f"{first}, {await (await ctx.submit('value_async', value='second')).result()}"


def fork_and_end(count: int) -> int:
    """Ends copies of its process before they have begun."""
    for _ in range(count):
        pid = os.fork()
        if pid == 0:
            time.sleep(1_000)
            os._exit(0)
        os.kill(pid, signal.SIGTERM)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM
    return count


worker.job("fork_and_end_thread")(fork_and_end)
worker.job("fork_and_end_process", run="process")(fork_and_end)


@worker.job("large_async")
async def large_async(size: int) -> str:
    return "x" * size


async def fan_out(ctx: jobhall.Context, count: int, size: int) -> list[int]:
    jobs = [await ctx.submit("large_async", size=size, call=str(n)) for n in range(count)]
    return [len(one) for one in await ctx.results([*jobs, jobs[0]])]


def fan_out_sync(ctx: jobhall.Context, count: int, size: int) -> list[int]:
    jobs = [ctx.submit_sync("large_async", size=size, call=str(n)) for n in range(count)]
    return [len(one) for one in ctx.results_sync([*jobs, jobs[0]])]


worker.job("fan_out_async")(fan_out)
worker.job("fan_out_thread")(fan_out_sync)
worker.job("fan_out_process", run="process")(fan_out_sync)


async def sub_job_sizes(ctx: jobhall.Context, sizes: list[int]) -> list[list[int]]:
    jobs = [await ctx.submit("large_async", size=size, call=str(n)) for n, size in enumerate(sizes)]
    return [
        [len(one) for one in await ctx.results([*jobs, jobs[0]])],
        [len(await job.result()) for job in jobs],
    ]


def sub_job_sizes_sync(ctx: jobhall.Context, sizes: list[int]) -> list[list[int]]:
    jobs = [ctx.submit_sync("large_async", size=size, call=str(n)) for n, size in enumerate(sizes)]
    return [
        [len(one) for one in ctx.results_sync([*jobs, jobs[0]])],
        [len(job.result_sync()) for job in jobs],
    ]


worker.job("sub_job_sizes_async")(sub_job_sizes)
worker.job("sub_job_sizes_thread")(sub_job_sizes_sync)
worker.job("sub_job_sizes_process", run="process")(sub_job_sizes_sync)


@worker.job("input_sizes")
async def input_sizes(ctx: jobhall.Context) -> list[int]:
    return [len(one["result"]) for one in await ctx.inputs()]


async def wrong_options(ctx: jobhall.Context, options: dict[str, Any]) -> str:
    try:
        await ctx.submit("value_async", options=options, value=1)
    except jobhall.ApiError as refused:
        return f"{refused.code}: {refused.detail}"
    return "no error"


worker.job("wrong_options_async")(wrong_options)
worker.job("wrong_options_process", run="process")(wrong_options)


@worker.job("wrong_wait_process", run="process")
def wrong_wait_process(ctx: jobhall.Context) -> str:
    job: Any = type("Fake", (), {"id": "one"})()
    try:
        ctx.results_sync([job])
    except TypeError as error:
        return str(error)
    return "no error"


@worker.job("wrong_params_process", run="process")
def wrong_params_process(ctx: jobhall.Context) -> str:
    try:
        ctx.submit_sync("value_async", value=float("nan"))
    except ValueError as error:
        return str(error)
    return "no error"


async def _exits() -> None:
    sys.exit(7)


@worker.job("break_loop")
async def break_loop(how: str) -> None:
    loop: Any = asyncio.get_running_loop()
    match how:
        case "stop":
            loop.stop()
        case "cancel all":
            for task in asyncio.all_tasks():
                task.cancel()
        case "exit in a task":
            threading.Thread(target=_wait_file, args=("/nonexistent/file",)).start()
            loop.exit = asyncio.create_task(_exits())
        case "stopped process":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "close selector":
            loop._selector.close()
    await asyncio.Event().wait()


@worker.job("break_streams", run="process")
def break_streams(how: str) -> int:
    match how:
        case "replaced":
            sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
        case "none":
            sys.stdout = None
        case "closed":
            sys.stdout.close()
            os.close(1)
            os.close(2)
    return os.getpid()


def wrong_format() -> None:
    log.error("%d of %s", "a")
    print("after it")


worker.job("wrong_format_thread")(wrong_format)
worker.job("wrong_format_process", run="process")(wrong_format)


def nested(depth: int) -> Any:
    found: Any = 1
    for _ in range(depth):
        found = [found]
    return found


worker.job("nested_thread")(nested)
worker.job("nested_process", run="process")(nested)


def store(ctx: jobhall.Context, begun: str, go: str) -> str:
    Path(begun).touch()
    _wait_file(go)
    ctx.artifact_sync("a.txt", b"kept")
    return "x" * 300_000


worker.job("store_thread")(store)
worker.job("store_process", run="process")(store)


@worker.job("wrong_name")
def wrong_name(ctx: jobhall.Context, name: str) -> None:
    ctx.artifact_sync(name, b"x")


@worker.job("leave_program")
def leave_program(pid: str) -> None:
    program = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    Path(pid).write_text(str(program.pid))


@worker.job("environment")
def environment() -> list[str]:
    with contextlib.suppress(OSError):
        return Path("/proc/self/cmdline").read_text().split("\0")
    return []
