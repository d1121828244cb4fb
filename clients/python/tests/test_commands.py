"""Commands in this process: what is declared, what is refused when it is registered, versions, and forms of values."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
import importlib
import logging
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

import jobhall
from jobhall import testing
from jobhall._codecs import NoForm, find
from jobhall._query_text import query_text
from jobhall.worker._commands.declare import freeze
from jobhall.worker._commands.values import Content, report_value, stored_bytes
from jobhall.worker._verdicts import Refusal

Run = Callable[..., testing.LocalValue]


@pytest.fixture
def worker() -> jobhall.Worker:
    return jobhall.Worker()


@dataclasses.dataclass
class Pair:
    a: int
    b: str = "x"


class Level(enum.IntEnum):
    LOW = 1


def test_what_a_decorator_says_is_declared(worker: jobhall.Worker) -> None:
    @worker.command(
        "by",
        version=3,
        ignore=["threads"],
        soft_volatile=True,
        cacheable=False,
        expires=600,
        retries=2,
        timeout="30s",
        needs="gpu>=1",
        uses="gpu=1",
        help="sums",
    )
    def something(text: str, column: str, threads: int = 2) -> str:
        return text

    assert worker.commands["by"] is something
    assert something.declared() == {
        "version": "3",
        "command": {
            "args": [
                {"name": "column", "type": "text", "dash": True},
                {"name": "threads", "type": "int", "default": "2", "ignore": True},
            ],
            "media_type": "text/plain; charset=utf-8",
            "soft_volatile": True,
            "cacheable": False,
            "expires": "600000ms",
            "retries": 2,
            "timeout": "30s",
            "needs": "gpu>=1",
            "uses": "gpu=1",
            "help": "sums",
        },
    }
    assert something("a", "b") == "a", "it can be called"
    assert worker.all_abilities() == 'commands=["by@3"]'
    assert worker.accepts() == "type in (q.by)"


def test_all_ways_to_decorate_are_one(worker: jobhall.Worker) -> None:
    @worker.command
    def one(text: str) -> str:
        return text

    @worker.command()
    def two(text: str) -> str:
        return text

    @worker.command("third")
    async def three(text: str) -> str:
        return text

    assert list(worker.commands) == ["one", "two", "third"]
    assert [command.run for command in worker.commands.values()] == ["thread", "thread", "async"]
    worker.abilities = "gpu=1"
    assert worker.all_abilities().startswith('gpu=1, commands=["one@')


class Unknown:
    pass


def no_annotation(text):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    return text


def any_input(text: Any) -> None: ...
def unknown_input(value: Unknown) -> None: ...
def many(text: str, *rest: str) -> None: ...
def open_ended(text: str, **rest: str) -> None: ...
def positional(text: str, /, n: int) -> None: ...
def unknown_argument(text: str, value: Unknown) -> None: ...
def wrong_default(text: str, n: int = "a") -> None: ...  # type: ignore[assignment]
def default_link(text: str, other: bytes = b"") -> None: ...
def optional(text: str, n: int | None) -> None: ...
def optional_default(text: str, n: int | None = 3) -> None: ...
def camel(text: str, rowCount: int) -> None: ...  # noqa: N803
def upper(text: str, Rows: int) -> None: ...  # noqa: N803
def fine(text: str) -> str:
    return text


@pytest.mark.parametrize(
    ("function", "options", "says"),
    [
        (no_annotation, {}, "annotate 'text', the value of the step before, with bytes"),
        (any_input, {}, "annotate 'text'"),
        (unknown_input, {}, "'value': Unknown has no form as bytes; register one with jobhall.codec"),
        (many, {}, "*rest: 'str' cannot be one"),
        (open_ended, {}, "**rest"),
        (positional, {}, "by the names of its parameters"),
        (unknown_argument, {}, "'value': Unknown has no form"),
        (wrong_default, {}, "the default of 'n' must be a whole number, not 'a'"),
        (default_link, {}, "'other' is the value of another query, which has no default"),
        (optional, {}, "'n' may be None, so None must be its default"),
        (optional_default, {}, "'n' may be None, so None must be its default"),
        (upper, {}, "'Rows' is no name of an argument"),
        (fine, {"name": "Fine"}, "'Fine' is no name of a command"),
        (fine, {"name": "fine-er"}, "'fine-er' is no name of a command"),
        (fine, {"name": "f" * 49}, "is no name of a command"),
        (lambda text: text, {}, "'<lambda>' is no name of a command"),
        (fine, {"ignore": ["n"]}, "ignore of fine: there is no argument 'n' (it has: none)"),
        (fine, {"ignore": "n"}, "ignore of fine must be a list of arguments, not 'n'"),
        (fine, {"version": "a b"}, "the version 'a b' must have letters"),
        (fine, {"media_type": "text"}, "'text' is no media type"),
        (fine, {"formats": ["CSV"]}, "'CSV' is no extension"),
        (fine, {"run": "async"}, "fine is no coroutine function"),
        (fine, {"run": "gpu"}, "must be 'async', 'thread' or 'process'"),
        (fine, {"timeout": object()}, "object"),
    ],
)
def test_a_wrong_declaration_is_refused_when_it_is_registered(
    worker: jobhall.Worker, function: Callable[..., Any], options: dict[str, Any], says: str
) -> None:
    name = options.pop("name", None)
    with pytest.raises((TypeError, ValueError, AttributeError)) as caught:
        worker.command(name, **options)(function)
    assert says in str(caught.value)
    assert not worker.commands


def test_a_name_is_declared_once(worker: jobhall.Worker) -> None:
    worker.command(fine)
    with pytest.raises(ValueError, match="the command 'fine' is declared twice"):
        worker.command(fine)
    worker.command(camel)


def test_json_is_checked_by_the_annotation(worker: jobhall.Worker) -> None:
    @worker.command
    def pairs(value: list[Pair]) -> dict[str, Pair]:
        return {one.b: one for one in value}

    @worker.command
    def swapped(value: dict[str, Pair] | None) -> Literal["none", "some"]:
        return "some" if value else "none"

    value = testing.run_command(worker, "pairs", input='[{"a": 1}, {"a": 2, "b": "y"}]')
    assert value.json() == {"x": {"a": 1, "b": "x"}, "y": {"a": 2, "b": "y"}}
    assert testing.run_command(worker, swapped, input=value.content).text() == "some"
    assert testing.run_command(worker, swapped, input=b"null").media_type == "text/plain; charset=utf-8"
    with pytest.raises(jobhall.JobFailed, match=r"bad_arguments: 'value' of pairs: argument 'input\[0\]' has no field"):
        testing.run_command(worker, "pairs", input=[{"c": 1}])


def test_arguments_are_texts_and_have_their_defaults(worker: jobhall.Worker) -> None:
    @worker.command(input=False)
    def shown(
        day: datetime.date, level: Level, word: Literal["a", "b"] = "b", span: datetime.timedelta | None = None
    ) -> str:
        return f"{day!r} {level!r} {word} {span}"

    day, level = "datetime.date(2026, 1, 31)", "<Level.LOW: 1>"
    assert testing.run_command(worker, shown, "2026-01-31", 1).text() == f"{day} {level} b None"
    given = testing.run_command(
        worker, shown, datetime.date(2026, 1, 31), Level.LOW, "a", datetime.timedelta(hours=1.5)
    )
    assert given.text() == f"{day} {level} a 1:30:00"
    for arguments, says in [
        (("2026-02-30", 1), "argument 'day' of shown must be a date such as 2026-01-31, not '2026-02-30'"),
        (("2026-01-31", 2), "argument 'level' of shown must be one of 1, not '2'"),
        (("2026-01-31", 1, "c"), "argument 'word' of shown must be one of a, b, not 'c'"),
        (("2026-01-31", 1, "a", "long"), "argument 'span' of shown must be a duration such as 1h30m, not 'long'"),
    ]:
        with pytest.raises(jobhall.JobFailed) as caught:
            testing.run_command(worker, shown, *arguments)
        assert says in str(caught.value)
    with pytest.raises(jobhall.InvalidRequest, match="argument 'level' of shown is missing"):
        testing.run_command(worker, shown, "2026-01-31")
    with pytest.raises(jobhall.InvalidRequest, match="shown takes 4 arguments, 5 given"):
        testing.run_command(worker, shown, *"abcde")
    with pytest.raises(jobhall.InvalidRequest, match="no command 'other'"):
        testing.run_command(worker, "other")


def test_a_failure_has_the_exception_and_the_log(worker: jobhall.Worker) -> None:
    @worker.command
    def broken(text: str) -> str:
        print("now")
        raise KeyError(text)

    with pytest.raises(jobhall.JobFailed) as caught:
        testing.run_command(worker, broken, input="a")
    assert isinstance(caught.value.__cause__, KeyError)


async def test_commands_run_in_a_running_event_loop(worker: jobhall.Worker) -> None:
    @worker.command
    async def slow(ctx: jobhall.Context, text: str) -> str:
        print("waiting")
        await asyncio.sleep(0)
        return f"{text} {ctx.format}"

    value = await testing.run_command_async(worker, slow, input="a")
    assert (value.text(), value.job.log()) == ("a None", ["waiting"])
    with pytest.raises(RuntimeError, match="run_command_async"):
        testing.run_command(worker, slow, input="a")


def test_a_file_is_given_and_taken_and_its_directory_is_removed(worker: jobhall.Worker, tmp_path: Path) -> None:
    seen: list[Path] = []

    @worker.command
    def squeezed(source: Path, other: Path) -> Path:
        seen.append(source)
        assert other.read_bytes() == b"link"
        target = source.parent / "out.json"
        target.write_bytes(source.read_bytes()[:3])
        return target

    @worker.command
    def missing(source: Path) -> Path:
        return source / "nothing"

    (tmp_path / "in").write_bytes(b"abcdef")
    value = testing.run_command(worker, squeezed, b"link", input=tmp_path / "in")
    assert (value.content, value.media_type) == (b"abc", "application/json")
    assert not seen[0].parent.exists()
    with pytest.raises(jobhall.JobFailed, match=r"bad_value: missing returned the path .* where no file is"):
        testing.run_command(worker, missing, input=b"")


def test_steps_of_one_job_hand_on_their_values_and_stored_data_is_read(worker: jobhall.Worker) -> None:
    """As when a step before is volatile: both run in the same attempt."""

    @worker.command
    async def parsed(value: dict[str, int]) -> list[int]:
        return list(value.values())

    @worker.command
    def added(value: list[int], by: int, other: Path) -> str:
        return f"{sum(value) + by} {other.read_text()}"

    hall = testing.LocalHall(worker)
    hall.values = {"aa": Content(b'{"a": 1, "b": 2}', "application/octet-stream"), "bb": Content(b"x", "text/plain")}
    steps: list[dict[str, Any]] = [
        {"command": "parsed", "version": worker.commands["parsed"].version, "input": {"source": 0}},
        {
            "command": "added",
            "version": worker.commands["added"].version,
            "input": {"step": 0},
            "arguments": ["3", {"input": 0}],
        },
    ]
    sources = [{"key": "data.json", "digest": "aa"}]
    params: dict[str, Any] = {"query": "", "identity": "", "steps": steps, "inputs": ["bb"], "sources": sources}
    assert stored_bytes(hall.run("q.added", params=params).result()) == b"6 x"
    steps[0]["version"] = "older"
    job = hall.run("q.added", params=params)
    assert job.error is not None
    assert job.error.reason == "unknown_version"
    assert job.outcomes == ["failed"], "no other attempt"


def test_a_value_is_stored_as_text_or_in_base_64() -> None:
    for content, kind in [
        (b"", "text"),
        ("ü\n".encode(), "text"),
        (b"\xff\x00", "base64"),
        (b"\n" * 100, "base64"),
        (b"\x01" * 10 + b"a" * 200, "text"),
        (b"\x01" * 20 + b"a" * 200, "base64"),
    ]:
        stored = report_value(Content(content, "a/b"))
        assert set(stored) == {"media_type", "size", kind}
        assert (stored_bytes(stored), stored["size"]) == (content, len(content))
    with pytest.raises(Refusal, match="the value has 65537 bytes, the limit is 65536"):
        report_value(Content(b"x" * 65_537, "a/b"))


def test_what_has_no_form_is_named(worker: jobhall.Worker) -> None:
    @worker.command(input=False)
    def thing() -> Any:
        return Unknown()

    @worker.command(input=False)
    def infinite() -> float:
        return float("inf")

    says = "bad_value: thing returned a Unknown, which cannot be written: a value of type Unknown cannot be written as"
    with pytest.raises(jobhall.JobFailed, match=says):
        testing.run_command(worker, thing)
    with pytest.raises(jobhall.JobFailed, match="bad_value: infinite returned a float, which cannot be written"):
        testing.run_command(worker, infinite)


def test_a_codec_has_forms_and_is_inherited(worker: jobhall.Worker) -> None:
    class Shape:
        def __init__(self, sides: int) -> None:
            self.sides = sides

    class Square(Shape):
        def __init__(self) -> None:
            super().__init__(4)

    jobhall.codec(
        Shape,
        media_type="application/x-shape",
        encode=lambda shape: str(shape.sides).encode(),
        decode=lambda content: Shape(int(content)),
    )
    jobhall.codec(Shape, media_type="text/html", extension=".html", encode=lambda shape: "<b>" * shape.sides)

    def grown(shape: Shape) -> Shape:
        return Square() if shape.sides == 3 else Shape(shape.sides + 1)

    grown.__annotations__ = {"shape": Shape, "return": Shape}
    worker.command(grown)
    assert worker.commands["grown"].declaration["formats"] == ["html"]
    assert testing.run_command(worker, "grown", input=b"3").content == b"4"
    with pytest.raises(jobhall.JobFailed, match=r"bad_value: grown returned a .*Square: its codec .* made a str of it"):
        testing.run_command(worker, "grown", input=b"3", format="html")
    for wrong in (
        {"media_type": "x"},
        {"media_type": "a/b"},
        {"media_type": "a/b", "extension": "a.b", "encode": bytes},
    ):
        with pytest.raises(ValueError, match=r"media type|needs encode|extension"):
            jobhall.codec(Shape, **wrong)
    with pytest.raises(TypeError, match="a codec is for a class"):
        jobhall.codec(list[int], media_type="a/b", encode=bytes)


# Versions.

Modules = Callable[..., types.ModuleType]


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Modules:
    """Writes files and loads the module ``app`` or ``pack.app`` from them, as a worker does when it starts."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load(files: dict[str, str], name: str = "app") -> types.ModuleType:
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        for known in [one for one in sys.modules if one.partition(".")[0] in ("app", "pack", "lib", "deep")]:
            monkeypatch.delitem(sys.modules, known)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    return load


