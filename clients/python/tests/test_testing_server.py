"""The fixtures of the plugin, a worker in the test's process, and that jobs in process end as those of a server."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jobhall
from jobhall import models, spec, testing
from jobhall.worker import NoRetry, Retry, Skip, Snooze

from .conftest import CHECKOUT, binary

SOURCES = CHECKOUT / "clients/python/src"
SOON: Any = {"max_attempts": 3, "delay": "10ms", "max_delay": "20ms"}


@pytest.fixture(scope="module")
def server() -> Iterator[testing.Server]:
    with testing.Server() as server:
        yield server


worker = jobhall.Worker(slots=4, grace=0.2)


@worker.job("case")
def case(ctx: jobhall.Context, name: str, n: int = 0) -> Any:
    print(f"{name} {ctx.attempt}")
    match name:
        case "raise":
            raise ValueError("wrong") from KeyError("cause")
        case "second":
            if ctx.attempt == 1:
                raise Retry("once more", in_=0.01)
        case "now":
            raise Retry("at once")
        case "never":
            raise NoRetry("no use")
        case "snooze" if ctx.attempt < 4:
            raise Snooze(0.01)
        case "snooze, then fail":
            raise Snooze(0.01) if ctx.attempt < 3 else ValueError("after the snoozes")
        case "skip":
            raise Skip
        case "exit":
            sys.exit(3)
        case "unserialisable":
            return {1, 2}
        case "wait":
            while True:
                threading.Event().wait(0.01)
        case "sub":
            return sum(ctx.results_sync([ctx.submit_sync("case", name="value", n=one) for one in range(3)]))
    return n


CASES: dict[str, dict[str, Any]] = {
    **{name: {"name": name, "retry": SOON} for name in ("value", "raise", "second", "now", "never", "snooze", "skip")},
    "snoozes do not count": {"name": "snooze, then fail", "retry": {**SOON, "max_attempts": 2}},
    "exit": {"name": "exit", "max_attempts": 1},
    "unserialisable": {"name": "unserialisable", "retry": SOON},
    "not an integer": {"name": "value", "n": "x", "retry": SOON},
    "no such argument": {"name": "value", "other": 1},
    "missing argument": {"n": 1},
    "params are a list": {"params": [1]},
    "only crashes are retried": {"name": "raise", "retry": {**SOON, "on": ["crashed"]}},
    "at most once": {"name": "now", "at_most_once": True},
    "at most once, snoozed": {"name": "snooze", "at_most_once": True},
    "sub-jobs": {"name": "sub", "retry": SOON},
    "time-out": {"name": "wait", "timeout": 0.3, "retry": SOON},
    "silence": {"name": "wait", "silence": 0.3, "max_attempts": 1},
    "a time-out that is not retried": {"name": "wait", "timeout": 0.3, "retry": {**SOON, "on": ["failed"]}},
}


def _shape(state: str, result: Any, outcomes: list[Any], errors: list[Any]) -> dict[str, Any]:
    reasons = [error and (error.reason, (error.data or {}).get("exceptions")) for error in errors]
    return {"state": state, "result": result, "outcomes": outcomes, "reasons": reasons}


def _error(error: models.Failure | None) -> Any:
    """Reason and explanation, but not the lines of a traceback that differ."""
    return error and (error.reason, error.explanation.splitlines()[-1:])


def test_a_cancel_ends_as_on_a_server(server: testing.Server) -> None:
    with server.client() as client, server.run_worker(worker):
        job = client.submit(case, name="wait")
        assert next(job.log(follow=True)) == "wait 1"
        job.cancel().wait(timeout=20)
        (attempt,) = job.attempts()
    hall = testing.LocalHall(worker, cancel_when=lambda attempt: attempt.log() == ["wait 1"])
    mine = hall.run(case, name="wait")
    assert (mine.state, mine.outcomes, mine.error) == (job.state, [attempt.outcome], job.error)
    assert mine.last.error == attempt.error


def test_jobs_in_this_process_end_as_those_of_a_server(server: testing.Server) -> None:
    local = {name: testing.run(worker, case, **options) for name, options in CASES.items()}
    with server.client() as client, server.run_worker(worker):
        real = {name: client.submit(case, **options) for name, options in CASES.items()}
        for name, job in real.items():
            job.wait(timeout=30)
            attempts = job.attempts()
            expected = _shape(
                job.state,
                job.result() if job.state == "succeeded" else None,
                [attempt.outcome for attempt in attempts],
                [attempt.error for attempt in attempts],
            )
            mine = local[name]
            found = _shape(mine.state, mine.value, mine.outcomes, [attempt.error for attempt in mine.attempts])
            assert found == expected, name
            assert mine.log() == list(job.log()), name
            assert _error(mine.error) == _error(job.error), name
            assert mine.data.max_attempts == job.data.max_attempts, name
            assert mine.snoozed == job.data.snoozed, name


def test_the_options_of_the_decorator_count_if_the_function_is_submitted(server: testing.Server) -> None:
    other = jobhall.Worker()

    @other.job("other", needs="gpu>=4", max_attempts=7, timeout=60, queue="q7", priority=3)
    def function() -> None:
        pass

    with server.client() as client:
        job = client.submit(function, priority=4, retry={"delay": "1s"}, silence=5).data
        assert (job.needs, job.max_attempts, job.queue, job.priority) == ("gpu>=4", 7, "q7", 4)
        assert job.timeouts is not None
        assert (job.timeouts.total, job.timeouts.silence) == ("1m", "5s")
        (same,) = client.submit_many([spec(function)])
        assert client.job(same.id).data.queue == "q7"
    assert testing.run(other, function).data.max_attempts == 7
    assert testing.run(other, "other").data.max_attempts == 5


def test_a_worker_in_this_process_is_stopped_with_its_server(tmp_path: Path) -> None:
    with testing.Server(tmp_path) as server:
        running = server.run_worker(worker)
        assert worker.server is None, "the worker of the application is not changed"
        with server.client() as client:
            assert client.submit(case, name="value", n=4).result(timeout=20) == 4
        assert server.process is not None
        pid = server.process.pid
    assert not running._thread.is_alive()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_server_continues_with_its_data(tmp_path: Path) -> None:
    with testing.Server(tmp_path) as server:
        with server.client() as client:
            id = client.submit("x").id
        server.stop(9)
        server.start()
        with server.client() as client:
            assert client.job(id).state == "queued"


def test_what_cannot_start_is_a_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JOBHALL_BIN", str(tmp_path / "none"))
    with pytest.raises(jobhall.ConfigurationError, match="JOBHALL_BIN is"):
        testing.Server(tmp_path).start()
    monkeypatch.delenv("JOBHALL_BIN")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(jobhall.ConfigurationError, match="not on the PATH"):
        testing.find_binary()
    program = tmp_path / "jobhall"
    program.write_text("#!/bin/sh\necho no disk >&2\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(jobhall.JobhallError, match="ended with code 3:\nno disk"):
        testing.Server(tmp_path).start()


def test_a_worker_that_is_refused_says_why(server: testing.Server) -> None:
    with pytest.raises(Exception, match="token"):
        testing.RunningWorker(worker, server.url, "wrong")


FIXTURES = """
import os, sys
import pytest
import jobhall

