"""Arguments from params: what is converted, and what the error of a wrong one says."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Literal, NewType, NotRequired, TypedDict

import pytest

import jobhall
from jobhall.worker import BadArguments, JobFunction, Worker
from jobhall.worker._arguments import Signature
from jobhall.worker._verdicts import encode_result, of_exception


class Level(enum.IntEnum):
    LOW = 1


class Options(TypedDict):
    depth: int
    name: NotRequired[str]


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x is negative")


@dataclasses.dataclass
class Tree:
    leaves: list[Tree] = dataclasses.field(default_factory=list)
    name: str = "a"


UserId = NewType("UserId", int)


def bind(hint: Any, value: Any) -> Any:
    def function(argument: Any) -> None: ...

    function.__annotations__["argument"] = hint
    return Signature(function, jobhall.Context).bind({"argument": value})["argument"]


@pytest.mark.parametrize(
    ("hint", "value", "converted"),
    [
        (int, 3.0, 3),
        (float, 3, 3.0),
        (str | None, None, None),
        (int | str, "a", "a"),
        (Literal["a", 1], 1, 1),
        (Level, 1, Level.LOW),
        (list[int], [1, 2], [1, 2]),
        (set[str], ["a", "a"], {"a"}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (tuple[int, ...], [1, 2, 3], (1, 2, 3)),
        (dict[str, list[float]], {"a": [1]}, {"a": [1.0]}),
        (datetime.date, "2030-01-31", datetime.date(2030, 1, 31)),
        (Path, "a/b", Path("a/b")),
        (UserId, 7, 7),
        (Options, {"depth": 1}, {"depth": 1}),
        (list[Point], [{"x": 1}], [Point(1.0)]),
        (Any, {"a": [None]}, {"a": [None]}),
        (Sequence[int], [1, 2], [1, 2]),
        (Iterable[Level], [1], [Level.LOW]),
        (Mapping[str, Path], {"a": "b"}, {"a": Path("b")}),
        (AbstractSet[str], ["a", "a"], {"a"}),
        (Tree, {"leaves": [{}, {"name": "b"}]}, Tree([Tree(), Tree(name="b")])),
        (list, [1, "a"], [1, "a"]),
        (tuple, [1, "a"], (1, "a")),
    ],
)
def test_a_value_is_converted(hint: Any, value: Any, converted: Any) -> None:
    found = bind(hint, value)
    assert found == converted
    assert type(found) is type(converted)


@pytest.mark.parametrize(
    ("hint", "value", "says"),
    [
        (int, True, "argument 'argument' must be an integer, not a boolean (True)"),
        (int, 1.5, "argument 'argument' must be an integer, not a number (1.5)"),
        (bool, 1, "argument 'argument' must be a boolean, not an integer (1)"),
        (list[int], [1, "x"], "argument 'argument[1]' must be an integer, not a string ('x')"),
        (tuple[int, str], [1], "argument 'argument' must be a list of 2, not a list ([1])"),
        (dict[str, int], {"a": None}, "argument 'argument.a' must be an integer, not null (None)"),
        (Literal["a", "b"], "c", "argument 'argument' must be one of 'a', 'b', not a string ('c')"),
        (Level, 2, "argument 'argument' must be one of 1, not an integer (2)"),
        (datetime.date, "soon", "argument 'argument' must be a date such as 2030-01-31, not a string ('soon')"),
        (Options, {}, "argument 'argument.depth' is missing"),
        (Point, {"x": 1, "z": 2}, "argument 'argument' has no field 'z' (it has: x, y)"),
        (Tree, {"leaves": [{"name": 1}]}, "argument 'argument.leaves[0].name' must be a string, not an integer (1)"),
        (Point, {"x": -1}, "argument 'argument': x is negative"),
        (float, 10**400, f"argument 'argument' must be a number that a float can have, not an integer (1{'0' * 79})"),
        (set[Any], [[1]], "argument 'argument' cannot be a set: unhashable type: 'list'"),
        (Sequence[int], "ab", "argument 'argument' must be a list, not a string ('ab')"),
        (str, "x" * 500, None),
    ],
)
def test_a_wrong_value_is_named(hint: Any, value: Any, says: str | None) -> None:
    if says is None:
        assert bind(hint, value) == value
        return
    with pytest.raises(BadArguments) as error:
        bind(hint, value)
    assert str(error.value) == says


def test_the_error_of_a_long_value_is_short() -> None:
    with pytest.raises(BadArguments) as error:
        bind(int, "x" * 10_000)
    assert len(str(error.value)) < 200


def test_a_union_says_every_reason() -> None:
    with pytest.raises(BadArguments, match=r"must be an integer.*; or .*must be null"):
        bind(int | None, "x")


def test_signatures_that_cannot_be_jobs_are_refused_early() -> None:
    def positional(a: int, /) -> None: ...

    def unknown(a: complex) -> None: ...

    def undefined(a: int) -> None: ...

    undefined.__annotations__["a"] = "Missing"
    with pytest.raises(TypeError, match=r"undefined: an annotation cannot be read: name .Missing. is not defined"):
        Signature(undefined, jobhall.Context)
    with pytest.raises(TypeError, match=r"cannot be positional only"):
        Signature(positional, jobhall.Context)
    with pytest.raises(TypeError, match=r"no conversion from JSON to .*complex"):
        Signature(unknown, jobhall.Context)


def test_a_worker_refuses_wrong_settings() -> None:
    worker = Worker()

    @worker.job("one")
    def one() -> None: ...

    with pytest.raises(ValueError, match="type 'one' has a function already"):
        worker.job("one")(one.function)
    with pytest.raises(ValueError, match="run must be 'thread' or 'process'"):
        worker.job("two", run="async")(one.function)
    with pytest.raises(ValueError, match="must be 'async', 'thread' or 'process', not 'fiber'"):
        worker.job("two", run="fiber")(one.function)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="slots must be from 1 to 10000, not 0"):
        Worker(slots=0)
    for seconds in (2, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=f"lease must be from 3 to 86400, not {seconds}"):
            Worker(lease=seconds)
    with pytest.raises(ValueError, match="grace must be from 0 to 86400, not inf"):
        Worker(grace=float("inf"))
    with pytest.raises(ValueError, match="processes must be from 1 to 4096, not 0"):
        Worker(processes=0)


def test_the_options_of_a_job_are_those_of_its_submits() -> None:
    worker = Worker()

    @worker.job("resize", needs="gpu>=1", uses="gpu=1", max_attempts=3, timeout=1.5, queue="images", priority=2)
    def resize(path: str) -> str:
        return path

    assert isinstance(resize, JobFunction)
    assert resize("a") == "a"
    assert resize.submit_fields(path="b") == {
        "type": "resize",
        "params": {"path": "b"},
        "needs": "gpu>=1",
        "uses": "gpu=1",
        "queue": "images",
        "priority": 2,
        "retry": {"max_attempts": 3},
        "timeouts": {"total": "1500ms"},
    }


def test_results_are_checked() -> None:
    assert encode_result(Point(1.0)) == '{"x":1.0,"y":0.0}'
    recursive: list[Any] = []
    recursive.append(recursive)
    for value in (object(), float("nan"), recursive, {1: object()}):
        report = encode_result(value)
        assert isinstance(report, dict)
        assert (report["error"]["reason"], report["retry"]) == ("bad_result", "never")


def test_a_long_explanation_keeps_both_ends() -> None:
    report = of_exception(ValueError("start " + "x" * 100_000 + " end"))
    text = report["error"]["explanation"]
    assert len(text.encode()) <= 16 * 1024
    assert text.startswith("ValueError: start")
    assert text.rstrip().endswith("end")
