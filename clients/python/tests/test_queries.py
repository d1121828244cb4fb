"""Queries: commands in Python on a real server, and the client that asks."""

from __future__ import annotations

import concurrent.futures
import signal
import subprocess
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import jobhall
from jobhall import errors, query_text
from jobhall.testing import Server

from .conftest import binary, make_hall, wait_for
from .workers import WorkerProcess, running

ARGUMENTS = ("arguments", "a b", 1e-9, True, "2026-01-31", "90m", "red", "fast")


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the worker of ``commands_app.py``."""
    place = tmp_path_factory.mktemp("queries")
    hall = make_hall(place, "server")
    with running(hall, place, app="commands_app:worker") as worker:
        worker.wait_text("commands declared")
        yield hall
    hall.stop()


@pytest.fixture
def asking(queries: Server) -> Iterator[jobhall.Client]:
    with queries.client() as client:
        yield client


@pytest.mark.parametrize(
    ("query", "value", "media_type"),
    [
        ("numbers-4/head-2", b"1\n2\n", "text/plain; charset=utf-8"),
        ("numbers/raw", b"\n3\n2\n1", "application/octet-stream"),
        ("numbers/parsed/count_lines", b"3", "application/json"),
        ("numbers/parsed/lines.json", b'{"lines":["1","2","3"],"none":null,"number":1.5}', "application/json"),
        ("numbers-1/copied", b"copy of 1\n", "text/plain"),
        ("numbers-1/copied/copied", b"copy of copy of 1\n", "text/plain"),
        ("point-1-~_2/moved-3", b"4;1", "application/x-point"),
        ("point-1-2/p.svg", b"<!-- 1 -->", "image/svg+xml"),
        (["numbers", ("joined", [("numbers", 1)], ["numbers", "parsed"])], b"1\n2\n3\n+1\n+1.5", None),
        ("numbers-1/shouted", b"1\n", None),
        ("numbers/formed/list.csv", b"1,2,3", "text/csv"),
        ("numbers/formed/list.txt", b"1\n2\n3\n", "text/plain"),
        ("numbers/formed", b"1\n2\n3\n", "text/plain; charset=utf-8"),
    ],
)
def test_values_are_converted_by_annotation(
    asking: jobhall.Client, query: Any, value: bytes, media_type: str | None
) -> None:
    promise = asking.query(query)
    assert promise.value(timeout=20) == value
    assert media_type in (None, promise.meta.media_type)
    assert (promise.meta.size, promise.meta.state) == (len(value), "succeeded")


def test_arguments_are_converted_by_annotation_and_have_their_defaults(asking: jobhall.Client) -> None:
    shown = asking.query([ARGUMENTS]).json(timeout=20)
    assert shown == [
        *("'a b'", "1e-09", "True", "datetime.date(2026, 1, 31)", "datetime.timedelta(seconds=5400)"),
        *("<Colour.RED: 'red'>", "'fast'", "1", "None", "None", "1"),
    ]
    given = asking.query([(*ARGUMENTS, 2, "2026-01-31T12:00:00+00:00", 7, 8)])
    assert given.json(timeout=20)[-4:] == [
        *("2", "datetime.datetime(2026, 1, 31, 12, 0, tzinfo=datetime.timezone.utc)", "7", "8"),
    ]
    other = asking.query([(*ARGUMENTS, 2, "2026-01-31T12:00:00+00:00", 7, 9)])
    assert (other.meta.identity, other.meta.cache) == (given.meta.identity, "hit"), "threads is ignored"


def test_what_a_worker_declares_is_listed(asking: jobhall.Client) -> None:
    known = {one.name: one for one in asking.commands()}
    numbers = known["numbers"]
    assert (numbers.workers, numbers.command.help, numbers.command.cacheable) == (["commands"], "Counts.", True)
    assert [(one.name, one.type, one.default) for one in numbers.command.args] == [("count", "int", "3")]
    given = {one.name: one for one in known["arguments"].command.args}
    kinds = ["text", "number", "bool", "date", "span", "one_of", "one_of", "one_of", "text", "text", "int"]
    assert [one.type for one in given.values()] == kinds
    assert given["colour"].values == ["red", "blue"]
    assert given["level"].default == "1"
    assert given["threads"].ignore
    assert not given["text"].ignore
    assert [one.type for one in known["joined"].command.args] == ["link", "link"]
    assert known["formed"].command.formats == ["csv", "txt"]
    assert known["point"].command.formats == ["point", "svg"]
    assert known["clock"].command.volatile


def test_every_option_is_declared_and_a_step_is_repeated_if_it_says_so(asking: jobhall.Client) -> None:
    known = next(one for one in asking.commands() if one.name == "tried")
    command = known.command
    assert (known.version, command.help, command.expires) == ("2026.1", "has every option", "EOD Europe/Berlin")
    assert (command.retries, command.timeout, command.needs, command.uses) == (1, "1h30m", "gpu>=1", "gpu=1")
    assert (command.soft_volatile, command.volatile, command.cacheable) == (True, False, False)
    promise = asking.query("tried")
    assert promise.json(timeout=20) == 2
    assert len(asking.job(promise.id).attempts()) == 2


def test_the_text_of_steps_is_the_canonical_one(asking: jobhall.Client) -> None:
    texts = ["a b-c", "~/", "..", ".", "", "ü€😀", "-7", "a%2f?#&+", "\n", "'\"\\"]
    for text in texts:
        steps = [("arguments", text, 0.5, False, "2026-01-31", "1h", "blue", "slow")]
        promise = asking.query(steps)
        assert promise.meta.query == query_text(steps)
        assert promise.json(timeout=20)[0] == repr(text)
    assert asking.query(["numbers", ("head", 1), "re-port 1.txt"]).text(timeout=20) == "1\n"


def test_a_value_is_computed_once_and_its_promise_keeps_it(asking: jobhall.Client, tmp_path: Path) -> None:
    first = asking.query("numbers-7/head-5")
    assert first.meta.cache == "computed"
    assert first.meta.created == 2
    assert first.text(timeout=20) == "1\n2\n3\n4\n5\n"
    again = asking.query(["numbers", ("head", 5)])
    assert again.meta.cache == "computed", "the default of numbers is another argument"
    hit = asking.query([("numbers", 7), ("head", 5)])
    assert (hit.meta.cache, hit.id) == ("hit", first.id)
    assert asking.promise(first.id).value() == first.value()
    assert first.refresh().meta.cache == "computed"
    target = tmp_path / "five.txt"
    target.write_text("old")
    assert first.path(target, timeout=20).read_text() == "1\n2\n3\n4\n5\n"
    assert [one.name for one in tmp_path.iterdir()] == ["five.txt"]
    assert list(asking.job(asking.query("numbers-7").id).log()) == ["counting to 7"]
    assert asking.query("clock").value(timeout=20) != asking.query("clock").value(timeout=20)


def test_a_command_is_a_job_with_log_and_progress_in_each_way_to_run(asking: jobhall.Client) -> None:
    shouted = asking.query("numbers-2/shouted")
    assert shouted.text(timeout=20) == "1\n2\n"
    assert list(asking.job(shouted.id).log()) == ["HELLO"]
    apart = asking.query("numbers-2/apart")
    assert apart.text(timeout=20).startswith("1\n2\n")
    assert list(asking.job(apart.id).log()) == ["in a process"]
    assert asking.job(apart.id).data.type == "q.apart"


def failure(asking: jobhall.Client, query: Any) -> errors.QueryFailed:
    with pytest.raises(jobhall.QueryFailed) as caught:
        asking.query(query).value(timeout=20)
    assert caught.value.job is not None
    return caught.value


def test_an_exception_fails_the_step_with_its_traceback(asking: jobhall.Client) -> None:
    promise = asking.query("numbers/breaks/head-1")
    with pytest.raises(errors.StepFailed) as caught:
        promise.value(timeout=20)
    failed = caught.value
    assert (failed.code, failed.column, failed.query) == ("step_failed", 9, "numbers/breaks/head-1")
    assert "    numbers/breaks/head-1\n            ^^^^^^" in str(failed)
    assert 'raise KeyError("no such column")' in failed.detail
    assert failed.job is not None
    job = asking.job(failed.job)
    assert job.error is not None
    assert (job.error.reason, len(job.attempts())) == ("KeyError", 1)
    assert list(job.log()) == ["about to break"]
    with pytest.raises(errors.StepFailed):
        promise.value(timeout=20)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("head-2", "no_input: head needs an input: it cannot begin a query"),
        ("numbers/numbers", "unexpected_input: numbers takes no input"),
        (
            "numbers/count_lines",
            "bad_arguments: 'value' of count_lines cannot be made of the value before it: it is not",
        ),
        ("numbers/parsed/strict", "bad_arguments: 'value' of strict: argument 'input.lines' must be an integer"),
        ("numbers/moved-1", "bad_arguments: 'point' of moved cannot be made of the value before it: ValueError"),
        ("numbers/odd", "bad_value: odd returned a dict, which cannot be written: a value of type object cannot"),
        ("numbers/skips", "no_value: skips raised Skip"),
        ("large-65537", "value_too_large: the value has 65537 bytes, the limit is 65536"),
        ([(*ARGUMENTS, 1, "noon")], "bad_arguments: argument 'at' of arguments must be a time such as"),
        ([(*ARGUMENTS, 1, "", "x")], "bad_arguments: argument 'limit' of arguments must be a whole number, not 'x'"),
    ],
)
def test_what_cannot_be_converted_is_named(asking: jobhall.Client, query: Any, says: str) -> None:
    assert says in failure(asking, query).detail


def test_a_crash_a_time_out_and_a_cancel_are_told_apart(asking: jobhall.Client) -> None:
    crashed = failure(asking, "dies")
    assert isinstance(crashed, errors.StepCrashed)
    assert "exit_9" in crashed.detail
    assert "timed_out" in failure(asking, "slow").detail


def test_the_largest_value_is_reported(asking: jobhall.Client) -> None:
    for size in (65_535, 65_536):
        promise = asking.query([("large", size)])
        assert promise.text(timeout=20) == "é" * (size // 2) + "x" * (size % 2)


@pytest.mark.parametrize(
    ("query", "kind", "says"),
    [
        ("numbers/heed-2", errors.UnknownCommand, 'there is no command "heed"; did you mean head?'),
        ("numbers/head-x", errors.WrongArgument, 'lines of head is a whole number, not "x"'),
        ("numbers/head", errors.WrongArgument, "head"),
        ("numbers/head-1-2", errors.WrongArgument, "head"),
        ("numbers/~q", errors.QuerySyntax, "column"),
        ("numbers/formed/list.pdf", errors.FormatNotOffered, "csv, txt"),
        ("numbers/parsed/lines.csv", errors.FormatNotOffered, "json"),
    ],
)
def test_a_wrong_query_is_refused_with_its_place(
    asking: jobhall.Client, query: str, kind: type[errors.QueryError], says: str
) -> None:
    with pytest.raises(kind) as caught:
        asking.query(query)
    assert says in str(caught.value)
    assert caught.value.query == query
    assert str(caught.value).endswith("^"), "the place is marked"


def test_steps_that_are_none_are_refused_before_they_are_sent(asking: jobhall.Client) -> None:
    for steps in ([], [()], ["Numbers"], ["numbers", "head-2"], [("numbers", object())], [("numbers", None)], [3]):
        with pytest.raises(jobhall.InvalidRequest):
            asking.query(steps)  # type: ignore[arg-type]


def test_a_wait_has_a_limit(own_hall: Server, tmp_path: Path) -> None:
    """A value that nobody computes: its worker has gone."""
    with running(own_hall, tmp_path, app="commands_app:worker") as worker:
        worker.wait_text("commands declared")
    with own_hall.client() as client:
        promise = client.query("numbers")
        with pytest.raises(jobhall.WaitTimeout, match=r"has no value within 0\.2 s"):
            promise.value(timeout=0.2)
        with pytest.raises(jobhall.WaitTimeout):
            promise.path(tmp_path / "numbers.txt", timeout=0)
        assert not (tmp_path / "numbers.txt").exists()
        assert client.commands()[0].workers == []
        client.job(promise.id).cancel()
        with pytest.raises(errors.StepCancelled):
            promise.value(timeout=20)


async def test_the_asynchronous_client_asks_too(queries: Server, tmp_path: Path) -> None:
    async with queries.async_client() as client:
        promise = await client.query("numbers-6/head-2")
        assert await promise == b"1\n2\n"
        assert await promise.text() == "1\n2\n"
        assert (await promise.path(tmp_path / "two")).read_text() == "1\n2\n"
        assert await (await client.query("numbers/parsed/count_lines")).json(timeout=20) == 3
        assert "numbers" in [one.name for one in await client.commands()]
        broken = await client.query("numbers/breaks")
        with pytest.raises(jobhall.QueryFailed):
            await broken
        with pytest.raises(errors.UnknownCommand):
            await client.query("nombers")


# Workers with commands of their own.

APP = """\
import jobhall
import helpers

