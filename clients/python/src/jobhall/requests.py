"""What the client sends, as the keys of JSON objects.

Written by scripts/generate_models.py from crates/protocol/openapi.json; a test fails if it is stale.
"""

from __future__ import annotations

from typing import Any, Required, TypedDict


class Cancel(TypedDict, total=False):
    """The reason of a cancel; all fields are optional."""

    error: GivenFailure | None
    """The error of the job."""


class CancelGroup(TypedDict, total=False):
    """The reason of a group's cancel; all fields are optional."""

    error: GivenFailure | None
    """The error of the jobs."""

    fails: bool
    """Whether the group is stopped as failed: it ends as ``failed`` and not as ``cancelled``."""


class CreateGroup(TypedDict, total=False):
    """A group to create."""

    closed: bool
    """Whether the group accepts no further jobs. Only a closed group can end."""

    jobs: list[SubmitJob]
    """Jobs to create with the group, all or nothing."""

    name: str | None
    """Display name."""

    owner: str | None
    """Owner."""

    tags: list[str]
    """Tags for filtering."""


class EditJob(TypedDict, total=False):
    """Changes of a job; missing fields are unchanged. Type, key and queue never change."""

    avoid: bool | None
    """Whether retries prefer a worker that has not had the job before."""

    needs: str | None
    """Requirements on the worker."""

    owner: str | None
    """Owner; null removes the owner."""

    params: Any
    """Input for the worker."""

    priority: int | None
    """Priority; lower values start first."""

    retry: Retry | None
    """Retry policy; missing fields are unchanged."""

    run_at: str | None
    """Earliest start time."""

    tags: list[str] | None
    """Tags for filtering."""

    throttle_factor: int | None
    """Weight against limits; 0 exempts the job from them."""

    timeouts: EditTimeouts | None
    """Time limits of an attempt."""

    uses: str | None
    """Resources of the worker that the job uses while it runs, such as ``gpu=1``."""

    windows: str | None
    """Daily windows in which the job may start; an empty text permits any time."""


class EditTimeouts(TypedDict, total=False):
    """Time limits of an attempt; missing fields have the values of the type."""

    silence_ms: int | None
    """Without output or progress."""

    total_ms: int | None
    """From acceptance to the end."""


class GivenFailure(TypedDict, total=False):
    """A failure in a request; unknown fields are refused."""

    data: Any
    """Additional data for programs."""

    explanation: str
    """A text for people."""

    reason: Required[str]
    """A short word or phrase."""


class Limit(TypedDict, total=False):
    """A limit on the concurrency or the rate of a queue or type."""

    by: str | None
    """Partitions the limit: one bucket for each value of this expression, such as ``owner``,
    ``key.before("/")`` or ``params.customer.id``; if missing, one bucket for all jobs. Jobs without a
    value share one bucket."""

    concurrency: int | None
    """Maximum total weight (``throttle_factor``) of concurrently leased jobs."""

    rate: Rate | None
    """Maximum rate at which weights of jobs may be claimed."""


class Rate(TypedDict, total=False):
    """A rate: tokens per time."""

    burst: int | None
    """Maximum number of saved tokens; ``count`` if missing."""

    count: Required[int]
    """Number of tokens added in ``per_ms``."""

    per_ms: Required[int]
    """The time in which they are added, evenly, in milliseconds."""


class Retry(TypedDict, total=False):
    """Retry policy; missing fields have the values of the type."""

    backoff: str | None
    """Growth of the delay: ``constant``, ``linear`` or ``exponential``."""

    delay: str | None
    """First delay."""

    max_attempts: int | None
    """Maximum number of attempts."""

    max_delay: str | None
    """Maximum delay."""

    on: list[str] | None
    """Outcomes that are retried."""


class SetQueue(TypedDict, total=False):
    """Changes the settings of a queue; missing fields are unchanged."""

    keep_count: int | None
    """Maximum number of completed jobs of each type to keep, unless the type has such a rule; null: the
    server's rule counts."""

    keep_ms: int | None
    """Completed jobs older than this are removed, unless their type has such a rule; null: the server's
    rule counts."""

    limits: list[Limit] | None
    """Limits on concurrency and rate; an empty list removes all limits."""

    paused: bool | None
    """Whether the queue is paused: its jobs are not assigned; running jobs continue."""


