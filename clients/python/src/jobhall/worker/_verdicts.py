"""What a job may raise to decide about itself, and the reports that the server gets about an attempt."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import traceback
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

from ..errors import JobhallError, QueryFailed
from ._processes import describe

EXPLANATION_BYTES = 16 * 1024
REASON_BYTES = 256
DELAY_SECONDS = 365 * 24 * 3_600
INLINE_RESULT_BYTES = 64 * 1024
RESULT_BYTES = 64 * 1024 * 1024

Report = dict[str, Any]
SUCCEEDED: Report = {"outcome": "succeeded"}


def delay(field: str, value: float | datetime.timedelta) -> float:
    """A delay in seconds, within the bounds of the server."""
    seconds = value.total_seconds() if isinstance(value, datetime.timedelta) else value
    if not isinstance(seconds, int | float):
        raise TypeError(f"{field} must be seconds or a timedelta, not {value!r}")
    if not 0 <= seconds <= DELAY_SECONDS:
        raise ValueError(f"{field} of {seconds} seconds is outside 0 to {DELAY_SECONDS} (365 days)")
    return float(seconds)


class Verdict(JobhallError):
    """The base of the exceptions by which a job decides what happens next."""


class Retry(Verdict):
    """The attempt failed and is repeated: after ``in_`` seconds, or immediately. It counts as an attempt."""

    def __init__(
        self, message: str = "the job asks for another attempt", *, in_: float | datetime.timedelta | None = None
    ) -> None:
        super().__init__(message)
        self.in_ = None if in_ is None else delay("in_", in_)


class NoRetry(Verdict):
    """The attempt failed and is not repeated, whatever the retry policy says."""


class Snooze(Verdict):
    """The job runs again after ``seconds``. The attempt does not count."""

    def __init__(self, seconds: float | datetime.timedelta, message: str = "snoozed") -> None:
        super().__init__(message)
        self.seconds = delay("seconds", seconds)


class Skip(Verdict):
    """There was nothing to do. A message is written to the log of the attempt."""


class Refusal(Verdict):
    """The attempt failed for this reason, and is not repeated."""

    def __init__(self, reason: str, explanation: str, *, outcome: str = "failed") -> None:
        super().__init__(explanation)
        self.reason = reason
        self.outcome = outcome


class StoredValue(dict[str, Any]):
    """The value of a step of a query, as it is reported: it is written into the report, whatever its size."""


class Cancelled(BaseException):
    """Raised inside of a sync job that was cancelled or timed out. It is no ``Exception``."""


class BadArguments(JobhallError):
    """The params do not fit the signature of the function."""


def span(seconds: float) -> str:
    """A duration as the server reads it."""
    return f"{max(0, round(seconds * 1000))}ms"


def failure(reason: str, explanation: str, data: Any = None) -> dict[str, Any]:
    error: dict[str, Any] = {
        "reason": cut(reason, REASON_BYTES),
        "explanation": cut(explanation, EXPLANATION_BYTES),
    }
    if data is not None:
        error["data"] = data
    return error


def cut(text: str, limit: int) -> str:
    """The text within this many bytes, as the server takes it: without NUL, and without its middle if it is too long,
    since both ends of a traceback matter."""
    raw = text.replace("\0", "\\0").encode("utf-8", "replace")
    if len(raw) <= limit:
        return raw.decode()
    mark = b"\n...\n"
    head = (limit - len(mark)) // 3
    tail = limit - len(mark) - head
    return raw[:head].decode("utf-8", "ignore") + mark.decode() + raw[-tail:].decode("utf-8", "ignore")


def failed(reason: str, explanation: str, *, retry: Any = None, data: Any = None) -> Report:
    report: Report = {"outcome": "failed", "error": failure(reason, explanation, data)}
    if retry is not None:
        report["retry"] = retry
    return report


def crashed(reason: str, explanation: str) -> Report:
    return {"outcome": "crashed", "error": failure(reason, explanation)}


def cancelled(explanation: str | None = None) -> Report:
    report: Report = {"outcome": "cancelled"}
    if explanation:
        report["error"] = failure("still_running", explanation)
    return report


def of_status(status: int) -> Report:
    """The report for a process that ended with this status: negative for a signal, else its code."""
    reason = f"signal_{-status}" if status < 0 else f"exit_{status}"
    return crashed(reason, f"the process of the job {describe(status)}")


def of_exception(error: BaseException) -> Report:
    """The report for an exception that left the function of a job."""
    if isinstance(error, Skip):
        return {"outcome": "skipped"}
    if isinstance(error, Snooze):
        return failed("snoozed", str(error), retry={"snooze": span(error.seconds)})
    if isinstance(error, BadArguments):
        return failed("bad_arguments", str(error), retry="never")
    if isinstance(error, Refusal):
        return {**failed(error.reason, str(error), retry="never"), "outcome": error.outcome}
    if isinstance(error, SystemExit):
        text = f"the job called sys.exit({error.code!r})\n"
        return failed("system_exit", text + trace(error))
    retry: Any = None
    if isinstance(error, NoRetry):
        retry = "never"
    if isinstance(error, Retry):
        retry = "now" if error.in_ is None else {"in": span(error.in_)}
    data: dict[str, Any] = {"exceptions": chain(error)}
    if isinstance(error, QueryFailed) and error.job is not None:
        # Who asks for this one's value learns of the job that failed first.
        data["asked"] = error.job
    return failed(type(error).__name__, trace(error), retry=retry, data=data)


def final_message(error: BaseException | None) -> str:
    """What an exception adds to the log of its attempt."""
    return f"skipped: {error}\n" if isinstance(error, Skip) and str(error) else ""


def trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def chain(error: BaseException) -> list[dict[str, str]]:
    """The exception and its causes, the outermost first."""
    found: list[dict[str, str]] = []
    now: BaseException | None = error
    while now is not None and len(found) < 16:
        found.append({"type": type(now).__qualname__, "message": cut(text_of(now), 1024)})
        now = now.__cause__ or (None if now.__suppress_context__ else now.__context__)
    return found


def text_of(error: BaseException) -> str:
    """The message of an exception, whose own code may fail."""
    try:
        return str(error)
    except Exception:
        return f"<{type(error).__qualname__} without a message: its __str__ has failed>"


def plain(value: Any) -> Any:
    """Values that JSON does not have, as arguments are written in params."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"a value of type {type(value).__qualname__} cannot be written as JSON")


