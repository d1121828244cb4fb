"""Queries of the asynchronous client. ``_client_queries.py`` is generated from this file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal, Self

from . import _query_ops
from ._aio_settings import AsyncSettings
from ._frames import read_frame
from ._query_ops import AwaitablePromise
from ._query_text import Query
from .models import KnownCommand


class AsyncPromise(AwaitablePromise):
    """The value of a query, once it is there. What was computed for one promise is the same at every read."""

    async def refresh(self) -> Self:
        """Reads the state again."""
        cache, created = self.meta.cache, self.meta.created
        self.meta = await self._client._run(_query_ops.read_promise(self._client._core, self.id, cache, created))
        return self

    async def value(self, timeout: float | None = None) -> bytes:
        """Waits for the value. Raises ``QueryFailed`` if a step failed, and ``WaitTimeout``."""
        found, self.meta = await self._client._run(_query_ops.value(self._client._core, self.meta, timeout))
        return bytes(found)

    async def text(self, timeout: float | None = None) -> str:
        """The value as text."""
        return (await self.value(timeout)).decode()

    async def json(self, timeout: float | None = None) -> Any:
        """The value, read as JSON."""
        return json.loads(await self.value(timeout))

    async def frame(self, kind: Literal["pandas", "polars"] = "pandas", *, timeout: float | None = None) -> Any:
        """The value as a frame of pandas or polars: from Parquet, CSV or JSON."""
        content = await self.value(timeout)
        return read_frame(content, self.meta.media_type or "", kind)

    async def path(self, to: str | os.PathLike[str], timeout: float | None = None) -> Path:
        """Writes the value to a path as it arrives, and returns the path. Nothing is written unless all of it is."""
        self.meta = await self._client._run(_query_ops.save(self._client._core, self.meta, to, timeout))
        return Path(to)


class AsyncQueries(AsyncSettings):
    """The part of the client that asks queries."""

    async def query(self, query: Query) -> AsyncPromise:
        """Asks for the value of a query and returns its promise.

        The query is the text of a URL, or steps: ``["numbers", ("between", "2026-01-01", "2026-02-01")]``. If the value
        is stored, nothing is computed. Raises ``QueryError`` if the query is wrong.
        """
        return AsyncPromise(self, await self._run(_query_ops.ask(self._core, query)))

    async def promise(self, id: int) -> AsyncPromise:
        """The promise of this number."""
        return AsyncPromise(self, await self._run(_query_ops.read_promise(self._core, id)))

    async def commands(self) -> list[KnownCommand]:
        """The commands that queries can use, with their versions and workers."""
        return await self._run(_query_ops.read_commands(self._core))