def app(body: str = "return text", options: str = "", imports: str = "") -> str:
    return (
        f"import jobhall\n{imports}\nworker = jobhall.Worker()\n"
        f"@worker.command({options})\ndef clean(text: str, n: int = 1) -> str:\n    {body}\n"
    )


def version(module: types.ModuleType) -> str:
    freeze(module.worker.commands)
    return str(module.worker.commands["clean"].version)


def test_a_version_is_of_the_declaration_and_the_module(modules: Modules) -> None:
    first = version(modules({"app.py": app()}))
    assert version(modules({"app.py": app(), "other.py": ""})) == first
    assert len(first) == 16
    assert version(modules({"app.py": app() + "# a comment\n"})) != first
    assert version(modules({"app.py": app(options='help="a"')})) != first
    assert version(modules({"app.py": app()})) == first, "a revert is the old version"
    assert version(modules({"app.py": app(options='version="3"')})) == "3"
    worker = modules({"app.py": app()}).worker
    others = [worker.command("other")(fine), worker.command("third")(fine), worker.command("no", input=False)(fine)]
    assert len({one.version for one in others}) == 3


EDITS = "from pathlib import Path; file = Path(__file__); file.write_text(file.read_text().replace('text', 'word'))"


def test_an_edit_between_import_and_registration_is_noticed(modules: Modules, tmp_path: Path) -> None:
    started = time.time_ns()
    source = app(options='depends=["lib"]')
    worker = modules({"app.py": source, "lib.py": "A = 1"}).worker
    assert worker.commands["clean"].source.is_loaded
    assert freeze(worker.commands, started) == tmp_path / "lib.py", "what it depends on may be loaded already"
    assert freeze(worker.commands, time.time_ns() + 10**9) is None
    worker = modules({"app.py": app(imports=EDITS)}).worker
    assert not worker.commands["clean"].source.is_loaded
    assert freeze(worker.commands, started) == tmp_path / "app.py"
    function = modules({"app.py": "def later(text: str) -> str:\n    return text\n"}).later
    assert jobhall.Worker().command(function).source.is_loaded
    (tmp_path / "app.py").write_text("def later(text: str) -> str:\n    return text + text\n")
    assert not jobhall.Worker().command(function).source.is_loaded


