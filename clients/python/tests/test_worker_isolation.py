"""A job that breaks what others of its worker use has a clear outcome, and the others go on."""

from __future__ import annotations

import json
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jobhall
from jobhall.worker import _parent, _reports

from .conftest import Hall, wait_for
from .workers import WorkerProcess, is_alive, outcomes, pids, running

APP = "hostile_app:worker"
KINDS = ["async", "thread", "process"]


@pytest.fixture(scope="module")
def worker(hall: Hall, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    with running(hall, tmp_path_factory.mktemp("hostile"), "--lease", "3", "--log", "debug", app=APP) as worker:
        yield worker


pytestmark = pytest.mark.usefixtures("worker")


def submit_text(hall: Hall, client: jobhall.Client, body: str) -> jobhall.Job:
    """Submits what no Python value is."""
    headers = {"Authorization": f"Bearer {hall.token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{hall.url}/api/v1/jobs", body.encode(), headers)
    with urllib.request.urlopen(request, timeout=20) as answer:
        found = answer.read().decode()
    return client.job(int(found.partition('"id":')[2].partition(",")[0]))


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_that_python_does_not_read_end_no_worker(
    hall: Hall, client: jobhall.Client, worker: WorkerProcess, kind: str
) -> None:
    child, digits = worker.child(), "9" * 5_000
    body = '{"type":"value_%s","params":{"value":%s},"retry":{"max_attempts":1}}'
    long = submit_text(hall, client, body % (kind, digits))
    assert long.result(timeout=20) == digits
    assert long.id in [one.id for one in client.jobs(type=f"value_{kind}")]
    infinite = submit_text(hall, client, body % (kind, "1e999")).wait(timeout=20)
    assert infinite.error is not None
    assert infinite.error.reason == "bad_result"
    assert client.submit(f"value_{kind}", value=1).result(timeout=20) == 1
    assert worker.child() == child


@pytest.mark.parametrize("kind", ["async", "process"])
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"priority": "high"}, "priority: invalid type"),
        ({"timeouts": {"total": "soon"}}, '"soon" is not a span of time'),
        ({"no_field": 1}, "unknown field `no_field`"),
    ],
)
def test_a_wrong_sub_job_fails_no_call_of_another_job(
    client: jobhall.Client, worker: WorkerProcess, tmp_path: Path, kind: str, options: dict[str, Any], says: str
) -> None:
    go, begun = tmp_path / "go", tmp_path / "begun"
    other = client.submit("waits_for_sub_job", max_attempts=1, params={"begun": str(begun), "go": str(go)})
    wait_for(begun.exists, "the sub-job of the other one")
    ends = worker.text().count("the connection to the server has ended")
    found = client.submit(f"wrong_options_{kind}", max_attempts=1, params={"options": options}).result(timeout=20)
    assert found.startswith("bad_request: the message is wrong at sub_job.job")
    assert says in found
    assert worker.text().count("the connection to the server has ended") == ends, "the session goes on"
    go.touch()
    assert other.result(timeout=20) == "done, second"
    assert len(other.attempts()) == 1


def test_what_a_process_cannot_ask_for_is_an_exception_there(client: jobhall.Client) -> None:
    assert client.submit("wrong_wait_process", max_attempts=1).result(timeout=20) == (
        "id of a sub-job must be an integer, not 'one'"
    )
    assert "not JSON compliant" in client.submit("wrong_params_process", max_attempts=1).result(timeout=20)


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("stop", "exit_1"),
        ("cancel all", "exit_1"),
        ("exit in a task", "exit_1"),
        ("close selector", "exit_1"),
        ("stopped process", "loop_blocked"),
    ],
)
def test_a_broken_event_loop_is_a_crash_and_the_worker_goes_on(
    client: jobhall.Client, worker: WorkerProcess, how: str, reason: str
) -> None:
    child = worker.child()
    with pytest.raises(jobhall.JobCrashed) as crashed:
        client.submit("break_loop", max_attempts=1, params={"how": how}).result(timeout=20)
    assert crashed.value.job.error is not None
    assert crashed.value.job.error.reason == reason
    assert client.submit("value_async", value=1).result(timeout=20) == 1
    assert worker.child() != child
    assert not is_alive(child)


def test_a_new_process_is_started_within_a_second() -> None:
    assert _parent.PAUSE_SECONDS[1] + _reports.FIRST_SECONDS < 1


