"""The operations of queries: a promise, its value as it arrives, and what is known about it."""

from __future__ import annotations

import io
import math
import os
import tempfile
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from ._core import (
    NODE_TRIES,
    Backoff,
    Close,
    Core,
    Deadline,
    Lost,
    Op,
    Opened,
    Pause,
    Read,
    Request,
    change,
    get,
    path,
    read_all,
)
from ._query_text import Query, query_text
from .errors import ConnectionFailed, WaitTimeout
from .models import KnownCommand, QueryPromise

WAIT_SECONDS = 20
"""How long one request waits for a value."""
_MARGIN = 30.0
_LEAST = 0.25
_ACCEPTED = 202
# What a declaration leaves out is true.
_TRUE = {"cacheable": True, "serialisable": True, "dash_dash": True}


def ask(core: Core, query: Query) -> Op[QueryPromise]:
    """Asks for a query in the background. Asking twice is one computation, so a lost answer is asked for again."""
    request = change("POST", "queries", body={"query": query_text(query)}, repeatable=True)
    return QueryPromise.from_wire((yield from core.json(request)))


def read_promise(core: Core, id: int, cache: str | None = None, created: int | None = None) -> Op[QueryPromise]:
    """What is known about a promise now. How it was answered is known only from that answer."""
    found = QueryPromise.from_wire((yield from core.json(get("queries", id))))
    return replace(found, cache=cache, created=created)


def read_commands(core: Core) -> Op[list[KnownCommand]]:
    page = yield from core.json(get("commands"))
    return [KnownCommand.from_wire({**one, "command": {**_TRUE, **one["command"]}}) for one in page["items"]]


def fetch(core: Core, meta: QueryPromise, file: BinaryIO, timeout: float | None) -> Op[QueryPromise]:
    """Waits for a value and writes it to a file; returns what is known then. A broken answer is asked for again."""
    deadline, patience = Deadline(timeout), Backoff(NODE_TRIES)
    while True:
        try:
            found = yield from _try(core, meta, file, deadline)
        except Lost as lost:
            pause = patience.pause()
            if deadline.left() <= 0:
                raise _late(meta, timeout) from None
            if pause is None:
                raise ConnectionFailed(f"no server answers at {core.address}: {lost}") from lost
            yield Pause(min(pause, max(deadline.left(), 0.0)))
            continue
        if found is not None:
            return found
        patience = Backoff(NODE_TRIES)
        if deadline.left() <= 0:
            raise _late(meta, timeout)


def _late(meta: QueryPromise, timeout: float | None) -> WaitTimeout:
    return WaitTimeout(f"the query {meta.query} (job {meta.id}) has no value within {timeout} s")


def _try(core: Core, meta: QueryPromise, file: BinaryIO, deadline: Deadline) -> Op[QueryPromise | None]:
    """One request for the value; none if it was not there in time."""
    left = min(deadline.left(), float(WAIT_SECONDS))
    # Whole seconds: a request that waits longer than the deadline is broken off here.
    wait = math.ceil(max(left, 0.0))
    target = path("queries", meta.id, "value", query={"wait": wait})
    limit = max(left, _LEAST) if left < wait else wait + _MARGIN
    opened = yield from core.open(Request("GET", target, timeout=limit, repeatable=True))
    try:
        if opened.status == _ACCEPTED:
            yield from read_all(opened)
            return None
        size = yield from _copy(opened, file)
    finally:
        yield Close(opened.handle)
    return replace(meta, state="succeeded", media_type=opened.headers.get("content-type"), size=size)


def _copy(opened: Opened, file: BinaryIO) -> Op[int]:
    file.seek(0)
    file.truncate()
    size = 0
    while piece := cast("bytes", (yield Read(opened.handle))):
        file.write(piece)
        size += len(piece)
    expected = opened.headers.get("content-length")
    if expected is not None and int(expected) != size:
        raise Lost(f"the value was broken off after {size} of {expected} bytes")
    return size


def value(core: Core, meta: QueryPromise, timeout: float | None) -> Op[tuple[bytes, QueryPromise]]:
    buffer = io.BytesIO()
    found = yield from fetch(core, meta, buffer, timeout)
    return buffer.getvalue(), found


def save(core: Core, meta: QueryPromise, to: str | os.PathLike[str], timeout: float | None) -> Op[QueryPromise]:
    """Writes a value to a path, which has either the whole value or what it had before."""
    target = Path(to)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "w+b") as file:
            found = yield from fetch(core, meta, file, timeout)
        _as_new_file(name)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return found


def _as_new_file(name: str) -> None:
    """Gives a temporary file the permissions of any other new file."""
    mask = os.umask(0)
    os.umask(mask)
    Path(name).chmod(0o666 & ~mask)


class PromiseData:
    """What is known about a promise."""

    def __init__(self, client: Any, meta: QueryPromise) -> None:
        self._client = client
        self.meta = meta
        """Query, identity, state and cache, and media type and size as soon as they are known."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.meta.query} {self.meta.state}>"

    @property
    def id(self) -> int:
        """The number of the job that makes the value."""
        return self.meta.id

    @property
    def state(self) -> str:
        return self.meta.state


class AwaitablePromise(PromiseData):
    """A promise whose value ``await`` gives."""

    value: Callable[..., Any]

    def __await__(self) -> Generator[Any, Any, bytes]:
        found: Generator[Any, Any, bytes] = self.value().__await__()
        return found