@pytest.mark.parametrize("depends", ['depends=["lib"]', 'depends="lib"', 'depends="package"'])
def test_what_it_depends_on_counts(modules: Modules, depends: str, caplog: pytest.LogCaptureFixture) -> None:
    source = app(options=depends, imports="import lib")
    first = version(modules({"app.py": source, "lib.py": "A = 1"}))
    assert version(modules({"lib.py": "A = 2"})) != first
    assert version(modules({"lib.py": "A = 1"})) == first
    assert not caplog.records


def test_local_modules_that_do_not_count_are_named(modules: Modules, caplog: pytest.LogCaptureFixture) -> None:
    source = app(imports="import json, lib\nfrom jobhall import spec")
    version(
        modules(
            {"app.py": source, "lib/__init__.py": "def f():\n    from .inner import x", "lib/inner.py": "import deep"}
        )
    )
    version(modules({"deep.py": "x = 1"}))
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings[0] == (
        'app.py imports lib/__init__.py and lib/inner.py, which do not count: depends=["lib", "lib.inner"] or '
        'depends="package"'
    )
    assert 'depends=["deep", "lib", "lib.inner"]' in warnings[1]
    caplog.clear()
    version(modules({"app.py": source.replace("command()", 'command(depends=["lib", "deep"])')}))
    version(modules({"app.py": source.replace("command()", 'command(version="1")')}))
    assert not caplog.records


