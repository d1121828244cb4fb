"""``worker.run()`` in a program, without the parent of ``python -m jobhall worker``: how it ends."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import jobhall

from .conftest import Hall, wait_for
from .workers import WorkerProcess, is_alive, outcomes, pids, start_program

NEVER = ["never_thread", "never_executor", "never_async"]


@pytest.fixture
def program(own_hall: Hall, tmp_path: Path) -> Iterator[WorkerProcess]:
    program = start_program(own_hall, tmp_path)
    try:
        program.wait_text("connected to")
        yield program
    finally:
        program.process.kill()
        program.process.wait(30)


@pytest.fixture
def own(own_hall: Hall) -> Iterator[jobhall.Client]:
    with own_hall.client() as client:
        yield client


def test_sigterm_lets_the_jobs_of_a_program_end(own: jobhall.Client, program: WorkerProcess, tmp_path: Path) -> None:
    go = tmp_path / "go"
    job = own.submit("steps", go=str(go))
    wait_for(lambda: job.refresh().state == "running", "the start")
    program.process.send_signal(signal.SIGTERM)
    program.wait_text("draining: no more jobs are taken, 1 still run")
    go.touch()
    assert program.process.wait(20) == 0
    assert job.refresh().state == "succeeded"
    assert "the program goes on" in program.text()


@pytest.mark.parametrize("type", NEVER)
def test_a_cancelled_job_that_never_ends_does_not_keep_a_program(
    own: jobhall.Client, program: WorkerProcess, tmp_path: Path, type: str
) -> None:
    begun = tmp_path / "begun"
    job = own.submit(type, begun=str(begun))
    wait_for(begun.exists, "the start")
    job.cancel()
    assert job.wait(timeout=20).state == "cancelled"
    assert own.submit("add", a=1).result(timeout=20) == 2, "the other slots are used"
    assert program.stop() == 0
    assert "the program goes on" in program.text()


@pytest.mark.parametrize("type", NEVER)
def test_a_second_sigterm_ends_a_program_whose_job_never_ends(
    own: jobhall.Client, program: WorkerProcess, tmp_path: Path, type: str
) -> None:
    begun = tmp_path / "begun"
    job = own.submit(type, begun=str(begun))
    wait_for(lambda: begun.exists() and job.refresh().state == "running", "the report of the start")
    program.process.send_signal(signal.SIGTERM)
    program.wait_text("draining: no more jobs are taken, 1 still run")
    assert program.stop() == 0
    assert "the program goes on" in program.text()
    wait_for(lambda: outcomes(job) == ["lost"], "the attempt given back")


def test_a_program_names_the_threads_that_it_waits_for(
    own: jobhall.Client, program: WorkerProcess, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    own.submit("leave_thread", begun=str(begun)).result(timeout=20)
    wait_for(begun.exists, "the thread")
    program.process.send_signal(signal.SIGTERM)
    program.wait_text("or at the next signal: left behind")
    program.wait_text("the program goes on")
    assert program.stop() == -signal.SIGTERM


def test_no_process_outlives_a_program_that_was_killed(
    own: jobhall.Client, program: WorkerProcess, tmp_path: Path
) -> None:
    own.submit("leave_program_process", max_attempts=1, params={"pid": str(tmp_path / "pid")})
    left = pids(tmp_path / "pid")
    tree = program.tree()
    assert left in tree
    program.stop(signal.SIGKILL)
    wait_for(lambda: not any(is_alive(pid) for pid in tree), "the end of all processes")