worker = jobhall.Worker(name={name!r})

@worker.command(input=False{options})
def greeting(name: str = "you") -> str:
    return {text!r} + helpers.END + name

@worker.command
def loud(text: str) -> str:
    return text.upper()
"""


def write_app(place: Path, text: str, *, name: str = "app", options: str = "", end: str = " ") -> None:
    place.mkdir(exist_ok=True)
    (place / "app.py").write_text(APP.format(text=text, name=name, options=options))
    (place / "helpers.py").write_text(f"END = {end!r}\n")


@contextmanager
def serving(hall: Server, place: Path, *options: str) -> Iterator[WorkerProcess]:
    with running(hall, place, *options, app="app:worker", directory=place) as worker:
        worker.wait_text("commands declared")
        yield worker


def test_an_edited_module_is_a_new_version_after_a_restart(own_hall: Server, tmp_path: Path) -> None:
    with own_hall.client() as client:
        write_app(tmp_path, "hello")
        with serving(own_hall, tmp_path) as worker:
            assert client.query("greeting/loud").text(timeout=20) == "HELLO YOU"
            warning = 'app.py imports helpers.py, which does not count: depends=["helpers"] or depends="package"'
            assert warning in worker.text()
            first = client.commands()[0].version
            write_app(tmp_path, "good morning")
            assert client.query("greeting-a").text(timeout=20) == "hello a", "what runs is the old file"
            worker.wait_text("app.py was edited")
        with serving(own_hall, tmp_path):
            promise = client.query("greeting/loud")
            assert promise.meta.cache == "computed"
            assert promise.text(timeout=20) == "GOOD MORNING YOU"
        write_app(tmp_path, "hello")
        with serving(own_hall, tmp_path):
            assert client.commands()[0].version == first, "a revert is the old version"
            assert client.query("greeting/loud").meta.cache == "hit"


def test_a_module_that_it_depends_on_counts(own_hall: Server, tmp_path: Path) -> None:
    options = ', depends=["helpers"]'
    with own_hall.client() as client:
        write_app(tmp_path, "hello", options=options)
        with serving(own_hall, tmp_path) as worker:
            assert client.query("greeting").text(timeout=20) == "hello you"
            # The other command of the module imports it as well.
            assert worker.text().count("does not count") == 1
        write_app(tmp_path, "hello", options=options, end="! ")
        with serving(own_hall, tmp_path):
            assert client.query("greeting").text(timeout=20) == "hello! you"


def test_reload_declares_an_edit_while_the_worker_runs(own_hall: Server, tmp_path: Path) -> None:
    write_app(tmp_path, "hello")
    with own_hall.client() as client, serving(own_hall, tmp_path, "--reload") as worker:
        assert client.query("greeting").text(timeout=20) == "hello you"
        write_app(tmp_path, "good night")
        worker.wait_text("commands declared", times=2)
        assert client.query("greeting").text(timeout=20) == "good night you"


TORN = """\
from pathlib import Path