def test_modules_of_a_package(modules: Modules, caplog: pytest.LogCaptureFixture) -> None:
    files = {"pack/__init__.py": "", "pack/app.py": app(imports="from . import lib"), "pack/lib.py": "A = 1"}
    first = version(modules(files, "pack.app"))
    assert 'app.py imports lib.py, which does not count: depends=["pack.lib"]' in caplog.text
    caplog.clear()
    for depends in ('["pack.lib"]', '["lib"]', '"package"', '["pack"]'):
        changed = {"pack/app.py": app(options=f"depends={depends}", imports="from . import lib")}
        one = version(modules({**changed, "pack/lib.py": "A = 1"}, "pack.app"))
        two = version(modules({**changed, "pack/lib.py": "A = 2"}, "pack.app"))
        assert len({first, one, two}) == 3, depends
    assert not caplog.records


def test_code_that_cannot_be_read_is_refused(modules: Modules) -> None:
    with pytest.raises(ValueError, match="depends of the command clean: there is no module 'nothing'"):
        version(modules({"app.py": app(options='depends=["nothing"]')}))
    scope: dict[str, Any] = {}
    exec("def typed(text: str) -> str: return text", scope)
    worker = jobhall.Worker()
    command = worker.command(scope["typed"])
    with pytest.raises(ValueError, match="the command typed has no source file: write"):
        _ = command.version
    assert worker.command("other", version=1)(scope["typed"]).version == "1"


