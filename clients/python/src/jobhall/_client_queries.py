"""The synchronous client. Written by scripts/generate_sync.py from _aio_queries.py; a test fails if it is stale."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal, Self

from . import _query_ops
from ._client_settings import Settings
from ._frames import read_frame
from ._query_ops import PromiseData
from ._query_text import Query
from .models import KnownCommand


class Promise(PromiseData):
    """The value of a query, once it is there. What was computed for one promise is the same at every read."""

    def refresh(self) -> Self:
        """Reads the state again."""
        cache, created = self.meta.cache, self.meta.created
        self.meta = self._client._run(_query_ops.read_promise(self._client._core, self.id, cache, created))
        return self

    def value(self, timeout: float | None = None) -> bytes:
        """Waits for the value. Raises ``QueryFailed`` if a step failed, and ``WaitTimeout``."""
        found, self.meta = self._client._run(_query_ops.value(self._client._core, self.meta, timeout))
        return bytes(found)

    def text(self, timeout: float | None = None) -> str:
        """The value as text."""
        return (self.value(timeout)).decode()

    def json(self, timeout: float | None = None) -> Any:
        """The value, read as JSON."""
        return json.loads(self.value(timeout))

    def frame(self, kind: Literal["pandas", "polars"] = "pandas", *, timeout: float | None = None) -> Any:
        """The value as a frame of pandas or polars: from Parquet, CSV or JSON."""
        content = self.value(timeout)
        return read_frame(content, self.meta.media_type or "", kind)

    def path(self, to: str | os.PathLike[str], timeout: float | None = None) -> Path:
        """Writes the value to a path as it arrives, and returns the path. Nothing is written unless all of it is."""
        self.meta = self._client._run(_query_ops.save(self._client._core, self.meta, to, timeout))
        return Path(to)


class Queries(Settings):
    """The part of the client that asks queries."""

    def query(self, query: Query) -> Promise:
        """Asks for the value of a query and returns its promise.

        The query is the text of a URL, or steps: ``["numbers", ("between", "2026-01-01", "2026-02-01")]``. If the value
        is stored, nothing is computed. Raises ``QueryError`` if the query is wrong.
        """
        return Promise(self, self._run(_query_ops.ask(self._core, query)))

    def promise(self, id: int) -> Promise:
        """The promise of this number."""
        return Promise(self, self._run(_query_ops.read_promise(self._core, id)))

    def commands(self) -> list[KnownCommand]:
        """The commands that queries can use, with their versions and workers."""
        return self._run(_query_ops.read_commands(self._core))