@pytest.mark.parametrize("how", ["replaced", "none", "closed"])
def test_streams_that_a_job_breaks_are_whole_for_the_next_one(client: jobhall.Client, how: str) -> None:
    pid = client.submit("break_streams", max_attempts=1, params={"how": how}).result(timeout=20)
    for _ in range(3):
        job = client.submit("hello_process", max_attempts=1)
        assert (job.result(timeout=20) == pid) == (how != "closed")
        assert list(job.log()) == ["hello"]


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_a_log_line_with_a_wrong_format_is_no_failure(client: jobhall.Client, kind: str) -> None:
    job = client.submit(f"wrong_format_{kind}", max_attempts=1)
    job.result(timeout=20)
    lines = list(job.log())
    assert "--- Logging error ---" in lines
    assert "after it" in lines


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_a_result_that_the_server_refuses_is_not_tried_again(client: jobhall.Client, kind: str) -> None:
    job = client.submit(f"nested_{kind}", depth=100, max_attempts=1, retry={"max_attempts": 3})
    with pytest.raises(jobhall.JobFailed, match="bad_result: the server refused the result: value is nested deeper"):
        job.result(timeout=20)
    assert outcomes(job) == ["failed"]


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_a_signal_to_a_copy_that_has_not_begun_ends_only_the_copy(
    client: jobhall.Client, worker: WorkerProcess, kind: str
) -> None:
    child = worker.child()
    job = client.submit(f"fork_and_end_{kind}", count=50, max_attempts=1)
    assert job.result(timeout=20) == 50
    assert "draining" not in worker.text()
    assert worker.child() == child


@pytest.mark.parametrize("kind", KINDS)
def test_results_of_sub_jobs_that_do_not_fit_into_one_message_are_all_there(client: jobhall.Client, kind: str) -> None:
    """They have 3 MB; a message has at most 1 MiB."""
    job = client.submit(f"fan_out_{kind}", max_attempts=1, params={"count": 50, "size": 60_000})
    assert job.result(timeout=20) == [60_000] * 51


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [[200_000], [200_000, 300_000], [10, 200_000, 60_000, 300_000, 0]])
def test_large_results_of_sub_jobs_are_there(client: jobhall.Client, kind: str, sizes: list[int]) -> None:
    """Beyond 64 KiB they are artifacts."""
    job = client.submit(f"sub_job_sizes_{kind}", max_attempts=1, params={"sizes": sizes})
    assert job.result(timeout=20) == [[*sizes, sizes[0]], sizes]


def test_large_results_of_inputs_are_there(client: jobhall.Client) -> None:
    jobs = [client.submit("large_async", size=size) for size in (10, 60_000, 300_000)]
    assert client.submit("input_sizes", after=jobs, max_attempts=1).result(timeout=20) == [10, 60_000, 300_000]


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_an_artifact_with_a_name_that_is_a_path_is_an_exception(client: jobhall.Client, name: str) -> None:
    with pytest.raises(jobhall.JobFailed, match="is no name of an artifact"):
        client.submit("wrong_name", max_attempts=1, params={"name": name}).result(timeout=20)


def test_no_token_is_in_the_log_or_the_arguments_of_the_processes(
    hall: Hall, client: jobhall.Client, worker: WorkerProcess
) -> None:
    assert hall.token not in json.dumps(client.submit("environment").result(timeout=20))
    assert "DEBUG" in worker.text()
    assert hall.token not in worker.text()
    assert "Bearer" not in worker.text()
    for pid in worker.tree():
        assert hall.token not in Path(f"/proc/{pid}/cmdline").read_text()


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_artifacts_and_large_results_wait_for_a_server_that_restarts(own_hall: Hall, tmp_path: Path, kind: str) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    with own_hall.client() as own, running(own_hall, tmp_path, app=APP) as worker:
        job = own.submit(f"store_{kind}", max_attempts=1, params={"begun": str(begun), "go": str(go)})
        wait_for(lambda: begun.exists() and job.refresh().state == "running", "the start")
        address = own_hall.url.removeprefix("http://")
        own_hall.stop(signal.SIGKILL)
        go.touch()
        worker.wait_text("the server is unreachable")
        own_hall.start(address)
        assert job.result(timeout=30) == "x" * 300_000
        assert len(job.attempts()) == 1
        assert b"".join(job.read_artifact("a.txt")) == b"kept"


def test_a_program_that_a_thread_has_left_ends_with_a_drained_worker(own_hall: Hall, tmp_path: Path) -> None:
    with own_hall.client() as own, running(own_hall, tmp_path, app=APP) as worker:
        own.submit("leave_program", pid=str(tmp_path / "pid")).result(timeout=20)
        program = pids(tmp_path / "pid")
        assert is_alive(program)
        assert worker.stop() == 0
    assert not is_alive(program)