# Frames and figures, if their packages are installed.

SALES = b"region,amount\na,1\nb,2\na,3\n"


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_frames_are_read_and_written_in_each_form(worker: jobhall.Worker, package: str) -> None:
    module = pytest.importorskip(package)
    pytest.importorskip("pyarrow")

    def doubled(frame):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        if package == "pandas":
            return frame.assign(amount=frame["amount"] * 2)
        return frame.with_columns(amount=frame["amount"] * 2)

    doubled.__annotations__ = {"frame": module.DataFrame, "return": module.DataFrame}
    worker.command(doubled)
    command = worker.commands["doubled"]
    assert command.declaration["formats"] == ["csv", "html", "json", "parquet"]
    between = testing.run_command(worker, command, input=SALES)
    assert (between.media_type, between.content[:4]) == ("application/vnd.apache.parquet", b"PAR1")
    assert between.frame(package)["amount"].sum() == 12  # type: ignore[arg-type]
    again = testing.run_command(worker, command, input=between.content, format="csv")
    assert again.text() == "region,amount\na,4\nb,8\na,12\n"
    as_json = testing.run_command(worker, command, input=SALES, format=".json")
    assert as_json.json()[0] == {"region": "a", "amount": 2}
    as_html = testing.run_command(worker, command, input=b"region,amount\n<b>,1\n", format="html").text()
    assert "<td>&lt;b&gt;</td><td>2</td>" in as_html
    for wrong in (between.content[:9], b""):
        with pytest.raises(jobhall.JobFailed, match="'frame' of doubled cannot be made of the value before it"):
            testing.run_command(worker, command, input=wrong)


