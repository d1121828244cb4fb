"""Artifacts and inputs of an attempt, over HTTP with the token of the attempt."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote

import httpx2

from .._core import NODE_TRIES, Backoff
from ..errors import TRANSIENT, ApiError, ConnectionFailed, UnexpectedAnswer
from ._session import ssl_context

if TYPE_CHECKING:
    from .._connection import Connection

_SECONDS = 60.0
_PATH = "/api/v1/attempts/"
_DECLARED = "/api/v1/commands "


def _is_foreign(record: logging.LogRecord) -> bool:
    """No log has lines about the requests of the worker itself."""
    text = record.getMessage()
    return _PATH not in text and _DECLARED not in text


logging.getLogger("httpx2").addFilter(_is_foreign)
Data = bytes | str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Access:
    """How an attempt reaches the server."""

    connection: Connection
    attempt: str
    token: str
    """The token of the attempt; it is valid as long as the lease."""

    def request(self, method: str, path: str, **options: Any) -> Any:
        """The JSON of the answer. A server that restarts, and nodes that choose a leader, are waited for."""
        backoff = Backoff(NODE_TRIES)
        while True:
            try:
                return self.once(method, path, **options)
            except (ConnectionFailed, ApiError) as error:
                pause = backoff.pause()
                if pause is None or (isinstance(error, ApiError) and error.code not in TRANSIENT):
                    raise
            time.sleep(pause)

    def once(self, method: str, path: str, **options: Any) -> Any:
        """The JSON of the answer from the first address that answers."""
        last: Exception = ConnectionFailed("no address")
        for address in self.connection.addresses:
            url = f"{address}{_PATH}{self.attempt}/{path}"
            # Without TLS there is no context; the default one would cost more than the request.
            context = ssl_context(self.connection, address) or False
            headers = {"Authorization": f"Bearer {self.token}", **options.get("headers", {})}
            rest = {name: value for name, value in options.items() if name not in ("headers", "content")}
            try:
                with httpx2.Client(verify=context, timeout=_SECONDS, trust_env=False) as http:
                    content = options.get("content")
                    if isinstance(content, os.PathLike):
                        with Path(content).open("rb") as file:
                            answer = http.request(method, url, headers=headers, content=file, **rest)
                    else:
                        answer = http.request(method, url, headers=headers, content=content, **rest)
            except httpx2.TransportError as error:
                last = ConnectionFailed(f"{address}: {error}")
                continue
            if answer.status_code < 400:
                try:
                    return answer.json()
                except ValueError as error:
                    raise UnexpectedAnswer(f"{path} is not JSON: {error}") from None
            last = _refusal(answer)
            if not isinstance(last, ApiError) or last.code not in TRANSIENT:
                break
        raise last

    def download(self, path: str, file: BinaryIO) -> str:
        """Writes an answer into a file as it arrives, and returns its media type."""
        last: Exception = ConnectionFailed("no address")
        for address in self.connection.addresses:
            url = f"{address}{_PATH}{self.attempt}/{path}"
            context = ssl_context(self.connection, address) or False
            headers = {"Authorization": f"Bearer {self.token}", "Accept-Encoding": "identity"}
            try:
                with (
                    httpx2.Client(verify=context, timeout=_SECONDS, trust_env=False) as http,
                    http.stream("GET", url, headers=headers) as answer,
                ):
                    if answer.status_code >= 400:
                        answer.read()
                        last = _refusal(answer)
                        if not isinstance(last, ApiError) or not last.is_transient:
                            break
                        continue
                    for piece in answer.iter_bytes():
                        file.write(piece)
                    return str(answer.headers.get("content-type", ""))
            except httpx2.TransportError as error:
                last = ConnectionFailed(f"{address}: {error}")
                file.seek(0)
                file.truncate()
        raise last


def _refusal(answer: httpx2.Response) -> Exception:
    try:
        return ApiError.from_problem(answer.status_code, answer.json())
    except ValueError:
        return UnexpectedAnswer(f"status {answer.status_code}")


def put_artifact(access: Access, name: str, data: Data, media_type: str | None) -> dict[str, Any]:
    """Stores bytes, or the content of a file, as an artifact of the attempt."""
    if name in ("", ".", ".."):
        raise ValueError(f"{name!r} is no name of an artifact")
    content: Any = data if isinstance(data, bytes) else os.fspath(data)
    headers = {"Content-Type": media_type or "application/octet-stream"}
    if isinstance(content, str):
        headers["Content-Length"] = str(Path(content).stat().st_size)
        content = _Path(content)
    stored: dict[str, Any] = access.request(
        "PUT", "artifacts/" + quote(name, safe=""), content=content, headers=headers
    )
    return stored


class _Path(os.PathLike[str]):
    def __init__(self, path: str) -> None:
        self._path = path

    def __fspath__(self) -> str:
        return self._path


def _whole(access: Access, item: dict[str, Any]) -> dict[str, Any]:
    """The input with its result, which a list leaves out if it is large."""
    if not item.get("left_out"):
        return item
    return {**item, "left_out": False, "result": access.request("GET", f"inputs/{item['n']}")}


def read_inputs(access: Access) -> list[dict[str, Any]]:
    """The jobs that the job comes after, with their results, in the order of ``after``."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        params = {"cursor": cursor} if cursor else {}
        page = access.request("GET", "inputs", params=params)
        found += [_whole(access, item) for item in page["items"]]
        cursor = page.get("next_cursor")
        if not cursor:
            return found