class SetSchedule(TypedDict, total=False):
    """Creates or changes a schedule; missing fields are unchanged. A new schedule requires ``cron`` or
    ``every``, and ``job``."""

    anchor: str | None
    """A tick from which intervals are counted; 1970 if missing."""

    catch_up: str | None
    """Handling of missed ticks; ``one`` if missing."""

    cron: str | None
    """Cron expression with five fields, or a name such as ``@daily``."""

    every: str | None
    """Interval between ticks, instead of a cron expression."""

    jitter: str | None
    """Maximum random delay of a job after its tick; none if missing."""

    job: SubmitJob | None
    """The job that each tick submits, as in a submit request."""

    overlap: str | None
    """Handling of a tick while the previous job is not completed; ``skip`` if missing."""

    paused: bool | None
    """Whether the schedule is paused: ticks submit no jobs."""

    zone: str | None
    """Time zone of the cron expression, such as ``Europe/Berlin``; ``UTC`` if missing."""


class SetTimeouts(TypedDict, total=False):
    """Changes the default time limits of a type; missing fields are unchanged."""

    silence: str | None
    """Without output or progress; null removes the limit."""

    total: str | None
    """From acceptance to the end; null resets to one day."""


class SetType(TypedDict, total=False):
    """Changes the settings of a type; missing fields are unchanged."""

    expected_ms: int | None
    """Expected duration of an attempt; null if unknown."""

    external: bool | None
    """Whether the type has external work."""

    keep_count: int | None
    """Maximum number of completed jobs to keep; null: the rule of the queue or the server counts. The
    largest value keeps all."""

    keep_ms: int | None
    """Completed jobs older than this are removed; null: the rule of the queue or the server counts. The
    largest value keeps them forever."""

    limits: list[Limit] | None
    """Limits on concurrency and rate; an empty list removes all limits."""

    paused: bool | None
    """Whether the type is paused: its jobs are not assigned; running jobs continue."""

    retry: Retry | None
    """Retry policy."""

    reuse_window_ms: int | None
    """Maximum age of a success that may be reused, in milliseconds."""

    timeouts: SetTimeouts | None
    """Default time limits of attempts."""


class SubmitJob(TypedDict, total=False):
    """A job to submit."""

    after: list[int | str]
    """Jobs that must end before this one starts."""

    after_any: bool
    """Whether the jobs in ``after`` may end with any outcome; otherwise, if one of them fails or is
    cancelled, this job ends the same way."""

    at_most_once: bool
    """Whether the job is never started a second time: ``max_attempts`` is 1, a retry or snooze that its
    worker asks for is not granted, and if its worker is lost after the accept, it ends ``crashed`` with
    the reason ``at_most_once``."""

    attached: bool
    """Whether the job belongs to its group without being counted."""

    avoid: bool
    """Whether retries prefer a matching worker that has not had the job before."""

    copy_of: int | None
    """The job of the same group that this one is a copy of: both are one member, and the first success
    decides."""

    group: int | None
    """Group of the job."""

    key: str | None
    """Key of the job within its type."""

    needs: str | None
    """Requirements on the worker."""

    on_duplicate: str
    """Handling of a live job with the same type and key."""

    owner: str | None
    """Owner."""

    params: Any
    """Input for the worker; ``{}`` if missing."""

    priority: int | None
    """Priority; lower values start first; 100 if missing."""

    queue: str | None
    """Queue name; ``default`` if missing."""

    retry: Retry | None
    """Retry policy."""

    reuse: dict[str, Any] | None
    """Whether a recent success may be returned instead."""

    run_at: str | None
    """Earliest start time; now if missing."""

    tags: list[str]
    """Tags for filtering."""

    throttle_factor: int | None
    """Weight against limits; 1 if missing, 0 exempts the job from them."""

    timeouts: Timeouts | None
    """Time limits of an attempt."""

    type: Required[str]
    """Type of the job."""

    uses: str | None
    """Resources of the worker that the job uses while it runs, such as ``gpu=1, mem_gb=8``."""

    windows: str | None
    """Daily windows in which the job may start, such as ``22:00-06:00 Europe/Berlin``; any time if
    missing."""


class Timeouts(TypedDict, total=False):
    """Time limits of an attempt; missing fields have the values of the type."""

    silence: str | None
    """Without output or progress; unlimited by default."""

    total: str | None
    """From acceptance to the end, not counting waits for other jobs; one day by default."""