if not Path("edited").exists():
    Path("edited").touch()
    Path(__file__).write_text(Path(__file__).read_text().replace("hel" "lo", "goodbye"))

import jobhall

worker = jobhall.Worker(name="torn")


@worker.command(input=False)
def greeting() -> str:
    return "hello"
"""


def test_an_app_that_was_edited_while_it_was_loaded_is_loaded_again(own_hall: Server, tmp_path: Path) -> None:
    """Otherwise the value of the old code would be stored under the version of the new one."""
    (tmp_path / "app.py").write_text(TORN)
    with own_hall.client() as client, serving(own_hall, tmp_path) as worker:
        assert "app.py was edited while it was loaded" in worker.text()
        assert client.query("greeting").text(timeout=20) == "goodbye"


def test_workers_of_two_versions_are_kept_apart(own_hall: Server, tmp_path: Path) -> None:
    write_app(tmp_path / "old", "old", name="old")
    write_app(tmp_path / "new", "new", name="new")
    with own_hall.client() as client, serving(own_hall, tmp_path / "old"):
        old = client.query("greeting")
        assert old.text(timeout=20) == "old you"
        with serving(own_hall, tmp_path / "new") as new:
            for n in range(5):
                assert client.query([("greeting", f"n{n}")]).text(timeout=20) == f"new n{n}"
            assert client.commands()[0].workers == ["new"]
            assert old.value() == b"old you", "a promise keeps its value"
            new.stop(signal.SIGTERM)
        promise = client.query("greeting-alone")
        with pytest.raises(jobhall.WaitTimeout):
            promise.value(timeout=0.3)
        assert "commands" in client.job(promise.id).explain().reasons[0].text


def test_a_lost_connection_does_not_bring_an_old_version_back(own_hall: Server, tmp_path: Path) -> None:
    write_app(tmp_path / "old", "old", name="old")
    write_app(tmp_path / "new", "new", name="new")
    with serving(own_hall, tmp_path / "old") as old, serving(own_hall, tmp_path / "new") as new:
        address = own_hall.url.removeprefix("http://")
        own_hall.stop()
        own_hall.start(address)
        for worker in (old, new):
            worker.wait_text("connected again")
        with own_hall.client() as client:
            assert client.query("greeting-x").text(timeout=20) == "new x"
            wait_for(lambda: client.commands()[0].workers == ["new"], "the worker with the new version")
        assert old.text().count("commands declared") == 1


def test_a_worker_that_reconnects_declares_only_what_is_unknown(tmp_path: Path) -> None:
    """With the token of a worker, and then to a server with the same address and other data."""
    write_app(tmp_path / "app", "hello")
    hall = make_hall(tmp_path / "first", "server")
    address = hall.url.removeprefix("http://")
    made = subprocess.run(
        [binary(), "token", "create", "app", "--role", "worker"],
        env={**hall.env, **hall.environ},
        capture_output=True,
        text=True,
        check=True,
    )
    admin = hall.data / "admin.token"
    tokens = tmp_path / "second" / "data"
    tokens.mkdir(parents=True)
    option = ["--token", made.stdout.split()[-1]]
    try:
        with serving(hall, tmp_path / "app", *option) as worker:
            hall.stop()
            hall.start(address)
            worker.wait_text("connected again")
            with hall.client() as client:
                assert client.query("greeting").text(timeout=20) == "hello you"
            assert "refused" not in worker.text()
            assert worker.text().count("commands declared") == 1
        with serving(hall, tmp_path / "app") as worker:
            hall.stop()
            (tokens / "admin.token").touch(mode=0o600)
            (tokens / "admin.token").write_text(admin.read_text())
            hall = Server(tmp_path / "second").start(address)
            worker.wait_text("commands declared", times=2)
            with hall.client() as client:
                assert client.query("greeting").text(timeout=20) == "hello you"
    finally:
        hall.stop()


GATE = """\
import time
from pathlib import Path

