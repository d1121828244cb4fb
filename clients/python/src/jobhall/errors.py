"""The exceptions of this package. Every one of them is a :class:`JobhallError`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from .models import Job, Submitted

__all__ = [
    "ApiError",
    "BadRequest",
    "ConfigurationError",
    "Conflict",
    "ConnectionFailed",
    "DependencyUnmet",
    "Forbidden",
    "FormatNotOffered",
    "GroupClosed",
    "GroupFailed",
    "IdempotencyKeyReused",
    "Internal",
    "InvalidRequest",
    "JobCancelled",
    "JobCrashed",
    "JobFailed",
    "JobNotSuccessful",
    "JobhallError",
    "KeyHeld",
    "LeaseLost",
    "MethodNotAllowed",
    "Misdirected",
    "NoLeader",
    "NotComputed",
    "NotFound",
    "NotSerialisable",
    "OutcomeUnknown",
    "ParamsDiffer",
    "PartlySubmitted",
    "PreconditionFailed",
    "QueryCycle",
    "QueryError",
    "QueryFailed",
    "QuerySyntax",
    "QueryTooLarge",
    "QueryTooLong",
    "RangeNotSatisfiable",
    "RecipeCycle",
    "StepCancelled",
    "StepCrashed",
    "StepFailed",
    "StorageFull",
    "Timeout",
    "TooLarge",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "UnexpectedAnswer",
    "UnknownCommand",
    "UnknownSource",
    "VersionChanged",
    "WaitTimeout",
    "WrongArgument",
    "WrongPlace",
]


class JobhallError(Exception):
    """The base of all exceptions of this package."""


class ConfigurationError(JobhallError):
    """A setting is missing, wrong or ambiguous; no request was sent."""

    def __init__(self, what: str, *, why: str | None = None, fix: str | None = None) -> None:
        self.what, self.why, self.fix = what, why, fix
        super().__init__("\n".join(_lines(what, why, fix)))


class ConnectionFailed(JobhallError):
    """No server answered at any of the addresses, or the answer was lost."""


class UnexpectedAnswer(JobhallError):
    """The answer did not come from a Jobhall server, or from one of another version."""


class ApiError(JobhallError):
    """The server refused the request. Each code has a subclass; an unknown code has the one nearest to its status."""

    default_code: ClassVar[str] = ""

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        title: str = "",
        fix: str | None = None,
        status: int = 0,
        problem: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.code = code or self.default_code
        self.title = title
        self.detail = detail
        self.fix = fix
        self.status = status
        self.problem: Mapping[str, Any] = problem or {}
        self.retry_after = retry_after
        """Seconds that the server asks to wait before the next request, if it says so."""
        super().__init__("\n".join(_lines(detail, None, fix)))

    @property
    def request_id(self) -> str:
        """The id of the request, as in the server's log."""
        return str(self.problem.get("request_id", ""))

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed soon, or at another node."""
        return self.code in TRANSIENT

    @staticmethod
    def from_problem(status: int, problem: Mapping[str, Any], *, retry_after: float | None = None) -> ApiError:
        """The exception for a problem of the API (RFC 9457)."""
        code = str(problem.get("code", ""))
        kind = BY_CODE.get(code) or BY_CODE[_code_of_status(status)]
        fix = problem.get("fix")
        return kind(
            str(problem.get("detail", "")),
            code=code,
            title=str(problem.get("title", "")),
            fix=None if fix is None else str(fix),
            status=status,
            problem=dict(problem),
            retry_after=retry_after,
        )


def _lines(what: str, why: str | None, fix: str | None) -> list[str]:
    lines = [what]
    if why:
        lines.append(f"why: {why}")
    if fix:
        lines.append(f"fix: {fix}")
    return lines


class BadRequest(ApiError):
    """The request is not JSON, or one of its fields is invalid."""

    default_code = "bad_request"


class Unauthorized(ApiError):
    """The token is missing or unknown."""

    default_code = "unauthorized"


class Forbidden(ApiError):
    """The token does not permit this request."""

    default_code = "forbidden"


class NotFound(ApiError):
    """The resource does not exist."""

    default_code = "not_found"


class MethodNotAllowed(ApiError):
    """The route does not support the method."""

    default_code = "method_not_allowed"


class KeyHeld(ApiError):
    """A live job has the same type and key (``on_duplicate="reject"``)."""

    default_code = "key_held"


class IdempotencyKeyReused(ApiError):
    """The idempotency key was used for another request."""

    default_code = "idempotency_key_reused"


class LeaseLost(ApiError):
    """The lease is not the current one."""

    default_code = "lease_lost"


class DependencyUnmet(ApiError):
    """A dependency does not exist, or has ended without success."""

    default_code = "dependency_unmet"


class GroupClosed(ApiError):
    """The group accepts no further jobs."""

    default_code = "group_closed"


class Conflict(ApiError):
    """The state of the job does not permit the request."""

    default_code = "conflict"


class PreconditionFailed(ApiError):
    """The resource has another version than the request expects."""

    default_code = "precondition_failed"


class QueryError(ApiError):
    """What is wrong with a query, or with one of its steps, and where."""

    @property
    def query(self) -> str:
        """The text that the place refers to."""
        return str(self._place.get("query", ""))

    @property
    def column(self) -> int | None:
        """The column of the first character of the wrong part, from 1."""
        return self._place.get("column")

    @property
    def marks(self) -> str | None:
        """A line that marks the wrong part below the text."""
        return self._place.get("marks")

    @property
    def job(self) -> int | None:
        """The job whose step failed; it has the log."""
        return self._place.get("job")

    @property
    def plan(self) -> list[dict[str, Any]]:
        """What would have to run."""
        return list(self._place.get("plan") or ())

    @property
    def _place(self) -> Mapping[str, Any]:
        return self.problem.get("query") or {}

    def __str__(self) -> str:
        text = super().__str__()
        if self.marks and "\n" not in self.query:
            text += f"\n    {self.query}\n    {self.marks}"
        return text


class QueryFailed(QueryError):
    """A step of the query has ended without a value. The code decides the subclass."""


class NotComputed(QueryError):
    """The value is not cached, and the token does not permit computing it."""

    default_code = "not_computed"


class StepFailed(QueryFailed):
    """A step of the query failed."""

    default_code = "step_failed"


class StepCrashed(QueryFailed):
    """A step of the query crashed."""

    default_code = "step_crashed"


class StepCancelled(QueryFailed):
    """A step of the query was cancelled."""

    default_code = "step_cancelled"


class VersionChanged(QueryFailed):
    """A step of the query did not run because a file of its command has changed; ask again."""

    default_code = "version_changed"


class QueryCycle(QueryError):
    """A command asks for a query that waits for it."""

    default_code = "query_cycle"


class QuerySyntax(QueryError):
    """The text of the query cannot be read."""

    default_code = "query_syntax"


class QueryTooLong(QueryError):
    """The text of the query is too long."""

    default_code = "query_too_long"


class QueryTooLarge(QueryError):
    """The query has too many steps, or its links are nested too deeply."""

    default_code = "query_too_large"


class UnknownCommand(QueryError):
    """The query has a command that no worker has declared."""

    default_code = "unknown_command"


class WrongArgument(QueryError):
    """An argument of the query is wrong, missing or one too many."""

    default_code = "wrong_argument"


class WrongPlace(QueryError):
    """A step of the query cannot run on the worker that the query designates."""

    default_code = "wrong_place"


class UnknownSource(QueryError):
    """The query begins with data that is not stored."""

    default_code = "unknown_source"


class RecipeCycle(QueryError):
    """The recipes that the query needs also need each other."""

    default_code = "recipe_cycle"


class FormatNotOffered(QueryError):
    """The value cannot be made in the format of the file name."""

    default_code = "format_not_offered"


class NotSerialisable(QueryError):
    """The value of a step cannot leave its worker."""

    default_code = "not_serialisable"


class TooLarge(ApiError):
    """The body is larger than allowed."""

    default_code = "too_large"


class Timeout(ApiError):
    """The body took too long to arrive."""

    default_code = "timeout"


class RangeNotSatisfiable(ApiError):
    """The range is outside the log."""

    default_code = "range_not_satisfiable"


class Misdirected(ApiError):
    """The request was meant for another host."""

    default_code = "misdirected"


class TooManyRequests(ApiError):
    """Too many invalid tokens came from the same address."""

    default_code = "too_many_requests"


class Unavailable(ApiError):
    """The server is overloaded or stopping."""

    default_code = "unavailable"


class NoLeader(ApiError):
    """No node leads, or the leader cannot be reached. The request was not executed."""

    default_code = "no_leader"


class OutcomeUnknown(ApiError):
    """The leader was lost before it responded. It is unknown whether the request was executed."""

    default_code = "outcome_unknown"


class StorageFull(ApiError):
    """The disk of the server is full."""

    default_code = "storage_full"


class Internal(ApiError):
    """An internal error of the server."""

    default_code = "internal"


def _kinds(of: type[ApiError]) -> Iterator[type[ApiError]]:
    for kind in of.__subclasses__():
        yield kind
        yield from _kinds(kind)


BY_CODE: dict[str, type[ApiError]] = {kind.default_code: kind for kind in _kinds(ApiError) if kind.default_code}
"""The exception of each code of the API. A test compares the codes with ``openapi.json``."""

TRANSIENT = frozenset({"unavailable", "no_leader", "outcome_unknown"})
"""The codes after which the same request may succeed soon."""

_BY_STATUS = {
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    410: "not_found",
    412: "precondition_failed",
    413: "too_large",
    428: "conflict",
    429: "too_many_requests",
    503: "unavailable",
    507: "storage_full",
}


def _code_of_status(status: int) -> str:
    return _BY_STATUS.get(status) or ("internal" if status >= 500 else "bad_request")


class InvalidRequest(JobhallError, ValueError):
    """The arguments cannot be sent: a value that is not JSON, a cycle, or more than fits into one request."""


class ParamsDiffer(JobhallError):
    """A live job has the same type and key, but other params. Name ``on_duplicate`` to say what you want."""

    def __init__(self, id: int, type: str, key: str | None) -> None:
        self.id, self.type, self.key = id, type, key
        super().__init__(
            f"job {id} of type {type} has the key {key!r} and other params\n"
            'fix: name on_duplicate="join", "reject", "supersede" or "run_again"'
        )


class PartlySubmitted(JobhallError):
    """A bulk submit failed after some of its requests had succeeded; ``__cause__`` says why."""

    def __init__(self, submitted: list[Submitted]) -> None:
        self.submitted = submitted
        super().__init__(f"only the first {len(submitted)} jobs were submitted")


class WaitTimeout(JobhallError, TimeoutError):
    """What was waited for has not ended within the given time."""


class JobNotSuccessful(JobhallError):
    """The job has ended without a result. The state decides the subclass."""

    def __init__(self, job: Job) -> None:
        self.job = job
        ended = "been cancelled" if job.state == "cancelled" else job.state
        text = f"job {job.id} ({job.type}) has {ended}"
        if job.error is not None:
            text += f": {job.error.reason}"
            if job.error.explanation:
                text += f": {job.error.explanation}"
        super().__init__(text)


class JobFailed(JobNotSuccessful):
    """The job has failed."""


class JobCrashed(JobNotSuccessful):
    """The process of the job ended without a report, or its worker was lost too often."""


class JobCancelled(JobNotSuccessful):
    """The job was cancelled."""


class GroupFailed(JobhallError):
    """A group has ended, and not all of its jobs succeeded."""

    def __init__(self, id: int, state: str) -> None:
        self.id, self.state = id, state
        super().__init__(f"group {id} has ended as {state}")