_encoder = json.JSONEncoder(default=plain, allow_nan=False, separators=(",", ":"), check_circular=True)


def encode(value: Any) -> str:
    return _encoder.encode(value)


def encode_result(value: Any) -> str | Report:
    """The result as JSON, or the report that it cannot be one."""
    try:
        text = encode(value)
    except Exception as error:
        # Also of the value's own code.
        kind = type(value).__qualname__
        return failed("bad_result", f"the result (a {kind}) cannot be written as JSON: {text_of(error)}", retry="never")
    if len(text) > RESULT_BYTES:
        size = f"the result has {len(text)} bytes, the limit is {RESULT_BYTES}; store it with ctx.artifact"
        return failed("result_too_large", size, retry="never")
    return text


def is_inline(value: Any, encoded: str) -> bool:
    """Whether a result is written into the report."""
    return len(encoded) <= INLINE_RESULT_BYTES or isinstance(value, StoredValue)


def store_result(put: Callable[[bytes], Any], encoded: str) -> tuple[Report, None]:
    """The report of a result that is too large for the report: it is the artifact ``result``."""
    data = encoded.encode()
    try:
        put(data)
    except Exception as error:
        return crashed("result_not_stored", f"the result of {len(data)} bytes could not be stored: {error}"), None
    return SUCCEEDED, None