def test_an_index_of_pandas_that_says_something_is_a_column(worker: jobhall.Worker) -> None:
    pandas = pytest.importorskip("pandas")

    def summed(frame):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        return frame.groupby("region")["amount"].sum()

    def big(frame):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        return frame[frame["amount"] > 1]

    summed.__annotations__ = {"frame": pandas.DataFrame, "return": pandas.Series}
    big.__annotations__ = {"frame": pandas.DataFrame, "return": pandas.DataFrame}
    worker.command(media_type="text/csv")(summed)
    worker.command(big)
    assert testing.run_command(worker, "summed", input=SALES).text() == "region,amount\na,4\nb,2\n"
    assert testing.run_command(worker, "big", input=SALES, format="csv").text() == "region,amount\nb,2\na,3\n"
    with pytest.raises(NoForm, match="cannot be written as text/plain"):
        worker.command("third", media_type="text/plain")(big)


def test_a_figure_is_png_or_svg(worker: jobhall.Worker) -> None:
    figure = pytest.importorskip("matplotlib.figure")

    def plotted(values: list[float]):  # type: ignore[no-untyped-def]  # noqa: ANN202
        made = figure.Figure()
        made.add_subplot().plot(values)
        return made

    plotted.__annotations__["return"] = figure.Figure
    worker.command(plotted)
    assert worker.commands["plotted"].declaration["formats"] == ["png", "svg"]
    image = testing.run_command(worker, "plotted", input=[1, 3, 2])
    assert (image.media_type, image.content[1:4]) == ("image/png", b"PNG")
    codec = find(figure.Figure)
    assert codec is not None
    assert b"<svg" in codec.to_write("svg", None).encode(plotted([1, 2]))  # type: ignore[misc]


# The text of a query.


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (["numbers"], "numbers"),
        (["numbers", ("head", 3)], "numbers/head-3"),
        ([("between", datetime.date(2026, 1, 1), "2026-02-01")], "between-2026~_01~_01-2026~_02~_01"),
        ([("a", True, -7, 1.5, datetime.timedelta(minutes=1), Level.LOW)], "a-true-~_7-1.5-60000ms-1"),
        ([("a", "", ".", "~/ ü")], "a--~x2e-~~~I~.~xc3~xbc"),
        ([("a", ["b", ("c", "-")])], "a-~X~/b/c-~_~E"),
        (["a", "my report.csv"], "a/my~.report.csv"),
        ("any/text-is~.kept", "any/text-is~.kept"),
    ],
)
def test_steps_are_written_as_the_text_of_a_query(steps: Any, text: str) -> None:
    assert query_text(steps) == text


def test_a_command_that_asks_for_a_query_needs_a_server(worker: jobhall.Worker) -> None:
    @worker.command(input=False)
    def asks(ctx: jobhall.Context) -> bytes:
        return ctx.query_sync("numbers")

    with pytest.raises(jobhall.JobFailed, match="without a server"):
        testing.run_command(worker, asks)
