"""The part of the client that does no IO: requests, retries, failover, answers.

An operation is a generator that yields effects (:class:`Send`, :class:`Open`, :class:`Read`, :class:`Close`,
:class:`Pause`) and gets their results. The synchronous and the asynchronous client perform the same operations with
different transports, so that each rule is written once.
"""

from __future__ import annotations

import functools
import json
import os
import random
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast
from urllib.parse import quote, urlencode

from ._connection import DEFAULT_SERVER
from .errors import TRANSIENT, ApiError, ConnectionFailed, InvalidRequest, JobhallError, UnexpectedAnswer

T = TypeVar("T")
API = "/api/v1"
ANSWER_SECONDS = 30.0
TRIES = 4
NODE_TRIES = 12
"""Tries while the nodes of a hall choose a leader: about half a minute."""
_DIGITS = 640
"""Integers of this length can be read whatever the limit of the interpreter is."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


@dataclass(frozen=True, slots=True)
class Request:
    """A request without the address of the server."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    timeout: float = ANSWER_SECONDS
    """Maximum time without any data from the server."""
    repeatable: bool = False
    """Whether a second execution has the effect and the answer of the first."""
    meanwhile: Callable[[], None] | None = None
    """Called when the body was sent, before the answer is read; again if the request is sent again."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Send:
    """Sends a request and reads the whole answer: :class:`Reply`."""

    address: str
    request: Request


@dataclass(frozen=True, slots=True)
class Open:
    """Sends a request and reads the head of the answer: :class:`Opened`."""

    address: str
    request: Request


@dataclass(frozen=True, slots=True)
class Opened:
    """An answer whose body is read in pieces."""

    status: int
    headers: Mapping[str, str]
    handle: Any


@dataclass(frozen=True, slots=True)
class Read:
    """Reads the next piece of a body; empty at the end."""

    handle: Any


@dataclass(frozen=True, slots=True)
class Close:
    """Ends an answer that was opened."""

    handle: Any


@dataclass(frozen=True, slots=True)
class Pause:
    """Waits before the next try."""

    seconds: float


Effect = Send | Open | Read | Close | Pause
Op = Generator[Effect, Any, T]


class Lost(Exception):
    """The transport failed. ``unsent`` says that the request certainly did not reach the server."""

    def __init__(self, why: str, *, unsent: bool = False, timed_out: bool = False) -> None:
        super().__init__(why)
        self.unsent, self.timed_out = unsent, timed_out


def _unreachable(address: str, lost: Lost) -> ConnectionFailed:
    # The address that is used if none is named and no server was found.
    fix = "; start one with `jobhall up`, or name another with JOBHALL_SERVER" if address == DEFAULT_SERVER else ""
    return ConnectionFailed(f"no server answers at {address}: {lost}{fix}")


class Backoff:
    """Pauses that grow and are random, so that many clients do not return at the same time."""

    def __init__(self, tries: int) -> None:
        self.tries, self.failures = tries, 0

    def pause(self, at_least: float | None = None) -> float | None:
        """The next pause in seconds, or none if no further try is left."""
        self.failures += 1
        if self.failures >= self.tries:
            return None
        most = min(_FIRST_PAUSE * 2 ** (self.failures - 1), _LONGEST_PAUSE)
        return max(random.uniform(most / 2, most), min(at_least or 0.0, _LONGEST_PAUSE))


class Core:
    """The addresses of a hall and the rules of a call."""

    def __init__(self, addresses: Sequence[str], token: str) -> None:
        self.addresses = tuple(addresses)
        self.base_headers = {"accept-encoding": "identity", "user-agent": "jobhall-python"}
        if token:
            self.base_headers["authorization"] = f"Bearer {token}"
        self._at = 0

    @property
    def address(self) -> str:
        """The address in use."""
        return self.addresses[self._at % len(self.addresses)]

    def leave(self, address: str) -> None:
        """Switches to the next address after a failure, unless another call has already done so."""
        if address == self.address:
            self._at = (self._at + 1) % len(self.addresses)

    def send(self, request: Request) -> Op[Reply]:
        """Makes a call. If a repetition is safe, it is repeated at another node or after a pause."""
        patience, between = Backoff(TRIES if request.repeatable else 1), Backoff(NODE_TRIES)
        others = len(self.addresses) - 1
        while True:
            address = self.address
            error: JobhallError
            try:
                reply = cast("Reply", (yield Send(address, request)))
                if reply.status < 400:
                    return reply
                error, unsent = refusal(reply.status, reply.headers, reply.body), False
            except Lost as lost:
                error, unsent = _unreachable(address, lost), lost.unsent
            code = error.code if isinstance(error, ApiError) else None
            if isinstance(error, UnexpectedAnswer) or (code is not None and code not in TRANSIENT):
                raise error
            self.leave(address)
            harmless = unsent or request.repeatable or code == "no_leader"
            if harmless and others > 0:
                others -= 1
                continue
            after = error.retry_after if isinstance(error, ApiError) else None
            of_nodes = harmless and code in ("no_leader", "outcome_unknown")
            pause = (between if of_nodes else patience).pause(after)
            if pause is None:
                raise error
            yield Pause(pause)
            others = len(self.addresses) - 1

    def open(self, request: Request) -> Op[Opened]:
        """Opens a stream at the address in use, once. Raises :class:`Lost` if that may help at another time."""
        address = self.address
        try:
            opened = cast("Opened", (yield Open(address, request)))
        except Lost:
            self.leave(address)
            raise
        if opened.status < 400:
            return opened
        try:
            body = yield from read_all(opened)
        finally:
            yield Close(opened.handle)
        error = refusal(opened.status, opened.headers, body)
        if isinstance(error, ApiError) and error.code in TRANSIENT:
            self.leave(address)
            raise Lost(str(error)) from error
        raise error

    def json(self, request: Request) -> Op[Any]:
        """Makes a call and reads the answer as JSON; none if it is empty."""
        reply = yield from self.send(request)
        return parsed(reply.body) if reply.body else None


def read_json(text: str | bytes) -> Any:
    """A value from the server. Python refuses to read integers of thousands of digits: they stay texts, so that a job
    that has one in its params stops neither a worker nor a list."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:
        return json.loads(text, parse_int=_digits)


