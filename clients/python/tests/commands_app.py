"""The worker of ``test_queries.py``: a command for each kind of value and argument, and ways to fail."""

from __future__ import annotations

import asyncio
import datetime
import enum
import os
import threading
import time
from pathlib import Path
from typing import Any, Literal

import jobhall

worker = jobhall.Worker(slots=4, name="commands", abilities="gpu=2")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point:
    def __init__(self, x: int, y: int) -> None:
        self.x, self.y = x, y


jobhall.codec(
    Point,
    media_type="application/x-point",
    extension="point",
    encode=lambda point: f"{point.x};{point.y}".encode(),
    decode=lambda content: Point(*map(int, content.decode().split(";"))),
)
jobhall.codec(Point, media_type="image/svg+xml", extension="svg", encode=lambda point: f"<!-- {point.x} -->".encode())


@worker.command(input=False)
def numbers(count: int = 3) -> str:
    """Counts.

    This is not part of the help.
    """
    print(f"counting to {count}")
    return "".join(f"{n}\n" for n in range(1, count + 1))


@worker.command
def asks(text: str, ctx: jobhall.Context, query: str = "numbers-2") -> bytes:
    first = ctx.query_sync(query)
    assert ctx.query_sync(query) == first
    return first + text.encode()


@worker.command(input=False)
async def asks_async(ctx: jobhall.Context, depth: int) -> bytes:
    return b"." + await ctx.query(f"asks_async-{depth - 1}") if depth else b""


@worker.command(input=False)
async def handles(ctx: jobhall.Context, query: str) -> str:
    try:
        await ctx.query(query)
    except jobhall.QueryError as error:
        return f"{type(error).__name__} {error.code}"
    return "no error"


@worker.command(input=False, volatile=True)
def dice(sides: int = 6) -> str:
    return f"{os.getpid()} {threading.get_ident()} {sides}"


@worker.command(input=False)
async def throws(ctx: jobhall.Context) -> list[str]:
    return [(await ctx.query(text)).decode() for text in ("dice", "dice", "numbers-2/asks/head-3", "numbers-3/unkept")]


@worker.command(volatile=True)
def unkept(text: str) -> str:
    return "unkept " + text.splitlines()[-1]


@worker.command(input=False, volatile=True)
async def endless(ctx: jobhall.Context) -> bytes:
    return await ctx.query("endless")


@worker.command
def head(text: str, lines: int) -> str:
    return "".join(text.splitlines(keepends=True)[:lines])


@worker.command
def raw(content: bytes) -> bytes:
    return content[::-1]


@worker.command
def parsed(text: str) -> dict[str, Any]:
    return {"lines": text.split(), "none": None, "number": 1.5}


@worker.command
def count_lines(value: dict[str, Any]) -> int:
    return len(value["lines"])


@worker.command
def strict(value: dict[str, int]) -> int:
    return sum(value.values())


@worker.command(media_type="text/plain")
def copied(source: Path) -> Path:
    assert source.read_text()
    target = source.with_name("copy")
    target.write_text("copy of " + source.read_text())
    return target


@worker.command(input=False)
def point(x: int, y: int) -> Point:
    return Point(x, y)


@worker.command
def moved(point: Point, by: int) -> Point:
    return Point(point.x + by, point.y + by)


@worker.command(input=False, ignore=["threads"])
def arguments(
    text: str,
    number: float,
    yes: bool,
    day: datetime.date,
    span: datetime.timedelta,
    colour: Colour,
    mode: Literal["fast", "slow"],
    level: Literal[1, 2] = 1,
    at: datetime.datetime | None = None,
    limit: int | None = None,
    threads: int = 1,
) -> list[str]:
    return [repr(one) for one in (text, number, yes, day, span, colour, mode, level, at, limit, threads)]


@worker.command
def joined(text: str, other: bytes, table: dict[str, Any]) -> str:
    return f"{text}+{other.decode()}+{table['number']}"


@worker.command
async def shouted(ctx: jobhall.Context, text: str) -> str:
    await asyncio.sleep(0)
    ctx.progress(1, 1, "shouting")
    print("HELLO")
    return text.upper()


@worker.command(run="process")
def apart(text: str) -> str:
    print("in a process")
    return f"{text}{os.getpid()}"


@worker.command(formats=["csv", "txt"])
def formed(text: str, ctx: jobhall.Context) -> str:
    return ",".join(text.split()) if ctx.format == "csv" else text


@worker.command
def breaks(text: str) -> str:
    print("about to break")
    raise KeyError("no such column")


@worker.command
def skips(text: str) -> str:
    raise jobhall.worker.Skip("nothing to do")


@worker.command
def odd(text: str) -> Any:
    return {"a": object()}


@worker.command(input=False)
def large(bytes: int) -> str:
    return "é" * (bytes // 2) + "x" * (bytes % 2)


@worker.command(input=False, timeout=0.2)
def slow() -> str:
    while True:
        time.sleep(0.01)


@worker.command(input=False, volatile=True)
def clock() -> str:
    return str(time.monotonic_ns())


@worker.command(
    input=False,
    soft_volatile=True,
    cacheable=False,
    expires="EOD Europe/Berlin",
    retries=1,
    timeout="1h30m",
    needs="gpu>=1",
    uses="gpu=1",
    help="has every option",
    version="2026.1",
)
def tried(ctx: jobhall.Context) -> int:
    if ctx.attempt == 1:
        raise jobhall.worker.Retry("not yet")
    return ctx.attempt


@worker.command(input=False, run="process")
def dies() -> str:
    os._exit(9)
