"""The app of the tests of workers. Jobs that must wait do so until a file exists."""

# ruff: noqa: ASYNC110, ASYNC240, ASYNC251

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import dataclasses
import datetime
import enum
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import jobhall
from jobhall.worker import Cancelled, NoRetry, Retry, Skip, Snooze

worker = jobhall.Worker(slots=8, name="py", abilities="gpu=2", grace=0.5)
log = logging.getLogger("app")


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


@dataclasses.dataclass
class Box:
    width: int
    height: int = 1


def wait_file(path: str) -> None:
    """Waits for a file, in short steps, between which a cancel is delivered."""
    while not Path(path).exists():
        time.sleep(0.01)


def die(how: str) -> None:
    match how:
        case "segv":
            ctypes.string_at(0)
        case "exit":
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)


@worker.job("add")
async def add(a: int, b: int = 1) -> int:
    return a + b


@worker.job("typed", needs="gpu>=1", uses="gpu=1")
async def typed(when: datetime.datetime, size: Size, boxes: list[Box], path: Path) -> dict[str, Any]:
    return {"year": when.year, "size": size, "area": sum(box.width * box.height for box in boxes), "path": path}


async def where_async(ctx: jobhall.Context) -> dict[str, Any]:
    return {"pid": os.getpid(), "attempt": ctx.attempt, "type": ctx.type}


def where(ctx: jobhall.Context) -> dict[str, Any]:
    return {"pid": os.getpid(), "attempt": ctx.attempt, "type": ctx.type}


worker.job("where_async")(where_async)
worker.job("where_thread")(where)
worker.job("where_process", run="process")(where)
worker.job("where_process_async", run="process")(where_async)


def speak(word: str, begun: str, go: str) -> None:
    print(f"{word} printed")
    sys.stderr.write(f"{word} to stderr\n")
    log.info("%s logged", word)
    Path(begun).touch()
    wait_file(go)
    print(f"{word} ends")


worker.job("speak_thread")(speak)
worker.job("speak_process", run="process")(speak)


@worker.job("speak_async")
async def speak_async(word: str, begun: str, go: str) -> None:
    print(f"{word} printed")
    Path(begun).touch()
    while not Path(go).exists():
        await asyncio.sleep(0.01)
    await asyncio.create_task(inner(word))


async def inner(word: str) -> None:
    log.info("%s logged", word)
    print(f"{word} ends")


@worker.job("programs", run="process")
def programs(leave: str) -> None:
    """Starts a program that prints, and one that would not end."""
    subprocess.run(["echo", "from a program"], check=True)
    left = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    Path(leave).write_text(str(left.pid))


def wait_forever(begun: str, ended: str) -> None:
    Path(begun).touch()
    try:
        wait_file("/nonexistent/file")
    except Cancelled:
        Path(ended).write_text("cancelled")
        print("cancelled")
        raise


worker.job("wait_thread")(wait_forever)
worker.job("wait_process", run="process")(wait_forever)


async def wait_forever_async(begun: str, ended: str) -> None:
    Path(begun).touch()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        Path(ended).write_text("cancelled")
        print("cancelled")
        raise


worker.job("wait_async")(wait_forever_async)
worker.job("wait_process_async", run="process")(wait_forever_async)