def _digits(text: str) -> int | str:
    return int(text) if len(text) <= _DIGITS else text


def parsed(body: bytes) -> Any:
    """The value of a JSON answer."""
    try:
        return read_json(body)
    except ValueError as error:
        raise UnexpectedAnswer(f"the answer is not JSON: {error}") from None


def read_all(opened: Opened) -> Op[bytes]:
    """The rest of a body."""
    pieces = []
    while piece := cast("bytes", (yield Read(opened.handle))):
        pieces.append(piece)
    return b"".join(pieces)


def refusal(status: int, headers: Mapping[str, str], body: bytes) -> JobhallError:
    """The exception for an answer that is no success."""
    try:
        problem = json.loads(body)
    except ValueError:
        problem = None
    if not isinstance(problem, dict) or "detail" not in problem:
        text = " ".join(body[:200].decode("utf-8", "replace").split())
        return UnexpectedAnswer(f"the reply did not come from a Jobhall server: status {status} {text}".strip())
    after = headers.get("retry-after", "")
    return ApiError.from_problem(status, problem, retry_after=float(after) if after.isdigit() else None)


@functools.lru_cache(maxsize=256)
def _escaped(segment: str) -> str:
    return quote(segment, safe="")


def path(*segments: str | int, query: Mapping[str, Any] | None = None) -> str:
    """A route below the API's prefix; segments are escaped and missing values of the query left out."""
    text = API + "".join("/" + _escaped(str(segment)) for segment in segments)
    if not query:
        return text
    pairs = [(name, as_text(value)) for name, value in query.items() if value is not None]
    return f"{text}?{urlencode(pairs)}" if pairs else text


def as_text(value: Any) -> str:
    """A value of a query."""
    return str(value).lower() if isinstance(value, bool) else str(value)


# One encoder for all: `json.dumps` makes a new one for each call that names its options.
_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def dumps(value: Any) -> bytes:
    """JSON as the server reads it: no NaN."""
    try:
        return _encode(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"cannot be sent as JSON: {error}") from None


def get(*segments: str | int, query: Mapping[str, Any] | None = None) -> Request:
    """A read."""
    return Request("GET", path(*segments, query=query), repeatable=True)


def change(
    method: str,
    *segments: str | int,
    body: Any = None,
    repeatable: bool = False,
    encoded: bytes | None = None,
) -> Request:
    """A change; one that may be repeated is idempotent by itself."""
    content = encoded if encoded is not None or body is None else dumps(body)
    headers = {} if content is None else {"content-type": "application/json"}
    return Request(method, path(*segments), headers, content, repeatable=repeatable)


def with_key(request: Request, key: str | None) -> Request:
    """The same request with an idempotency key: the server executes it once, however often it is sent."""
    headers = {**request.headers, "idempotency-key": key or os.urandom(16).hex()}
    # Not `dataclasses.replace`, which takes as long as the rest.
    return Request(request.method, request.path, headers, request.body, request.timeout, True, request.meanwhile)


class Deadline:
    """A moment by the monotonic clock; none never passes."""

    def __init__(self, timeout: float | None) -> None:
        self.at = None if timeout is None else time.monotonic() + max(timeout, 0.0)

    def left(self) -> float:
        return float("inf") if self.at is None else self.at - time.monotonic()
