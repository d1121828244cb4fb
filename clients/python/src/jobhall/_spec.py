"""Jobs to submit, from Python values to the JSON of the API."""

from __future__ import annotations

import graphlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol, cast, overload

from ._core import dumps
from .errors import InvalidRequest
from .requests import Retry, SubmitJob, Timeouts

MAX_JOBS = 10_000
"""Jobs in one request; the server's bound."""
MAX_BYTES = (1 << 20) - 2
"""Bytes of one request without its brackets; the server's bound."""

OnDuplicate = Literal["join", "reject", "supersede", "run_again"]
Span = str | float | timedelta
"""A duration: ``"1h30m"``, seconds, or a timedelta."""


class HasId(Protocol):
    """A job, a group, or the answer to a submit."""

    @property
    def id(self) -> int: ...


class JobType(Protocol):
    """A function that ``@worker.job`` registered, or anything else with a type and defaults."""

    @property
    def type(self) -> str: ...

    @property
    def options(self) -> Mapping[str, Any]: ...


After = int | str | HasId


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job to submit; :func:`spec` makes one."""

    wire: SubmitJob
    after_names: tuple[str, ...] = ()
    """Names of jobs of the same graph that it comes after."""


def spec(
    type: str | JobType,
    /,
    *,
    key: str | None = None,
    params: Any = None,
    needs: str | None = None,
    uses: str | None = None,
    queue: str | None = None,
    priority: int | None = None,
    run_at: datetime | str | None = None,
    windows: str | None = None,
    max_attempts: int | None = None,
    retry: Retry | None = None,
    timeout: Span | None = None,
    silence: Span | None = None,
    after: After | Sequence[After] = (),
    after_any: bool = False,
    on_duplicate: OnDuplicate | None = None,
    reuse: Span | None = None,
    tags: Sequence[str] = (),
    owner: str | None = None,
    group: int | HasId | None = None,
    at_most_once: bool = False,
    avoid: bool = False,
    throttle_factor: int | None = None,
    **arguments: Any,
) -> JobSpec:
    """A job to submit. Further keyword arguments are its params, unless ``params`` is given.

    The type may be a function that ``@worker.job`` registered: the options of the decorator are then the defaults.
    """
    if params is not None and arguments:
        raise InvalidRequest(f"params and arguments are both given: {', '.join(arguments)}")
    wire: SubmitJob = {"type": type_name(type)}
    if params is not None or arguments:
        wire["params"] = arguments if params is None else params
    names: tuple[str, ...] = ()
    if after != ():
        numbers, names = _after(after)
        if numbers:
            wire["after"] = numbers
    if max_attempts is not None or retry is not None:
        policy: Retry = {**(retry or {})}
        if max_attempts is not None:
            policy["max_attempts"] = max_attempts
        wire["retry"] = policy
    if timeout is not None or silence is not None:
        limits = {"total": timeout, "silence": silence}
        wire["timeouts"] = cast("Timeouts", {name: span(one) for name, one in limits.items() if one is not None})
    if run_at is not None:
        wire["run_at"] = timestamp(run_at)
    if reuse is not None:
        wire["reuse"] = {"max_age": span(reuse)}
    if group is not None:
        wire["group"] = group if isinstance(group, int) else group.id
    if key is not None:
        wire["key"] = key
    if needs is not None:
        wire["needs"] = needs
    if uses is not None:
        wire["uses"] = uses
    if queue is not None:
        wire["queue"] = queue
    if priority is not None:
        wire["priority"] = priority
    if windows is not None:
        wire["windows"] = windows
    if on_duplicate is not None:
        wire["on_duplicate"] = on_duplicate
    if tags:
        wire["tags"] = texts("tags", tags)
    if owner is not None:
        wire["owner"] = owner
    if throttle_factor is not None:
        wire["throttle_factor"] = throttle_factor
    if after_any:
        wire["after_any"] = True
    if at_most_once:
        wire["at_most_once"] = True
    if avoid:
        wire["avoid"] = True
    whole = wire if isinstance(type, str) else cast("SubmitJob", over(cast("dict[str, Any]", wire), type.options))
    return JobSpec(whole, names)


def type_name(type: str | JobType) -> str:
    """The type that a submit names."""
    name = type if isinstance(type, str) else getattr(type, "type", None)
    if not isinstance(name, str):
        raise InvalidRequest(f"a job type is a name or a function with @worker.job, not {type!r:.80}")
    return name


def over(wire: dict[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The job with the defaults of its function."""
    both: dict[str, Any] = {**defaults, **wire}
    for name in ("retry", "timeouts"):
        given = wire.get(name)
        if name in defaults and given is not None:
            both[name] = {**defaults[name], **given}
    return both