@worker.job("stubborn_process", run="process")
def stubborn_process(begun: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    program = subprocess.Popen(["sleep", "1000"])
    Path(begun).write_text(str(program.pid))
    while True:
        time.sleep(1)


@worker.job("stubborn_thread")
def stubborn_thread(begun: str, go: str) -> None:
    Path(begun).touch()
    while not Path(go).exists():
        try:
            time.sleep(0.01)
        except Cancelled:
            continue


@worker.job("stubborn_async")
async def stubborn_async(begun: str, go: str) -> None:
    Path(begun).touch()
    while not Path(go).exists():
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            continue


def never(begun: str) -> None:
    Path(begun).touch()
    while True:
        try:
            time.sleep(1)
        except BaseException:
            continue


worker.job("never_thread")(never)


@worker.job("never_executor")
async def never_executor(begun: str) -> None:
    await asyncio.to_thread(never, begun)


@worker.job("never_async")
async def never_async(begun: str) -> None:
    """Goes on even when its coroutine is closed."""
    Path(begun).touch()
    while True:
        try:
            await asyncio.sleep(1)
        except BaseException:
            continue


@worker.job("leave_thread")
async def leave_thread(begun: str) -> None:
    threading.Thread(target=never, args=(begun,), name="left behind").start()


@worker.job("steps")
def steps(ctx: jobhall.Context, go: str) -> int:
    total = 0
    for item in ctx.track([1, 2, 3], message="adding"):
        total += item
    ctx.progress(1, 2, "half", name="second")
    wait_file(go)
    return total


@worker.job("steps_process", run="process")
def steps_process(ctx: jobhall.Context, go: str) -> None:
    for _ in ctx.track(range(2_000)):
        pass
    wait_file(go)


@worker.job("fan_out")
async def fan_out(ctx: jobhall.Context, count: int) -> int:
    jobs = [await ctx.submit("add", a=n, call=f"add {n}") for n in range(count)]
    return sum(await ctx.results(jobs))


def sub_job_with_a_time(ctx: jobhall.Context) -> str:
    when = datetime.datetime(2030, 1, 31, tzinfo=datetime.UTC)
    return str(ctx.submit_sync("typed", when=when, size=Size.SMALL, boxes=[], path=Path("a")).result_sync()["year"])


worker.job("time_thread")(sub_job_with_a_time)
worker.job("time_process", run="process")(sub_job_with_a_time)


def fan_out_sync(ctx: jobhall.Context, count: int) -> int:
    jobs = [ctx.submit_sync("add", a=n) for n in range(count)]
    return sum(ctx.results_sync(jobs))


worker.job("fan_out_thread")(fan_out_sync)
worker.job("fan_out_process", run="process")(fan_out_sync)


@worker.job("fan_out_process_async", run="process")
async def fan_out_process_async(ctx: jobhall.Context, count: int) -> int:
    jobs = await asyncio.gather(*(ctx.submit("add", a=n, call=f"add {n}") for n in range(count)))
    return sum(await ctx.results(jobs))


@worker.job("fan_out_gated")
async def fan_out_gated(ctx: jobhall.Context, begun: str, go: str) -> int:
    """Has submitted a sub-job before a file exists, and waits for it afterwards."""
    job = await ctx.submit("add", a=0)
    Path(begun).touch()
    while not Path(go).exists():
        await asyncio.sleep(0.01)
    return int(await job.result())


@worker.job("sub_job_of_function")
async def sub_job_of_function(ctx: jobhall.Context) -> dict[str, Any]:
    job = await ctx.submit(typed, when="2030-01-31T12:00:00+00:00", size="small", boxes=[], path="a")
    return {"id": job.id, "result": await job.result()}


@worker.job("wrong_sub_job")
async def wrong_sub_job(ctx: jobhall.Context, wrong: str) -> list[str]:
    """The codes of the refusals."""
    options: dict[str, Any] = {"options": {"key": 5}} if wrong == "a field" else {}
    text = "x" * (2 << 20) if wrong == "too large" else "x"
    try:
        await ctx.submit("no type" if wrong == "the type" else "add", a=text, **options)
    except jobhall.errors.ApiError as refused:
        return [refused.code, refused.detail]
    return []


@worker.job("sub_job_fails")
async def sub_job_fails(ctx: jobhall.Context) -> Any:
    job = await ctx.submit("verdict", verdict="no_retry", options={"retry": {"max_attempts": 1}})
    try:
        await job.result()
    except jobhall.worker.SubJobFailed as failed:
        return [failed.state, failed.error]


@worker.job("verdict")
def verdict(ctx: jobhall.Context, verdict: str) -> str:
    if ctx.attempt > 1:
        return f"attempt {ctx.attempt}"
    raise {
        "retry": Retry("once more", in_=0.01),
        "snooze": Snooze(0.01),
        "skip": Skip("nothing to do"),
        "no_retry": NoRetry("never again"),
    }[verdict]


worker.job("verdict_process", run="process")(verdict.function)


def nested() -> None:
    try:
        raise KeyError("inner")
    except KeyError as error:
        raise RuntimeError("outer") from error


@worker.job("raise_async")
async def raise_async() -> None:
    nested()


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no message")


def wrong_end(how: str) -> Any:
    """Ends in a way that is hard to report."""
    match how:
        case "nul":
            raise ValueError("a\0b")
        case "silent":
            raise Silent
        case "interrupt":
            raise KeyboardInterrupt
        case "endless delay":
            raise Retry(in_=float("inf"))
        case "text delay":
            raise Snooze("5s")  # type: ignore[arg-type]
        case "exit":
            sys.exit(3)
        case "unserialisable":
            return {"socket": {1}}


async def wrong_end_async(how: str) -> Any:
    return wrong_end(how)


worker.job("wrong_end_async")(wrong_end_async)
worker.job("wrong_end_thread")(wrong_end)
worker.job("wrong_end_process", run="process")(wrong_end)


@dataclasses.dataclass
class Picky:
    name: str

    def __post_init__(self) -> None:
        raise LookupError(f"{self.name} is not known")


async def picky_async(what: Picky) -> None: ...


def picky(what: Picky) -> None: ...


worker.job("picky_async")(picky_async)
worker.job("picky_thread")(picky)
worker.job("picky_process", run="process")(picky)


@worker.job("wrong_progress")
def wrong_progress(ctx: jobhall.Context) -> list[str]:
    found = []
    wrong: list[Any] = [{"step": 1.5}, {"step": -1}, {"step": 1, "total": "2"}, {"step": 1, "name": "n" * 2_000}]
    for one in wrong:
        try:
            ctx.progress(**one)
        except (TypeError, ValueError) as error:
            found.append(str(error))
    ctx.progress(7, message="m" * 100_000)
    return found


worker.job("raise_thread")(nested)
worker.job("raise_process", run="process")(nested)


@worker.job("unserialisable")
async def unserialisable() -> object:
    return {"lock": asyncio.Lock()}


def large(size: int) -> str:
    return "x" * size


worker.job("large")(large)
worker.job("large_process", run="process")(large)


@worker.job("artifact")
async def artifact(ctx: jobhall.Context, path: str) -> None:
    await ctx.artifact("bytes.txt", b"some bytes", "text/plain")
    await ctx.artifact("file", Path(path))


@worker.job("inputs", run="process")
def inputs(ctx: jobhall.Context) -> list[Any]:
    return [one["result"] for one in ctx.inputs_sync()]


@worker.job("die_process", run="process")
def die_process(how: str) -> None:
    print("before the end")
    die(how)


def fork() -> int:
    return os.fork()


worker.job("fork_thread")(fork)
worker.job("fork_process", run="process")(fork)


@worker.job("fork_async")
async def fork_async() -> int:
    pid = os.fork()
    await asyncio.sleep(0.01)
    return pid


def flood(megabytes: int) -> None:
    line = "y" * 1023
    for _ in range(megabytes * 1024):
        print(line)


def processes() -> list[int]:
    """Ends processes that it has forked, by a signal."""
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(abs, [-1, -2])


async def processes_async() -> list[int]:
    return processes()


worker.job("processes_async")(processes_async)
worker.job("processes_thread")(processes)
worker.job("processes_process", run="process")(processes)


@worker.job("flood_async")
async def flood_async(megabytes: int) -> None:
    flood(megabytes)


worker.job("flood_thread")(flood)
worker.job("flood_process", run="process")(flood)

left_behind: contextvars.ContextVar[str] = contextvars.ContextVar("left_behind", default="nothing")


@worker.job("context")
async def context(value: str) -> str:
    before = left_behind.get()
    left_behind.set(value)
    return before


@worker.job("die_thread")
def die_thread(how: str, begun: str = "") -> None:
    if begun:
        wait_file(begun)
    die(how)


@worker.job("die_async")
async def die_async() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@worker.job("block")
async def block() -> None:
    while True:
        time.sleep(1)


@worker.job("block_until")
async def block_until(runs: str, go: str) -> None:
    Path(runs).write_text(f"{Path(runs).read_text()}ran\n")
    wait_file(go)


def leave_program(pid: str) -> None:
    with subprocess.Popen(["sleep", "1000"]) as program:
        Path(pid).write_text(str(program.pid))
        program.wait()


worker.job("leave_program_thread")(leave_program)
worker.job("leave_program_process", run="process")(leave_program)
