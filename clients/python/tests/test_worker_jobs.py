"""Jobs on a worker that a user starts, in each way to run them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jobhall
from jobhall import spec

from .conftest import Hall, wait_for
from .workers import WorkerProcess, is_alive, outcomes, pids, running

KINDS = ["async", "thread", "process"]


@pytest.fixture(scope="module")
def worker(hall: Hall, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    with running(hall, tmp_path_factory.mktemp("worker")) as worker:
        yield worker


pytestmark = pytest.mark.usefixtures("worker")


def failure(job: jobhall.Job) -> tuple[str, str, Any]:
    error = job.wait(timeout=20).error
    assert error is not None, job.state
    return error.reason, error.explanation, error.data


def test_arguments_are_converted(client: jobhall.Client) -> None:
    boxes = [{"width": 2, "height": 3}, {"width": 4}]
    job = client.submit("typed", when="2030-01-31T12:00:00+00:00", size="large", boxes=boxes, path="a/b")
    assert job.result(timeout=20) == {"year": 2030, "size": "large", "area": 10, "path": "a/b"}


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"a": "2"}, "argument 'a' must be an integer, not a string ('2')"),
        ({}, "argument 'a' of add is missing"),
        ({"a": 1, "c": 2}, "add has no argument 'c' (it has: a, b)"),
        ([1], "params of add must be an object, not a list"),
    ],
)
def test_wrong_arguments_fail_without_a_retry(client: jobhall.Client, params: Any, says: str) -> None:
    job = client.submit("add", params=params, max_attempts=5)
    assert failure(job)[:2] == ("bad_arguments", says)
    assert job.data.attempt == 1


@pytest.mark.parametrize("kind", ["async", "thread", "process", "process_async"])
def test_each_kind_runs_where_it_says(client: jobhall.Client, worker: WorkerProcess, kind: str) -> None:
    found = client.submit(f"where_{kind}").result(timeout=20)
    assert (found["attempt"], found["type"]) == (1, f"where_{kind}")
    assert (found["pid"] == worker.child()) == ("process" not in kind)
    assert found["pid"] in worker.tree()


@pytest.mark.parametrize("kind", KINDS)
def test_output_belongs_to_its_attempt(client: jobhall.Client, tmp_path: Path, kind: str) -> None:
    go = str(tmp_path / "go")
    words = ["one", "two", "three"]
    jobs = {word: client.submit(f"speak_{kind}", word=word, begun=str(tmp_path / word), go=go) for word in words}
    wait_for(lambda: all((tmp_path / word).exists() for word in words), "three jobs at once")
    Path(go).touch()
    for word, job in jobs.items():
        job.result(timeout=20)
        lines = list(job.log())
        assert f"{word} printed" in lines
        assert any(line.endswith(f"INFO app: {word} logged") for line in lines)
        assert lines[-1] == f"{word} ends" or lines[-2] == f"{word} ends"
        assert all(word in line for line in lines), "a line of another job"
    if kind != "async":
        assert b"one to stderr\n" in jobs["one"].log_bytes(stream="stderr")
        assert b"one printed\n" in jobs["one"].log_bytes(stream="stdout")


def test_programs_of_a_process_are_captured_and_end_with_the_job(client: jobhall.Client, tmp_path: Path) -> None:
    job = client.submit("programs", leave=str(tmp_path / "pid"))
    job.result(timeout=20)
    assert list(job.log()) == ["from a program"]
    assert not is_alive(pids(tmp_path / "pid"))


@pytest.mark.parametrize("kind", ["async", "thread", "process", "process_async"])
def test_a_cancel_is_delivered_into_the_job(client: jobhall.Client, tmp_path: Path, kind: str) -> None:
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    job = client.submit(f"wait_{kind}", begun=str(begun), ended=str(ended))
    wait_for(begun.exists, "the start")
    job.cancel()
    with pytest.raises(jobhall.JobCancelled):
        job.result(timeout=20)
    assert ended.read_text() == "cancelled"


@pytest.mark.parametrize("kind", KINDS)
def test_a_timeout_is_delivered_into_the_job(client: jobhall.Client, tmp_path: Path, kind: str) -> None:
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    job = client.submit(f"wait_{kind}", timeout=0.3, max_attempts=1, params={"begun": str(begun), "ended": str(ended)})
    job.wait(timeout=20)
    assert outcomes(job) == ["timed_out"]
    assert ended.read_text() == "cancelled"


def test_progress_and_an_iterator(client: jobhall.Client, tmp_path: Path) -> None:
    go = tmp_path / "go"
    job = client.submit("steps", go=str(go))

    def shown() -> dict[str, tuple[int, int | None, str]]:
        progress = job.refresh().data.progress
        return {one.name: (one.step, one.total, one.message) for one in progress or []}

    wait_for(lambda: shown() == {"": (3, 3, "adding"), "second": (1, 2, "half")}, "the progress")
    go.touch()
    assert job.result(timeout=20) == 6


def test_progress_of_a_process_in_quick_succession(client: jobhall.Client, tmp_path: Path) -> None:
    go = tmp_path / "go"
    job = client.submit("steps_process", go=str(go))
    wait_for(lambda: [one.step for one in job.refresh().data.progress or []] == [2_000], "the last progress")
    go.touch()
    job.result(timeout=20)


@pytest.mark.parametrize("kind", ["fan_out", "fan_out_thread", "fan_out_process", "fan_out_process_async"])
def test_sub_jobs(client: jobhall.Client, kind: str) -> None:
    assert client.submit(kind, count=5).result(timeout=20) == 15


def test_the_failure_of_a_sub_job_is_an_exception(client: jobhall.Client) -> None:
    state, error = client.submit("sub_job_fails").result(timeout=20)
    assert (state, error["reason"]) == ("failed", "NoRetry")


@pytest.mark.parametrize("kind", ["verdict", "verdict_process"])
def test_verdicts(client: jobhall.Client, kind: str) -> None:
    def submit(verdict: str) -> jobhall.Job:
        return client.submit(kind, max_attempts=3, params={"verdict": verdict}).wait(timeout=20)

    retried, snoozed, skipped, failed = map(submit, ["retry", "snooze", "skip", "no_retry"])
    assert (retried.result(), retried.data.snoozed) == ("attempt 2", 0)
    assert (snoozed.result(), snoozed.data.snoozed) == ("attempt 2", 1)
    assert (skipped.result(), outcomes(skipped)) == (None, ["skipped"])
    assert list(skipped.log()) == ["skipped: nothing to do"]
    assert (failed.state, failed.data.attempt, failed.error and failed.error.reason) == ("failed", 1, "NoRetry")


@pytest.mark.parametrize("kind", KINDS)
def test_a_traceback_with_its_causes_explains_a_failure(client: jobhall.Client, kind: str) -> None:
    reason, explanation, data = failure(client.submit(f"raise_{kind}", max_attempts=1))
    assert reason == "RuntimeError"
    assert "KeyError: 'inner'" in explanation
    assert "worker_app.py" in explanation
    assert [one["type"] for one in data["exceptions"]] == ["RuntimeError", "KeyError"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("how", "reason", "says"),
    [
        ("unserialisable", "bad_result", "the result (a dict) cannot be written as JSON: a value of type set"),
        ("exit", "system_exit", "sys.exit(3)"),
        ("interrupt", "KeyboardInterrupt", "KeyboardInterrupt"),
        ("nul", "ValueError", "ValueError: a\\0b"),
        ("silent", "Silent", "worker_app.Silent"),
        ("endless delay", "ValueError", "in_ of inf seconds is outside 0 to 31536000"),
        ("text delay", "TypeError", "seconds must be seconds or a timedelta, not '5s'"),
    ],
)
def test_an_end_that_is_hard_to_report_has_a_clear_outcome(
    client: jobhall.Client, worker: WorkerProcess, kind: str, how: str, reason: str, says: str
) -> None:
    child = worker.child()
    job = client.submit(f"wrong_end_{kind}", max_attempts=1, params={"how": how})
    found, explanation, _ = failure(job)
    assert found == reason
    assert says in explanation
    assert outcomes(job) == ["failed"]
    assert worker.child() == child, "the worker process goes on"


def test_a_result_that_cannot_be_written_is_not_tried_again(client: jobhall.Client) -> None:
    job = client.submit("unserialisable", max_attempts=3)
    assert failure(job)[0] == "bad_result"
    assert outcomes(job) == ["failed"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_of_the_apps_own_conversion_fails_only_its_job(
    client: jobhall.Client, worker: WorkerProcess, kind: str
) -> None:
    child = worker.child()
    reason, explanation, _ = failure(client.submit(f"picky_{kind}", max_attempts=1, params={"what": {"name": "x"}}))
    assert reason == "LookupError"
    assert "x is not known" in explanation
    assert client.submit("add", a=1).result(timeout=20) == 2
    assert worker.child() == child


def test_wrong_progress_is_an_exception_of_the_job(client: jobhall.Client, worker: WorkerProcess) -> None:
    ends = worker.text().count("the connection to the server has ended")
    job = client.submit("wrong_progress")
    assert job.result(timeout=20) == [
        "step must be an integer, not 1.5",
        "step of -1 is outside 0 to 9223372036854775807",
        "total must be an integer, not '2'",
        f"name must be a string of at most 1024 bytes, not {'n' * 2_000!r:.80}",
    ]
    assert worker.text().count("the connection to the server has ended") == ends, "the session goes on"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("the type", "type has the character ' ' at byte 2"),
        ("a field", "invalid type: integer `5`, expected a string"),
        ("too large", "the limit is"),
    ],
)
def test_a_sub_job_that_the_server_cannot_take_is_an_exception(client: jobhall.Client, wrong: str, says: str) -> None:
    code, detail = client.submit("wrong_sub_job", max_attempts=1, params={"wrong": wrong}).result(timeout=20)
    assert code in ("bad_request", "too_large")
    assert says in detail
    assert client.submit("add", a=1).result(timeout=20) == 2, "the worker takes jobs again"


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_params_of_a_sub_job_are_written_as_arguments_are_read(client: jobhall.Client, kind: str) -> None:
    assert client.submit(f"time_{kind}", max_attempts=1).result(timeout=20) == "2030"


def test_a_sub_job_may_name_a_function(client: jobhall.Client) -> None:
    found = client.submit("sub_job_of_function").result(timeout=20)
    assert found["result"]["size"] == "small"
    made = client.job(found["id"]).data
    assert (made.type, made.needs, made.uses) == ("typed", "gpu>=1", "gpu=1")


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_may_end_processes_that_it_has_forked(client: jobhall.Client, worker: WorkerProcess, kind: str) -> None:
    """A signal to a copy of the worker process is none to the worker."""
    child = worker.child()
    for _ in range(3):
        assert client.submit(f"processes_{kind}", max_attempts=1).result(timeout=20) == [1, 2]
    assert "draining" not in worker.text()
    assert worker.child() == child


@pytest.mark.parametrize("kind", ["large", "large_process"])
def test_a_large_result_is_an_artifact(client: jobhall.Client, kind: str) -> None:
    job = client.submit(kind, size=300_000)
    assert job.result(timeout=20) == "x" * 300_000
    assert [one.name for one in job.artifacts()] == ["result"]


@pytest.mark.parametrize("kind", ["large", "large_process"])
def test_a_result_above_the_bound_is_refused_with_the_limit(client: jobhall.Client, kind: str) -> None:
    job = client.submit(kind, size=64 << 20, max_attempts=3)
    reason, explanation, _ = failure(job)
    assert reason == "result_too_large"
    assert "the limit is 67108864; store it with ctx.artifact" in explanation
    assert outcomes(job) == ["failed"], "another attempt would have the same result"


def test_artifacts_and_inputs(client: jobhall.Client, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(range(256)) * 1_000)
    job = client.submit("artifact", path=str(file))
    job.result(timeout=20)
    assert b"".join(job.read_artifact("bytes.txt")) == b"some bytes"
    assert b"".join(job.read_artifact("file")) == file.read_bytes()
    first = client.submit("add", a=2, b=3)
    assert client.submit_spec(spec("inputs", after=[first.id])).result(timeout=20) == [5]


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_forks_has_one_outcome(client: jobhall.Client, kind: str) -> None:
    job = client.submit(f"fork_{kind}", max_attempts=1)
    assert job.result(timeout=20) > 0
    assert client.submit("add", a=1).result(timeout=20) == 2, "the session goes on"


def test_context_variables_of_a_job_end_with_it(client: jobhall.Client) -> None:
    for value in ("one", "two", "three"):
        assert client.submit("context", value=value).result(timeout=20) == "nothing"


def test_a_burst_of_jobs_is_done(client: jobhall.Client) -> None:
    jobs = client.submit_many(spec("add", a=n) for n in range(500))
    assert client.results(jobs, timeout=30) == [n + 1 for n in range(500)]
