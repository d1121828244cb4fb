"""Queries that a running command asks for."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Generator
from typing import Any

from .._query_text import Query, query_text
from ..errors import ApiError, VersionChanged
from ._files import Access

_TRIES = 10
"""How often a query is asked for again because the files of its commands have changed."""
_KNOWN_BYTES = 1 << 20
"""Largest value that an attempt remembers."""

Step = tuple[str, Any]
"""What is next: ``ask`` for a text, ``wait`` for jobs, ``look`` at an answer, ``read`` a value, or ``run`` a node."""
Run = Callable[[dict[str, Any]], bytes]
"""Runs a node in this process."""


class Asking:
    """The queries of one attempt. The same text is asked for once, and has the same value each time."""

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}
        self._running: list[str] = []
        self.here: list[str] = []
        """The commands that can be run here, each as ``NAME@VERSION``."""
        self.run: Run | None = None

    def steps(self, query: Query) -> Generator[Step, Any, bytes]:
        """The value. A generator, so that a coroutine and a thread can do the same."""
        text = query_text(query)
        if text in self._known:
            return self._known[text]
        if text in self._running:
            way = " asks for ".join([*self._running, text])
            problem = {"code": "query_cycle", "detail": f"a query that waits for itself: {way}"}
            raise ApiError.from_problem(409, problem)
        answer = yield from self._answer(text)
        value: bytes
        if answer["answer"] == "inline":
            self._running.append(text)
            try:
                value = yield "run", answer["node"]
            finally:
                self._running.remove(text)
        else:
            value = yield "read", answer
        if len(value) <= _KNOWN_BYTES:
            self._known[text] = value
        return value

    def _answer(self, text: str) -> Generator[Step, Any, dict[str, Any]]:
        for left in reversed(range(_TRIES)):
            try:
                answer: dict[str, Any] = yield "ask", text
                while answer["answer"] == "pending":
                    yield "wait", [answer["job"]]
                    answer = yield "look", answer["job"]
                if answer["answer"] == "inline" and answer.get("jobs"):
                    yield "wait", answer["jobs"]
                break
            except VersionChanged:
                if not left:
                    raise
        return answer


def do(access: Access, asking: Asking, step: Step) -> Any:
    """Does a step, except for a wait."""
    kind, given = step
    if kind == "run":
        assert asking.run is not None
        return asking.run(given)
    if kind == "ask":
        return access.request("POST", "queries", json={"query": given, "here": asking.here})
    if kind == "look":
        return access.request("GET", f"queries/{given}")
    if (text := given.get("text")) is not None:
        return text.encode()
    if (encoded := given.get("base64")) is not None:
        return base64.b64decode(encoded)
    buffer = io.BytesIO()
    access.download(f"values/{given['identity']}", buffer)
    return buffer.getvalue()
