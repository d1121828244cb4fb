"""Jobs that ran in this process, and what is known about them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from .. import _ops, models
from .._streams import TERMINAL

if TYPE_CHECKING:
    from ._clock import Wait
    from ._policy import Policy

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


def moment(seconds: float) -> datetime:
    """A virtual time; the first job is submitted at the beginning of the year 2000."""
    return _EPOCH + timedelta(seconds=seconds)


@dataclass(slots=True, eq=False)
class LocalAttempt:
    """One attempt."""

    job: LocalJob
    number: int
    """From 1."""
    at: float
    """When it began, in seconds of virtual time since the first job of the hall was submitted."""
    outcome: str | None = None
    """``succeeded``, ``skipped``, ``failed``, ``crashed``, ``timed_out`` or ``cancelled``; none while it runs."""
    error: models.Failure | None = None
    """What the server would store: reason, explanation (a traceback), data."""
    exception: BaseException | None = None
    """The exception that left the function."""
    output: list[tuple[str, bytes]] = field(default_factory=list)
    """What was printed and logged, each with its stream: ``stdout`` or ``stderr``."""
    truncated: bool = False
    """Whether output was dropped because there was too much."""
    progress: list[models.Indicator] = field(default_factory=list)
    """Every report of progress."""
    artifacts: dict[str, bytes] = field(default_factory=dict)

    def log(self, stream: str | None = None) -> list[str]:
        """The lines of the log, or of one stream."""
        pieces = [data for name, data in list(self.output) if stream in (None, name)]
        return b"".join(pieces).decode("utf-8", "replace").splitlines()

    def __repr__(self) -> str:
        return f"<attempt {self.number} of job {self.job.id} ({self.job.type}) at {self.at:g} s: {self.outcome}>"


@dataclass(slots=True, eq=False)
class LocalJob:
    """A job that ran in this process."""

    id: int
    wire: dict[str, Any]
    """The job as it was submitted."""
    policy: Policy
    at: float
    """When it was submitted, in seconds of virtual time."""
    parent: LocalJob | None = None
    state: str = "queued"
    error: models.Failure | None = None
    ended_at: float | None = None
    value: Any = None
    """The result as it is read from JSON."""
    attempts: list[LocalAttempt] = field(default_factory=list)
    sub_jobs: list[LocalJob] = field(default_factory=list)
    """The jobs that it submitted, in this order."""
    snoozed: int = 0
    calls: dict[str, LocalJob] = field(default_factory=dict)
    waits: list[Wait] = field(default_factory=list)

    @property
    def type(self) -> str:
        return str(self.wire["type"])

    @property
    def params(self) -> Any:
        return self.wire["params"]

    @property
    def queue(self) -> str:
        return str(self.wire.get("queue", "default"))

    @property
    def is_completed(self) -> bool:
        return self.state in TERMINAL

    @property
    def last(self) -> LocalAttempt:
        """The last attempt."""
        return self.attempts[-1]

    @property
    def outcomes(self) -> list[str | None]:
        """The outcomes of the attempts, the first one first."""
        return [attempt.outcome for attempt in self.attempts]

    @property
    def delays(self) -> list[float]:
        """How long the job waited between one attempt and the next, in seconds of virtual time."""
        starts = [attempt.at for attempt in self.attempts]
        return [round(after - before, 3) for before, after in itertools.pairwise(starts)]

    def log(self, stream: str | None = None) -> list[str]:
        """The lines of the log of the last attempt."""
        return self.last.log(stream) if self.attempts else []

    def result(self) -> Any:
        """The result. Raises ``JobFailed``, ``JobCrashed`` or ``JobCancelled``, as the client does."""
        if self.state != "succeeded":
            cause = self.last.exception if self.attempts else None
            raise _ops.not_successful(self.data) from cause
        return self.value

    @property
    def data(self) -> models.Job:
        """The job as a client would see it; times are virtual."""
        return models.Job(
            attempt=len(self.attempts),
            completed_at=None if self.ended_at is None else moment(self.ended_at),
            created_at=moment(self.at),
            error=self.error,
            id=self.id,
            key=self.wire.get("key"),
            max_attempts=self.policy.max_attempts,
            needs=self.wire.get("needs", ""),
            params=self.params,
            parent=None if self.parent is None else self.parent.id,
            priority=self.wire.get("priority", 100),
            queue=self.queue,
            result=self.value,
            run_at=moment(self.attempts[-1].at if self.attempts else self.at),
            snoozed=self.snoozed,
            state=self.state,
            tags=list(self.wire.get("tags", ())),
            type=self.type,
            updated_at=moment(self.at if self.ended_at is None else self.ended_at),
        )

    def __repr__(self) -> str:
        return f"<job {self.id} {self.type} {self.state}>"