worker = jobhall.Worker()

@worker.job("hello")
def hello(name: str) -> str:
    print("hello", name)
    return name

@pytest.fixture
def running(jobhall_server):
    with jobhall_server.run_worker(worker):
        yield

def test_one(running, jobhall_client, capsys):
    job = jobhall_client.submit(hello, name="a")
    assert job.result(timeout=20) == "a"
    assert list(job.log()) == ["hello a"], "the job's log, although pytest captures the streams"
    print("of the test")
    assert capsys.readouterr().out == "of the test\\n"
    assert jobhall.Client()._core.address == jobhall_client._core.address, "another server may run on this machine"
    assert jobhall.Client().job(job.id).data.params == {"name": "a"}
    assert "JOBHALL_TOKEN_FILE" not in os.environ

def test_two(running, jobhall_client):
    print("of the test")
    assert SCOPED
    assert jobhall_client.submit(hello, name="b").result(timeout=20) == "b"

def test_three_without_a_server():
    assert os.environ["JOBHALL_TOKEN_FILE"] == "/theirs"
    assert "JOBHALL_SERVER" not in os.environ
"""


@pytest.mark.parametrize(("scope", "jobs"), [("function", 0), ("session", 1)])
def test_the_fixtures_of_the_plugin(tmp_path: Path, scope: str, jobs: int) -> None:
    text = FIXTURES.replace("SCOPED", f"len(list(jobhall_client.jobs())) == {jobs}")
    if scope == "session":
        text = text[: text.index("def test_three")]
    (tmp_path / "test_app.py").write_text(text)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\njobhall_scope = {scope}\n")
    done = _pytest(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_scope_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_app.py").write_text("def test(jobhall_server): pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\njobhall_scope = class\n")
    done = _pytest(tmp_path)
    assert done.returncode != 0
    assert "jobhall_scope must be function, module or session, not 'class'" in done.stdout + done.stderr


def test_the_plugin_imports_nothing_of_the_client() -> None:
    program = "import sys, jobhall_pytest; print(sorted(m for m in sys.modules if m.startswith(('jobhall.', 'httpx'))))"
    env = {**os.environ, "PYTHONPATH": str(SOURCES)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def _pytest(directory: Path) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("JOBHALL_")}
    env |= {"PYTHONPATH": str(SOURCES), "JOBHALL_BIN": binary(), "JOBHALL_TOKEN_FILE": "/theirs"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "jobhall_pytest", "-p", "no:cacheprovider", "--rootdir=."]
    return subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, timeout=120)