import jobhall

worker = jobhall.Worker(name="gate", slots=2)


@worker.command(input=False)
def gated(name: str) -> str:
    Path(name + ".begun").touch()
    try:
        while not Path(name + ".go").exists():
            time.sleep(0.01)
    except jobhall.worker.Cancelled:
        Path(name + ".cancelled").touch()
        raise
    return "went"
"""


def test_a_value_is_waited_for_over_a_restart_and_a_running_step_can_be_cancelled(
    own_hall: Server, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(GATE)
    with (
        serving(own_hall, tmp_path) as worker,
        own_hall.client() as client,
        concurrent.futures.ThreadPoolExecutor() as pool,
    ):
        promise, other = client.query("gated-a"), client.query("gated-b")
        value = pool.submit(promise.value, 30)
        for name in "ab":
            wait_for((tmp_path / f"{name}.begun").exists, "the step")
        own_hall.stop()
        own_hall.start(own_hall.url.removeprefix("http://"))
        worker.wait_text("connected again")
        client.job(other.id).cancel()
        with pytest.raises(errors.StepCancelled):
            other.value(timeout=20)
        assert (tmp_path / "b.cancelled").exists()
        (tmp_path / "a.go").touch()
        assert value.result(30) == b"went"


@contextmanager
def filters(hall: Server, place: Path, config: str) -> Iterator[None]:
    """A worker whose commands are processes."""
    (place / "worker.toml").write_text(textwrap.dedent(config))
    command = [binary(), "worker", "--config", str(place / "worker.toml"), "--name", "shell", "--slots", "1"]
    with (place / "shell.log").open("wb") as log:
        process = subprocess.Popen(command, env={**hall.env, **hall.environ}, stdout=log, stderr=log)
    try:
        with hall.client() as client:
            wait_for(lambda: any("shell" in one.workers for one in client.commands()), "the worker of filters")
        yield
    finally:
        process.terminate()
        process.wait(30)


def test_a_chain_mixes_commands_of_python_and_of_the_shell(queries: Server, tmp_path: Path) -> None:
    config = """
        [commands.reverse]
        run = ["sort", "-rn"]
        media_type = "text/plain"
    """
    with filters(queries, tmp_path, config), queries.client() as client:
        assert client.query("numbers-9/reverse/head-2/parsed/count_lines").json(timeout=20) == 2
        assert client.query("numbers-9/reverse/head-2").text(timeout=20) == "9\n8\n"


def test_a_command_asks_for_other_queries_while_it_runs(asking: jobhall.Client) -> None:
    assert asking.query("numbers-1/asks").text(timeout=20) == "1\n2\n1\n"
    assert asking.query([("numbers", 1), ("asks", "numbers-3/head-1")]).text(timeout=20) == "1\n1\n"
    assert asking.query("asks_async-12").text(timeout=60) == "." * 12, "deeper than there are slots"
    again = asking.query("numbers-1/asks")
    assert again.meta.cache == "hit"


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("numbers/breaks", "StepFailed step_failed"),
        ("dies", "StepCrashed step_crashed"),
        ("nambers", "UnknownCommand unknown_command"),
        ("numbers-x", "WrongArgument wrong_argument"),
        ("numbers/~q", "QuerySyntax query_syntax"),
    ],
)
def test_a_command_that_asks_gets_the_same_errors(asking: jobhall.Client, query: str, says: str) -> None:
    assert asking.query([("handles", query)]).text(timeout=20) == says


def test_a_failure_that_is_not_handled_fails_the_asker_with_the_chain(asking: jobhall.Client) -> None:
    failed = failure(asking, [("numbers", 2), ("asks", "numbers-2/breaks")])
    assert failed.detail.startswith("numbers-2/breaks (job ")
    assert "no such column" in failed.detail


def test_what_may_not_be_kept_is_made_by_the_asker(asking: jobhall.Client) -> None:
    promise = asking.query("throws")
    first, second, kept, unkept = promise.json(timeout=20)
    assert first == second, "once for an attempt"
    assert (kept, unkept) == ("1\n2\n1\n", "unkept 3")
    types = [job.data.type for job in asking.jobs(state="succeeded")]
    assert "q.throws" in types
    assert not {"q.dice", "q.unkept"} & set(types), "they are no jobs"


def test_a_command_that_asks_for_itself_fails_at_once(asking: jobhall.Client) -> None:
    assert "endless asks for endless" in failure(asking, "endless").detail
