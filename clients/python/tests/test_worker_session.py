"""The session of a worker: slots, leases, and a server that goes away."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import jobhall
from jobhall.requests import SetType

from .conftest import Hall, wait_for
from .workers import outcomes, running


@pytest.fixture
def own(own_hall: Hall) -> Iterator[jobhall.Client]:
    with own_hall.client() as client:
        yield client


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("where", ["the same address", "another address"])
def test_attempts_are_kept_over_a_restart_of_the_server(
    own_hall: Hall, own: jobhall.Client, tmp_path: Path, where: str
) -> None:
    """From the worker's side, a restart at another address is a change of the leader."""
    go = tmp_path / "go"
    kinds = ["async", "thread", "process"]
    before = own_hall.url.removeprefix("http://")
    after = before if where == "the same address" else free_address()
    with running(own_hall, tmp_path, "--server", f"http://{before},http://{after}") as worker:
        jobs = [
            own.submit(f"speak_{kind}", max_attempts=1, params={"word": kind, "begun": str(begun), "go": str(go)})
            for kind in kinds
            for begun in [tmp_path / kind]
        ]
        wait_for(lambda: all((tmp_path / kind).exists() for kind in kinds), "the start")
        wait_for(lambda: all(job.refresh().state == "running" for job in jobs), "the report of the start")
        own_hall.stop(signal.SIGKILL)
        own_hall.start(after)
        own_hall.url = f"http://{after}"
        worker.wait_text("connected again")
        go.touch()
        client = own_hall.client()
        for job, kind in zip([client.job(job.id) for job in jobs], kinds, strict=True):
            job.result(timeout=20)
            (attempt,) = job.attempts()
            assert attempt.outcome == "succeeded"
            assert f"{kind} ends" in list(job.log())


def test_an_outcome_while_the_server_is_away_arrives_later(own_hall: Hall, own: jobhall.Client, tmp_path: Path) -> None:
    go = tmp_path / "go"
    with running(own_hall, tmp_path) as worker:
        job = own.submit("steps", go=str(go))
        wait_for(lambda: job.refresh().state == "running", "the start")
        address = own_hall.url.removeprefix("http://")
        own_hall.stop(signal.SIGKILL)
        go.touch()
        worker.wait_text("the server is unreachable")
        own_hall.start(address)
        assert job.result(timeout=20) == 6
        assert len(job.attempts()) == 1


def test_a_job_that_waits_gives_its_only_slot_back(own_hall: Hall, own: jobhall.Client, tmp_path: Path) -> None:
    with running(own_hall, tmp_path, "--slots", "1"):
        for kind in ("fan_out", "fan_out_thread", "fan_out_process", "fan_out_process_async"):
            assert own.submit(kind, count=3).result(timeout=20) == 6, kind


def test_jobs_wait_for_a_process(own_hall: Hall, own: jobhall.Client, tmp_path: Path) -> None:
    with running(own_hall, tmp_path, "--processes", "1"):
        pids = {own.submit("where_process").result(timeout=20)["pid"] for _ in range(3)}
        assert len(pids) == 1
        go = tmp_path / "go"
        first = own.submit("steps_process", go=str(go))
        wait_for(lambda: first.refresh().state == "running", "the first job")
        second = own.submit("where_process")
        wait_for(lambda: second.refresh().state == "accepted", "a job that waits for a process")
        cancelled = own.submit("where_process")
        wait_for(lambda: cancelled.refresh().state == "accepted", "another one")
        cancelled.cancel()
        assert cancelled.wait(timeout=20).state == "cancelled"
        go.touch()
        first.result(timeout=20)
        assert second.result(timeout=20)["pid"] in pids


def test_jobs_that_run_at_most_once(own_hall: Hall, own: jobhall.Client, tmp_path: Path) -> None:
    with running(own_hall, tmp_path):
        for kind in ("async", "thread", "process"):
            job = own.submit(f"where_{kind}", at_most_once=True, params={})
            assert job.result(timeout=20)["attempt"] == 1


def test_a_worker_that_starts_anew_ends_what_a_killed_one_ran(
    own_hall: Hall, own: jobhall.Client, tmp_path: Path
) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    with running(own_hall, tmp_path) as worker:
        job = own.submit("speak_thread", word="again", begun=str(begun), go=str(go))
        wait_for(begun.exists, "the start")
        worker.stop(signal.SIGKILL)
    go.touch()
    with running(own_hall, tmp_path):
        job.result(timeout=20)
        assert outcomes(job) == ["lost", "succeeded"]


def test_a_worker_stops_its_jobs_before_their_leases_end(own_hall: Hall, own: jobhall.Client, tmp_path: Path) -> None:
    assert own_hall.process is not None
    kinds = ["async", "thread", "process"]
    with running(own_hall, tmp_path, "--lease", "3") as worker:
        for kind in kinds:
            params = {"begun": str(tmp_path / kind), "ended": str(tmp_path / f"{kind} ended")}
            own.submit(f"wait_{kind}", params=params)
        wait_for(lambda: all((tmp_path / kind).exists() for kind in kinds), "the start")
        own_hall.process.send_signal(signal.SIGSTOP)
        try:
            wait_for(lambda: all((tmp_path / f"{kind} ended").exists() for kind in kinds), "the end of the jobs")
            worker.wait_text("its lease was not renewed in time", times=3)
        finally:
            own_hall.process.send_signal(signal.SIGCONT)
        worker.wait_text("connected again")
        jobs = list(own.jobs())
        wait_for(lambda: all(len(job.attempts()) == 2 for job in jobs), "second attempts")
        assert {outcomes(job)[0] for job in jobs} == {"lost"}
        for job in jobs:
            job.cancel()


def test_jobs_use_the_resources_of_the_worker(own_hall: Hall, own: jobhall.Client, tmp_path: Path) -> None:
    go = tmp_path / "go"
    with running(own_hall, tmp_path):
        jobs = [own.submit("steps", needs="gpu>=1", uses="gpu=1", params={"go": str(go)}) for _ in range(3)]
        wait_for(lambda: [job.refresh().state for job in jobs].count("running") == 2, "two jobs for two gpus")
        assert any("gpu" in reason.text for reason in jobs[2].explain().reasons)
        go.touch()
        assert [job.result(timeout=20) for job in jobs] == [6, 6, 6]


def test_external_work_is_only_started(own_hall: Hall, own: jobhall.Client, tmp_path: Path) -> None:
    own.set_type("add", SetType(external=True))
    with running(own_hall, tmp_path):
        job = own.submit("add", a=1)
        wait_for(lambda: job.refresh().state == "waiting", "the external work")
        job.cancel()
