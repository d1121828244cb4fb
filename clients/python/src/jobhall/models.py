"""What the server answers.

Written by scripts/generate_models.py from crates/protocol/openapi.json; a test fails if it is stale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A named file of an attempt."""

    at: datetime
    """When it was stored."""

    attempt: str
    """The attempt that stored it, ``{job}-{claim}``."""

    digest: str
    """The BLAKE3 hash of its content, as 64 hex digits."""

    media_type: str
    """Media type of the content."""

    name: str
    """Name given by the user, such as ``report/index.html``."""

    size: int
    """Size in bytes."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> Artifact:
        """Reads Artifact from JSON; unknown fields are ignored."""
        return Artifact(
            at=datetime.fromisoformat(data["at"]),
            attempt=data["attempt"],
            digest=data["digest"],
            media_type=data["media_type"],
            name=data["name"],
            size=data["size"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactPage:
    """A page of a list."""

    items: list[Artifact]
    """Items of the page."""

    next_cursor: str | None = None
    """Cursor of the next page; none on the last page."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> ArtifactPage:
        """Reads ArtifactPage from JSON; unknown fields are ignored."""
        return ArtifactPage(
            items=[Artifact.from_wire(one) for one in data["items"]],
            next_cursor=data.get("next_cursor"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt of a job."""

    assigned_at: datetime
    """When it was assigned."""

    id: str
    """``{job}-{claim}``."""

    worker: str
    """The worker of the attempt."""

    accepted_at: datetime | None = None
    """When the worker accepted it."""

    ended_at: datetime | None = None
    """When it ended."""

    error: Failure | None = None
    """Error, if the attempt did not succeed."""

    outcome: str | None = None
    """Outcome; none while the attempt is active."""

    progress: list[Indicator] = field(default_factory=list)
    """Last progress of an attempt that has ended; that of an active one is in the job."""

    started_at: datetime | None = None
    """When its work began. None if that is not known: it has not begun, or its worker was lost."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> Attempt:
        """Reads Attempt from JSON; unknown fields are ignored."""
        return Attempt(
            assigned_at=datetime.fromisoformat(data["assigned_at"]),
            id=data["id"],
            worker=data["worker"],
            accepted_at=None if (found := data.get("accepted_at")) is None else datetime.fromisoformat(found),
            ended_at=None if (found := data.get("ended_at")) is None else datetime.fromisoformat(found),
            error=None if (found := data.get("error")) is None else Failure.from_wire(found),
            outcome=data.get("outcome"),
            progress=[Indicator.from_wire(one) for one in (data.get("progress") or ())],
            started_at=None if (found := data.get("started_at")) is None else datetime.fromisoformat(found),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptPage:
    """A page of a list."""

    items: list[Attempt]
    """Items of the page."""

    next_cursor: str | None = None
    """Cursor of the next page; none on the last page."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> AttemptPage:
        """Reads AttemptPage from JSON; unknown fields are ignored."""
        return AttemptPage(
            items=[Attempt.from_wire(one) for one in data["items"]],
            next_cursor=data.get("next_cursor"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """The table of a command: what it runs, its arguments, and how its values are kept."""

    args: list[CommandArgument] = field(default_factory=list)
    """The arguments, in the order of the query."""

    cacheable: bool = False
    """Whether later requests may use the value."""

    check: list[str] = field(default_factory=list)
    """A program whose output is part of the identity. Not in force yet."""

    check_every: str | None = None
    """Shortest time between two runs of ``check``; 10 s if missing."""

    dash_dash: bool = False
    """Whether "--" goes before appended arguments."""

    env: dict[str, str] = field(default_factory=dict)
    """Variables of the process."""

    expires: str | None = None
    """When a value is fresh no longer: a duration, or ``EOD`` with a time zone. Not in force yet."""

    files: list[str] = field(default_factory=list)
    """Files whose content is part of the version, besides those that ``run`` names."""

    formats: list[str] = field(default_factory=list)
    """Extensions of file names that choose a form of the value; the process finds it in
    ``JOBHALL_FORMAT``."""

    help: str | None = None
    """A sentence for people."""

    inline: bool = False
    """The value is cached on its worker only."""

    mainthread: bool = False
    """Run on the main worker, one at a time."""

    media_type: str | None = None
    """Media type of the values; ``application/octet-stream`` if missing."""

    needs: str | None = None
    """What a step needs of its worker."""

    retries: int | None = None
    """How often a failed step is repeated."""

    run: list[str] = field(default_factory=list)
    """Program and arguments. ``{NAME}`` is the argument of that name, as a whole word or after "=";
    arguments without a place are appended."""

    serialisable: bool = False
    """Whether the value can leave its worker."""

    soft_volatile: bool = False
    """Each evaluation computes the value; what follows is cached."""

    timeout: str | None = None
    """Time limit of a step."""

    uses: str | None = None
    """What a step uses of its worker."""

    version: str | None = None
    """Replaces the version that is made of this table and the files."""

    volatile: bool = False
    """Each evaluation computes the value, and the values of what follows."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> Command:
        """Reads Command from JSON; unknown fields are ignored."""
        return Command(
            args=[CommandArgument.from_wire(one) for one in (data.get("args") or ())],
            cacheable=data.get("cacheable", False),
            check=list((data.get("check") or ())),
            check_every=data.get("check_every"),
            dash_dash=data.get("dash_dash", False),
            env=data.get("env", {}),
            expires=data.get("expires"),
            files=list((data.get("files") or ())),
            formats=list((data.get("formats") or ())),
            help=data.get("help"),
            inline=data.get("inline", False),
            mainthread=data.get("mainthread", False),
            media_type=data.get("media_type"),
            needs=data.get("needs"),
            retries=data.get("retries"),
            run=list((data.get("run") or ())),
            serialisable=data.get("serialisable", False),
            soft_volatile=data.get("soft_volatile", False),
            timeout=data.get("timeout"),
            uses=data.get("uses"),
            version=data.get("version"),
            volatile=data.get("volatile", False),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandArgument:
    """An argument of a command."""

    name: str
    """Its name."""

    dash: bool = False
    """Whether it may begin with "-"."""

    default: bool | float | int | str | None = None
    """Used if the argument is left out; without one the argument is required."""

    help: str | None = None
    """A sentence for people."""

    ignore: bool = False
    """Whether the argument does not change what the query means."""

    type: str = 'text'
    """``text``, ``int``, ``number``, ``bool``, ``date``, ``span``, ``one_of`` or ``link``."""

    values: list[str] = field(default_factory=list)
    """The values to choose from, for ``one_of``."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> CommandArgument:
        """Reads CommandArgument from JSON; unknown fields are ignored."""
        return CommandArgument(
            name=data["name"],
            dash=data.get("dash", False),
            default=data.get("default"),
            help=data.get("help"),
            ignore=data.get("ignore", False),
            type=data.get("type", 'text'),
            values=list((data.get("values") or ())),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandFile:
    """A file of a command, as its worker has read it."""

    digest: str
    """The hash of its content."""

    path: str
    """Its absolute path."""

    place: str
    """Device and inode of its directory: the same path may be another file elsewhere."""

    stat: str
    """Size, time of the last change and inode; empty if the file was too new for that to identify its
    content."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> CommandFile:
        """Reads CommandFile from JSON; unknown fields are ignored."""
        return CommandFile(
            digest=data["digest"],
            path=data["path"],
            place=data["place"],
            stat=data["stat"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a job is not running."""

    id: int
    """Id of the job."""

    reasons: list[Reason]
    """Reasons, the most immediate first."""

    state: str
    """State of the job."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> Explanation:
        """Reads Explanation from JSON; unknown fields are ignored."""
        return Explanation(
            id=data["id"],
            reasons=[Reason.from_wire(one) for one in data["reasons"]],
            state=data["state"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why something failed."""

    reason: str
    """A short word or phrase."""

    data: Any = None
    """Additional data for programs."""

    explanation: str = ''
    """A text for people."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> Failure:
        """Reads Failure from JSON; unknown fields are ignored."""
        return Failure(
            reason=data["reason"],
            data=data.get("data"),
            explanation=data.get("explanation", ''),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group."""

    cancel_requested: bool
    """Whether a cancel was requested."""

    closed: bool
    """Whether the group accepts no further jobs."""

    counts: GroupCounts
    """Number of members by state."""

    created_at: datetime
    """When it was created."""

    id: int
    """Id of the group. Jobs and groups share one sequence of ids."""

    state: str
    """``new``, ``running``, ``succeeded``, ``failed`` or ``cancelled``."""

    tags: list[str]
    """Tags for filtering."""

    completed_at: datetime | None = None
    """When it ended."""

    error: Failure | None = None
    """Reason of the cancel."""

    fails: bool = False
    """Whether that cancel stops it as failed."""

    jobs: list[Submitted] = field(default_factory=list)
    """The jobs created with the group, in order; only in the response to the creation."""

    name: str | None = None
    """Display name."""

    owner: str | None = None
    """Owner."""

    retry_of: int | None = None
    """The group whose failed members this group retries."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> Group:
        """Reads Group from JSON; unknown fields are ignored."""
        return Group(
            cancel_requested=data["cancel_requested"],
            closed=data["closed"],
            counts=GroupCounts.from_wire(data["counts"]),
            created_at=datetime.fromisoformat(data["created_at"]),
            id=data["id"],
            state=data["state"],
            tags=list(data["tags"]),
            completed_at=None if (found := data.get("completed_at")) is None else datetime.fromisoformat(found),
            error=None if (found := data.get("error")) is None else Failure.from_wire(found),
            fails=data.get("fails", False),
            jobs=[Submitted.from_wire(one) for one in (data.get("jobs") or ())],
            name=data.get("name"),
            owner=data.get("owner"),
            retry_of=data.get("retry_of"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCounts:
    """Number of members by state; each member is counted once."""

    active: int
    """Members that are assigned to a worker."""

    cancelled: int
    """Members that were cancelled."""

    crashed: int
    """Members that crashed."""

    failed: int
    """Members that failed."""

    pending: int
    """Members that are not assigned, or wait for another attempt."""

    succeeded: int
    """Members that succeeded."""

    total: int
    """All members: the sum of the other fields."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> GroupCounts:
        """Reads GroupCounts from JSON; unknown fields are ignored."""
        return GroupCounts(
            active=data["active"],
            cancelled=data["cancelled"],
            crashed=data["crashed"],
            failed=data["failed"],
            pending=data["pending"],
            succeeded=data["succeeded"],
            total=data["total"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPage:
    """A page of a list."""

    items: list[Group]
    """Items of the page."""

    next_cursor: str | None = None
    """Cursor of the next page; none on the last page."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> GroupPage:
        """Reads GroupPage from JSON; unknown fields are ignored."""
        return GroupPage(
            items=[Group.from_wire(one) for one in data["items"]],
            next_cursor=data.get("next_cursor"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Indicator:
    """One indicator of progress."""

    step: int
    """Current value."""

    message: str = ''
    """Message for people."""

    name: str = ''
    """Name of the indicator, if there are several."""

    total: int | None = None
    """Final value, if known."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> Indicator:
        """Reads Indicator from JSON; unknown fields are ignored."""
        return Indicator(
            step=data["step"],
            message=data.get("message", ''),
            name=data.get("name", ''),
            total=data.get("total"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job."""

    attempt: int
    """Number of attempts so far, including those in ``lost`` and ``snoozed``."""

    created_at: datetime
    """When it was submitted."""

    id: int
    """Id of the job."""

    max_attempts: int
    """Maximum number of attempts; those in ``lost`` and ``snoozed`` do not count."""

    needs: str
    """Requirements on the worker."""

    params: Any
    """Input for the worker."""

    priority: int
    """Priority; lower values start first."""

    queue: str
    """Queue name."""

    run_at: datetime
    """Earliest start time."""

    state: str
    """Current state."""

    type: str
    """Type of the job."""

    updated_at: datetime
    """When it last changed."""

    after: list[int] = field(default_factory=list)
    """Jobs that must end before this one starts."""

    after_any: bool = False
    """Whether the jobs in ``after`` may end with any outcome."""

    at_most_once: bool = False
    """Whether it is never started a second time."""

    attached: bool = False
    """Whether the job belongs to its group without being counted."""

    attempts: list[Attempt] = field(default_factory=list)
    """The newest attempts, oldest first: the last one and up to 20 that ended before it. The data of their
    errors is left out beyond 64 KiB. Only in the response for one job; ``/jobs/{id}/attempts`` lists
    all."""

    avoid: bool = False
    """Whether retries prefer a worker that has not had the job before."""

    cancel_requested: bool = False
    """Whether a cancel was requested and the worker has not stopped yet."""

    completed_at: datetime | None = None
    """When it ended."""

    copy_of: int | None = None
    """The job of the same group that this one is a copy of."""

    disposition: str | None = None
    """``created``, ``joined``, ``reused``, ``superseding`` or ``again``; only in the response to a submit."""

    error: Failure | None = None
    """Error of the job, or of its last attempt."""

    group: int | None = None
    """Group of the job."""

    hold: bool = False
    """Whether the job is held, so that it is not assigned to a worker."""

    key: str | None = None
    """Key of the job within its type."""

    longer_than_expected: bool = False
    """Whether the current attempt takes longer than expected for its type; only in the response for one
    job."""

    lost: int = 0
    """Attempts whose worker was lost; the third one ends the job."""

    owner: str | None = None
    """Owner."""

    params_differ: bool = False
    """Whether the joined job has other params, compared as JSON values: those of the request were not
    submitted."""

    parent: int | None = None
    """The job whose attempt submitted this one."""

    progress: list[Indicator] = field(default_factory=list)
    """Progress of the current attempt."""

    result: Any = None
    """Result of a job that succeeded."""

    result_artifact: Artifact | None = None
    """The artifact with the result, if the value is null; only in the response for one job."""

    retry_of: int | None = None
    """The job that this one retries."""

    schedule: str | None = None
    """The schedule that submitted the job."""

    snoozed: int = 0
    """Attempts that their worker snoozed."""

    started_at: datetime | None = None
    """When the work of its current or last attempt began."""

    tags: list[str] = field(default_factory=list)
    """Tags for filtering."""

    throttle_factor: int = 1
    """Weight against limits; 0 exempts the job from them."""

    timeouts: Timeouts | None = None
    """Time limits of an attempt that the job itself sets."""

    timing_out: bool = False
    """Whether the attempt timed out and the worker has not stopped yet."""

    uses: str = ''
    """Resources of the worker that the job uses while it runs."""

    windows: str = ''
    """Daily windows in which the job may start; empty permits any time."""

    worker: str | None = None
    """The current worker, or the last one."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> Job:
        """Reads Job from JSON; unknown fields are ignored."""
        return Job(
            attempt=data["attempt"],
            created_at=datetime.fromisoformat(data["created_at"]),
            id=data["id"],
            max_attempts=data["max_attempts"],
            needs=data["needs"],
            params=data["params"],
            priority=data["priority"],
            queue=data["queue"],
            run_at=datetime.fromisoformat(data["run_at"]),
            state=data["state"],
            type=data["type"],
            updated_at=datetime.fromisoformat(data["updated_at"]),
            after=list((data.get("after") or ())),
            after_any=data.get("after_any", False),
            at_most_once=data.get("at_most_once", False),
            attached=data.get("attached", False),
            attempts=[Attempt.from_wire(one) for one in (data.get("attempts") or ())],
            avoid=data.get("avoid", False),
            cancel_requested=data.get("cancel_requested", False),
            completed_at=None if (found := data.get("completed_at")) is None else datetime.fromisoformat(found),
            copy_of=data.get("copy_of"),
            disposition=data.get("disposition"),
            error=None if (found := data.get("error")) is None else Failure.from_wire(found),
            group=data.get("group"),
            hold=data.get("hold", False),
            key=data.get("key"),
            longer_than_expected=data.get("longer_than_expected", False),
            lost=data.get("lost", 0),
            owner=data.get("owner"),
            params_differ=data.get("params_differ", False),
            parent=data.get("parent"),
            progress=[Indicator.from_wire(one) for one in (data.get("progress") or ())],
            result=data.get("result"),
            result_artifact=None if (found := data.get("result_artifact")) is None else Artifact.from_wire(found),
            retry_of=data.get("retry_of"),
            schedule=data.get("schedule"),
            snoozed=data.get("snoozed", 0),
            started_at=None if (found := data.get("started_at")) is None else datetime.fromisoformat(found),
            tags=list((data.get("tags") or ())),
            throttle_factor=data.get("throttle_factor", 1),
            timeouts=None if (found := data.get("timeouts")) is None else Timeouts.from_wire(found),
            timing_out=data.get("timing_out", False),
            uses=data.get("uses", ''),
            windows=data.get("windows", ''),
            worker=data.get("worker"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """A page of a list."""

    items: list[Job]
    """Items of the page."""

    next_cursor: str | None = None
    """Cursor of the next page; none on the last page."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> JobPage:
        """Reads JobPage from JSON; unknown fields are ignored."""
        return JobPage(
            items=[Job.from_wire(one) for one in data["items"]],
            next_cursor=data.get("next_cursor"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCommand:
    """A command that queries can use."""

    command: Command
    """The declaration."""

    name: str
    """Its name."""

    version: str
    """The version that is current."""

    workers: list[str]
    """The connected workers with this version, by name."""

    files: list[CommandFile] = field(default_factory=list)
    """The files that it consists of, as its worker has read them. Only for a request that names their
    machine, while that worker is connected."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> KnownCommand:
        """Reads KnownCommand from JSON; unknown fields are ignored."""
        return KnownCommand(
            command=Command.from_wire(data["command"]),
            name=data["name"],
            version=data["version"],
            workers=list(data["workers"]),
            files=[CommandFile.from_wire(one) for one in (data.get("files") or ())],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit on the concurrency or the rate of a queue or type."""

    by: str | None = None
    """Partitions the limit: one bucket for each value of this expression, such as ``owner``,
    ``key.before("/")`` or ``params.customer.id``; if missing, one bucket for all jobs. Jobs without a
    value share one bucket."""

    concurrency: int | None = None
    """Maximum total weight (``throttle_factor``) of concurrently leased jobs."""

    rate: Rate | None = None
    """Maximum rate at which weights of jobs may be claimed."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> Limit:
        """Reads Limit from JSON; unknown fields are ignored."""
        return Limit(
            by=data.get("by"),
            concurrency=data.get("concurrency"),
            rate=None if (found := data.get("rate")) is None else Rate.from_wire(found),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCheck:
    """The last run of a check, whose output stands in the identity of a step."""

    age_ms: int | None = None
    """How long ago it ran, in milliseconds."""

    answer: str | None = None
    """The beginning of its output; none if it was not run, or failed."""

    error: str | None = None
    """Why it has no answer."""

    job: int | None = None
    """Its job."""

    took_ms: int | None = None
    """How long it ran, in milliseconds."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> QueryCheck:
        """Reads QueryCheck from JSON; unknown fields are ignored."""
        return QueryCheck(
            age_ms=data.get("age_ms"),
            answer=data.get("answer"),
            error=data.get("error"),
            job=data.get("job"),
            took_ms=data.get("took_ms"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryProgress:
    """Progress of one of the jobs that make a value."""

    job: int
    """The job."""

    progress: list[Indicator]
    """What it has reported last, without what is complete."""

    query: str
    """The canonical text up to its last step."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> QueryProgress:
        """Reads QueryProgress from JSON; unknown fields are ignored."""
        return QueryProgress(
            job=data["job"],
            progress=[Indicator.from_wire(one) for one in data["progress"]],
            query=data["query"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPromise:
    """The promise of a value: the job that makes it."""

    id: int
    """Number of the job."""

    identity: str
    """What the query means, and what its value is stored under."""

    query: str
    """The canonical text of the query."""

    state: str
    """State of the job."""

    cache: str | None = None
    """Where the value comes from: ``hit``, ``joined`` or ``computed``. Only in the answer to a request for
    the query."""

    created: int | None = None
    """How many jobs were created for it. Only in the answer to a request for the query."""

    media_type: str | None = None
    """Media type of the value, if it is there."""

    progress: list[QueryProgress] = field(default_factory=list)
    """The progress of all jobs that it still depends on, and its own. Only in the answer to a request for
    the promise."""

    size: int | None = None
    """Size of the value in bytes, if it is there."""

    steps: list[QueryStep] = field(default_factory=list)
    """How each step is answered. Only in the answer to a request for the query."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> QueryPromise:
        """Reads QueryPromise from JSON; unknown fields are ignored."""
        return QueryPromise(
            id=data["id"],
            identity=data["identity"],
            query=data["query"],
            state=data["state"],
            cache=data.get("cache"),
            created=data.get("created"),
            media_type=data.get("media_type"),
            progress=[QueryProgress.from_wire(one) for one in (data.get("progress") or ())],
            size=data.get("size"),
            steps=[QueryStep.from_wire(one) for one in (data.get("steps") or ())],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStep:
    """One step of a query."""

    cache: str
    """How it is answered: ``hit``, ``joined``, ``computed``, ``skipped`` (it was run before with the same
    bytes), ``pending``, ``failed``, ``crashed`` or ``cancelled``; ``missing`` and ``not_needed`` if
    nothing was asked for."""

    command: str
    """The command."""

    identity: str
    """What the value of its job is stored under."""

    query: str
    """The canonical text up to the end of its job."""

    version: str
    """Its version."""

    age_s: int | None = None
    """Seconds since its job ended."""

    asked_by: int | None = None
    """The job that asked for it while it ran; only for a step of another query."""

    bytes: int | None = None
    """Size of its value in bytes."""

    check: QueryCheck | None = None
    """What the check of its command has answered; only in a plan."""

    job: int | None = None
    """Its job."""

    ms: int | None = None
    """How long its last attempt took or has taken, in milliseconds."""

    progress: list[Indicator] = field(default_factory=list)
    """The latest progress of its live attempt, without what is complete."""

    state: str | None = None
    """State of the job."""

    why: str | None = None
    """Why it is missing, as far as that is known, or why it failed."""

    worker: str | None = None
    """The worker of its last attempt."""

    workers: list[str] = field(default_factory=list)
    """The connected workers that could run it; only for a step that is missing."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> QueryStep:
        """Reads QueryStep from JSON; unknown fields are ignored."""
        return QueryStep(
            cache=data["cache"],
            command=data["command"],
            identity=data["identity"],
            query=data["query"],
            version=data["version"],
            age_s=data.get("age_s"),
            asked_by=data.get("asked_by"),
            bytes=data.get("bytes"),
            check=None if (found := data.get("check")) is None else QueryCheck.from_wire(found),
            job=data.get("job"),
            ms=data.get("ms"),
            progress=[Indicator.from_wire(one) for one in (data.get("progress") or ())],
            state=data.get("state"),
            why=data.get("why"),
            worker=data.get("worker"),
            workers=list((data.get("workers") or ())),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue with its open jobs."""

    jobs: dict[str, int]
    """Open jobs by state; every non-final state is included."""

    name: str
    """Queue name."""

    ready: int
    """Jobs that could be assigned now."""

    free_slots: int | None = None
    """Number of jobs that those workers could take now; only in the response for one queue."""

    keep_count: int | None = None
    """Its own rule: maximum number of completed jobs of each type."""

    keep_ms: int | None = None
    """Its own rule: completed jobs older than this are removed."""

    limits: list[Limit] = field(default_factory=list)
    """Limits on concurrency and rate."""

    oldest_ready_at: datetime | None = None
    """Since when the oldest ready job could have been assigned."""

    oldest_ready_ms: int | None = None
    """The same as a duration in milliseconds, by the server's clock."""

    paused: bool = False
    """Whether the queue is paused."""

    workers: int | None = None
    """Number of connected workers that match at least one kind of job in the queue; only in the response
    for one queue."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> Queue:
        """Reads Queue from JSON; unknown fields are ignored."""
        return Queue(
            jobs=data["jobs"],
            name=data["name"],
            ready=data["ready"],
            free_slots=data.get("free_slots"),
            keep_count=data.get("keep_count"),
            keep_ms=data.get("keep_ms"),
            limits=[Limit.from_wire(one) for one in (data.get("limits") or ())],
            oldest_ready_at=None if (found := data.get("oldest_ready_at")) is None else datetime.fromisoformat(found),
            oldest_ready_ms=data.get("oldest_ready_ms"),
            paused=data.get("paused", False),
            workers=data.get("workers"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePage:
    """A page of a list."""

    items: list[Queue]
    """Items of the page."""

    next_cursor: str | None = None
    """Cursor of the next page; none on the last page."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> QueuePage:
        """Reads QueuePage from JSON; unknown fields are ignored."""
        return QueuePage(
            items=[Queue.from_wire(one) for one in data["items"]],
            next_cursor=data.get("next_cursor"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """Settings of a queue."""

    limits: list[Limit]
    """Limits on concurrency and rate."""

    name: str
    """Queue name."""

    paused: bool
    """Whether the queue is paused: its jobs are not assigned; running jobs continue."""

    keep_count: int | None = None
    """Maximum number of completed jobs of each type to keep, unless the type has such a rule; none: the
    server's rule counts."""

    keep_ms: int | None = None
    """Completed jobs older than this are removed, unless their type has such a rule; none: the server's
    rule counts."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> QueueSettings:
        """Reads QueueSettings from JSON; unknown fields are ignored."""
        return QueueSettings(
            limits=[Limit.from_wire(one) for one in data["limits"]],
            name=data["name"],
            paused=data["paused"],
            keep_count=data.get("keep_count"),
            keep_ms=data.get("keep_ms"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A rate: tokens per time."""

    count: int
    """Number of tokens added in ``per_ms``."""

    per_ms: int
    """The time in which they are added, evenly, in milliseconds."""

    burst: int | None = None
    """Maximum number of saved tokens; ``count`` if missing."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> Rate:
        """Reads Rate from JSON; unknown fields are ignored."""
        return Rate(
            count=data["count"],
            per_ms=data["per_ms"],
            burst=data.get("burst"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason why a job is not running."""

    code: str
    """Stable code for programs."""

    text: str
    """Text for people."""

    data: dict[str, Any] = field(default_factory=dict)
    """Data of the text: jobs, workers, terms, limits, times. The names depend on the code."""

    fix: str | None = None
    """What to do about it; none if nothing has to be done."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> Reason:
        """Reads Reason from JSON; unknown fields are ignored."""
        return Reason(
            code=data["code"],
            text=data["text"],
            data=data.get("data", {}),
            fix=data.get("fix"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Retry policy; missing fields have the values of the type."""

    backoff: str | None = None
    """Growth of the delay: ``constant``, ``linear`` or ``exponential``."""

    delay: str | None = None
    """First delay."""

    max_attempts: int | None = None
    """Maximum number of attempts."""

    max_delay: str | None = None
    """Maximum delay."""

    on: list[str] = field(default_factory=list)
    """Outcomes that are retried."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> Retry:
        """Reads Retry from JSON; unknown fields are ignored."""
        return Retry(
            backoff=data.get("backoff"),
            delay=data.get("delay"),
            max_attempts=data.get("max_attempts"),
            max_delay=data.get("max_delay"),
            on=list((data.get("on") or ())),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule."""

    catch_up: str | None = None
    """Handling of missed ticks: ``none``, ``one`` or ``all``."""

    jitter: str
    """Maximum random delay of a job after its tick."""

    job: SubmitJob
    """The job that each tick submits."""

    name: str
    """Name of the schedule."""

    overlap: str | None = None
    """Handling of a tick while the previous job is not completed: ``skip`` or ``allow``."""

    paused: bool
    """Whether the schedule is paused: ticks submit no jobs."""

    zone: str
    """Time zone of the cron expression."""

    anchor: datetime | None = None
    """A tick from which intervals are counted."""

    cron: str | None = None
    """Cron expression; none if the schedule has an interval."""

    every: str | None = None
    """Interval between ticks; none if the schedule has a cron expression."""

    last_job: int | None = None
    """The job of that tick."""

    last_tick: datetime | None = None
    """The last tick with a job."""

    next_tick: datetime | None = None
    """The next tick; none while the schedule is paused."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> Schedule:
        """Reads Schedule from JSON; unknown fields are ignored."""
        return Schedule(
            catch_up=data.get("catch_up"),
            jitter=data["jitter"],
            job=SubmitJob.from_wire(data["job"]),
            name=data["name"],
            overlap=data.get("overlap"),
            paused=data["paused"],
            zone=data["zone"],
            anchor=None if (found := data.get("anchor")) is None else datetime.fromisoformat(found),
            cron=data.get("cron"),
            every=data.get("every"),
            last_job=data.get("last_job"),
            last_tick=None if (found := data.get("last_tick")) is None else datetime.fromisoformat(found),
            next_tick=None if (found := data.get("next_tick")) is None else datetime.fromisoformat(found),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePage:
    """A page of a list."""

    items: list[Schedule]
    """Items of the page."""

    next_cursor: str | None = None
    """Cursor of the next page; none on the last page."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> SchedulePage:
        """Reads SchedulePage from JSON; unknown fields are ignored."""
        return SchedulePage(
            items=[Schedule.from_wire(one) for one in data["items"]],
            next_cursor=data.get("next_cursor"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitJob:
    """A job to submit."""

    type: str
    """Type of the job."""

    after: list[int | str] = field(default_factory=list)
    """Jobs that must end before this one starts."""

    after_any: bool = False
    """Whether the jobs in ``after`` may end with any outcome; otherwise, if one of them fails or is
    cancelled, this job ends the same way."""

    at_most_once: bool = False
    """Whether the job is never started a second time: ``max_attempts`` is 1, a retry or snooze that its
    worker asks for is not granted, and if its worker is lost after the accept, it ends ``crashed`` with
    the reason ``at_most_once``."""

    attached: bool = False
    """Whether the job belongs to its group without being counted."""

    avoid: bool = False
    """Whether retries prefer a matching worker that has not had the job before."""

    copy_of: int | None = None
    """The job of the same group that this one is a copy of: both are one member, and the first success
    decides."""

    group: int | None = None
    """Group of the job."""

    key: str | None = None
    """Key of the job within its type."""

    needs: str | None = None
    """Requirements on the worker."""

    on_duplicate: str = 'join'
    """Handling of a live job with the same type and key."""

    owner: str | None = None
    """Owner."""

    params: Any = None
    """Input for the worker; ``{}`` if missing."""

    priority: int | None = None
    """Priority; lower values start first; 100 if missing."""

    queue: str | None = None
    """Queue name; ``default`` if missing."""

    retry: Retry | None = None
    """Retry policy."""

    reuse: dict[str, Any] = field(default_factory=dict)
    """Whether a recent success may be returned instead."""

    run_at: datetime | None = None
    """Earliest start time; now if missing."""

    tags: list[str] = field(default_factory=list)
    """Tags for filtering."""

    throttle_factor: int | None = None
    """Weight against limits; 1 if missing, 0 exempts the job from them."""

    timeouts: Timeouts | None = None
    """Time limits of an attempt."""

    uses: str | None = None
    """Resources of the worker that the job uses while it runs, such as ``gpu=1, mem_gb=8``."""

    windows: str | None = None
    """Daily windows in which the job may start, such as ``22:00-06:00 Europe/Berlin``; any time if
    missing."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> SubmitJob:
        """Reads SubmitJob from JSON; unknown fields are ignored."""
        return SubmitJob(
            type=data["type"],
            after=list((data.get("after") or ())),
            after_any=data.get("after_any", False),
            at_most_once=data.get("at_most_once", False),
            attached=data.get("attached", False),
            avoid=data.get("avoid", False),
            copy_of=data.get("copy_of"),
            group=data.get("group"),
            key=data.get("key"),
            needs=data.get("needs"),
            on_duplicate=data.get("on_duplicate", 'join'),
            owner=data.get("owner"),
            params=data.get("params"),
            priority=data.get("priority"),
            queue=data.get("queue"),
            retry=None if (found := data.get("retry")) is None else Retry.from_wire(found),
            reuse=data.get("reuse", {}),
            run_at=None if (found := data.get("run_at")) is None else datetime.fromisoformat(found),
            tags=list((data.get("tags") or ())),
            throttle_factor=data.get("throttle_factor"),
            timeouts=None if (found := data.get("timeouts")) is None else Timeouts.from_wire(found),
            uses=data.get("uses"),
            windows=data.get("windows"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The response to one submitted job."""

    disposition: str
    """``created``, ``joined``, ``reused``, ``superseding`` or ``again``."""

    id: int
    """Id of the new or existing job."""

    params_differ: bool = False
    """Whether the joined job has other params, compared as JSON values: those of this request were not
    submitted."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> Submitted:
        """Reads Submitted from JSON; unknown fields are ignored."""
        return Submitted(
            disposition=data["disposition"],
            id=data["id"],
            params_differ=data.get("params_differ", False),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A future tick."""

    run_at: datetime
    """When its job starts: the tick plus the random delay."""

    tick: datetime
    """Time of the tick."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> Tick:
        """Reads Tick from JSON; unknown fields are ignored."""
        return Tick(
            run_at=datetime.fromisoformat(data["run_at"]),
            tick=datetime.fromisoformat(data["tick"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TickPage:
    """A page of a list."""

    items: list[Tick]
    """Items of the page."""

    next_cursor: str | None = None
    """Cursor of the next page; none on the last page."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> TickPage:
        """Reads TickPage from JSON; unknown fields are ignored."""
        return TickPage(
            items=[Tick.from_wire(one) for one in data["items"]],
            next_cursor=data.get("next_cursor"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Time limits of an attempt; missing fields have the values of the type."""

    silence: str | None = None
    """Without output or progress; unlimited by default."""

    total: str | None = None
    """From acceptance to the end, not counting waits for other jobs; one day by default."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> Timeouts:
        """Reads Timeouts from JSON; unknown fields are ignored."""
        return Timeouts(
            silence=data.get("silence"),
            total=data.get("total"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeSettings:
    """Settings of a job type."""

    name: str
    """Name of the type."""

    retry: Retry
    """Retry policy."""

    reuse_window_ms: int
    """Maximum age of a success that may be reused, in milliseconds."""

    expected_ms: int | None = None
    """Expected duration of an attempt; none if unknown."""

    external: bool = False
    """Whether the type has external work: a worker only starts it, and another party reports the outcome."""

    keep_count: int | None = None
    """Maximum number of completed jobs to keep; none: the rule of the queue or the server counts. The
    largest value keeps all."""

    keep_ms: int | None = None
    """Completed jobs older than this are removed; none: the rule of the queue or the server counts. The
    largest value keeps them forever."""

    limits: list[Limit] = field(default_factory=list)
    """Limits on concurrency and rate."""

    paused: bool = False
    """Whether the type is paused: its jobs are not assigned; running jobs continue."""

    timeouts: Timeouts | None = None
    """Default time limits of attempts."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> TypeSettings:
        """Reads TypeSettings from JSON; unknown fields are ignored."""
        return TypeSettings(
            name=data["name"],
            retry=Retry.from_wire(data["retry"]),
            reuse_window_ms=data["reuse_window_ms"],
            expected_ms=data.get("expected_ms"),
            external=data.get("external", False),
            keep_count=data.get("keep_count"),
            keep_ms=data.get("keep_ms"),
            limits=[Limit.from_wire(one) for one in (data.get("limits") or ())],
            paused=data.get("paused", False),
            timeouts=None if (found := data.get("timeouts")) is None else Timeouts.from_wire(found),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeSettingsPage:
    """A page of a list."""

    items: list[TypeSettings]
    """Items of the page."""

    next_cursor: str | None = None
    """Cursor of the next page; none on the last page."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> TypeSettingsPage:
        """Reads TypeSettingsPage from JSON; unknown fields are ignored."""
        return TypeSettingsPage(
            items=[TypeSettings.from_wire(one) for one in data["items"]],
            next_cursor=data.get("next_cursor"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A worker as known to the server."""

    abilities: str
    """Abilities that it last reported."""

    attempts: list[str]
    """Current attempts."""

    name: str
    """Name of the worker, from its token."""

    slots: int
    """Free slots."""

    connected: bool = True
    """Whether it is connected, or waits in a long poll. A worker that is not connected is known as long as
    it is paused or drains."""

    draining: bool = False
    """Whether it drains: its process finishes its jobs and exits."""

    lost_at: datetime | None = None
    """When its attempts are taken back, if it is silent and does not return."""

    paused: bool = False
    """Whether it is paused: it takes no new jobs until it is resumed."""

    reserved_for: int | None = None
    """The job for which resources of this worker are reserved because it has waited too long."""

    silent_ms: int | None = None
    """Time since its last heartbeat, if that is longer than usual."""

    uses: str = ''
    """Resources that these attempts use, such as ``gpu=1, mem_gb=8``."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> Worker:
        """Reads Worker from JSON; unknown fields are ignored."""
        return Worker(
            abilities=data["abilities"],
            attempts=list(data["attempts"]),
            name=data["name"],
            slots=data["slots"],
            connected=data.get("connected", True),
            draining=data.get("draining", False),
            lost_at=None if (found := data.get("lost_at")) is None else datetime.fromisoformat(found),
            paused=data.get("paused", False),
            reserved_for=data.get("reserved_for"),
            silent_ms=data.get("silent_ms"),
            uses=data.get("uses", ''),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPage:
    """A page of a list."""

    items: list[Worker]
    """Items of the page."""

    next_cursor: str | None = None
    """Cursor of the next page; none on the last page."""

    @staticmethod
    def from_wire(data: Mapping[str, Any]) -> WorkerPage:
        """Reads WorkerPage from JSON; unknown fields are ignored."""
        return WorkerPage(
            items=[Worker.from_wire(one) for one in data["items"]],
            next_cursor=data.get("next_cursor"),
        )