def texts(field: str, value: Sequence[str]) -> list[str]:
    """A list of texts, which a single text is not."""
    if isinstance(value, str):
        raise InvalidRequest(f"{field} is a list of texts: write [{value!r:.80}]")
    return list(value)


def _after(after: After | Sequence[After]) -> tuple[list[int | str], tuple[str, ...]]:
    many = after if isinstance(after, Sequence) and not isinstance(after, str) else [after]
    numbers: list[int | str] = []
    names: list[str] = []
    for one in many:
        if isinstance(one, str):
            names.append(one)
        elif isinstance(one, int):
            numbers.append(one)
        elif hasattr(one, "id"):
            numbers.append(one.id)
        else:
            raise InvalidRequest(f"after takes jobs, ids and names, not {one!r}")
    return numbers, tuple(names)


def timestamp(at: datetime | str) -> str:
    """A time as the API reads it."""
    if isinstance(at, str):
        return at
    if at.tzinfo is None:
        raise InvalidRequest(f"{at!r} has no time zone")
    return at.isoformat(timespec="milliseconds")


def span(value: Span) -> str:
    """A duration as the API reads it."""
    if isinstance(value, str):
        return value
    return f"{milliseconds(value)}ms"


@overload
def milliseconds(value: None) -> None: ...


@overload
def milliseconds(value: float | timedelta) -> int: ...


def milliseconds(value: float | timedelta | None) -> int | None:
    """A duration as a number."""
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if not 0 <= seconds < 1e10:
        raise InvalidRequest(f"{value!r} is not a duration")
    return round(seconds * 1000)


def wire_of(job: JobSpec | Mapping[str, Any]) -> SubmitJob:
    """The JSON object of a job."""
    if isinstance(job, JobSpec):
        if job.after_names:
            raise InvalidRequest(f"{job.after_names[0]!r} names a job of a graph: use submit_graph")
        return job.wire
    return cast("SubmitJob", job)


def chunks(jobs: Iterable[JobSpec | Mapping[str, Any]]) -> Iterator[tuple[list[SubmitJob], bytes]]:
    """Arrays of jobs that each fit into one request."""
    rest, take = map(wire_of, jobs), 1_000
    while wires := list(itertools.islice(rest, take)):
        size = 0
        for part, body in _fitting(wires):
            size += len(body)
            yield part, body
        # The next array should fill a request without being encoded twice.
        take = max(1, min(MAX_JOBS, MAX_BYTES * 9 // 10 * len(wires) // size))


def _fitting(wires: list[SubmitJob]) -> Iterator[tuple[list[SubmitJob], bytes]]:
    """The array, or parts of it if it is too large for one request."""
    body = dumps(wires)
    if len(body) <= MAX_BYTES + 2 or len(wires) == 1:
        yield wires, body
        return
    size = -(-len(wires) // (len(body) // MAX_BYTES + 1))
    for at in range(0, len(wires), size):
        yield from _fitting(wires[at : at + size])


def graph(jobs: Mapping[str, JobSpec]) -> tuple[list[str], list[SubmitJob]]:
    """The names of a graph in an order in which each comes after what it depends on, and its jobs."""
    for name, job in jobs.items():
        unknown = [other for other in job.after_names if other not in jobs]
        if unknown:
            raise InvalidRequest(f"{name!r} comes after {unknown[0]!r}, which is not in the graph")
    try:
        order = list(graphlib.TopologicalSorter({n: j.after_names for n, j in jobs.items()}).static_order())
    except graphlib.CycleError as error:
        raise InvalidRequest(f"the graph has a cycle: {' → '.join(error.args[1])}") from None
    if len(order) > MAX_JOBS:
        raise InvalidRequest(f"a graph has at most {MAX_JOBS} jobs, this one has {len(order)}")
    at = {name: n for n, name in enumerate(order)}
    wires = []
    for name in order:
        after = [*jobs[name].wire.get("after", []), *(f"#{at[other]}" for other in jobs[name].after_names)]
        wire = {**jobs[name].wire, "after": after} if after else jobs[name].wire
        wires.append(wire)
    return order, wires
