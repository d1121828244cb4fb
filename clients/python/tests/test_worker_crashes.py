"""Jobs that end their process, or never end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import jobhall

from .conftest import Hall, wait_for
from .workers import WorkerProcess, is_alive, pids, running


@pytest.fixture
def worker(own_hall: Hall, tmp_path: Path) -> Iterator[WorkerProcess]:
    with running(own_hall, tmp_path, "--lease", "3") as worker:
        yield worker


@pytest.fixture
def own(own_hall: Hall) -> Iterator[jobhall.Client]:
    with own_hall.client() as client:
        yield client


def crash(job: jobhall.Job) -> tuple[str, str]:
    with pytest.raises(jobhall.JobCrashed) as crashed:
        job.result(timeout=20)
    assert crashed.value.job.error is not None
    return crashed.value.job.error.reason, crashed.value.job.error.explanation


def test_a_process_that_dies_takes_no_other_job_with_it(
    own: jobhall.Client, worker: WorkerProcess, tmp_path: Path
) -> None:
    begun, ended, child = tmp_path / "begun", tmp_path / "ended", worker.child()
    other = own.submit("wait_process", begun=str(begun), ended=str(ended))
    wait_for(begun.exists, "the other job")
    jobs = [own.submit("die_process", max_attempts=1, params={"how": how}) for how in ("segv", "exit", "kill")]
    found = [crash(job) for job in jobs]
    assert [reason for reason, _ in found] == ["signal_11", "exit_3", "signal_9"]
    assert "SIGSEGV" in found[0][1]
    assert all(next(iter(job.log())) == "before the end" for job in jobs)
    assert own.submit("where_process").result(timeout=20)["pid"] in worker.tree()
    assert other.refresh().state == "running"
    other.cancel()
    assert other.wait(timeout=20).state == "cancelled"
    assert worker.child() == child, "the worker process goes on"


def test_a_process_that_dies_before_it_takes_its_job_costs_no_attempt(
    own: jobhall.Client, worker: WorkerProcess
) -> None:
    pid = own.submit("where_process").result(timeout=20)["pid"]
    os.kill(pid, signal.SIGSTOP)
    job = own.submit("where_process", max_attempts=1, params={})
    wait_for(lambda: job.refresh().state == "running", "the job given to the process")
    os.kill(pid, signal.SIGKILL)
    assert job.result(timeout=20)["pid"] != pid


def test_the_end_of_the_template_ends_its_processes_only(
    own: jobhall.Client, worker: WorkerProcess, tmp_path: Path
) -> None:
    pid = own.submit("where_process").result(timeout=20)["pid"]
    params = {"begun": str(tmp_path / "begun"), "ended": str(tmp_path / "ended")}
    job = own.submit("wait_process", max_attempts=1, params=params)
    wait_for((tmp_path / "begun").exists, "the start")
    template = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    assert template not in (worker.child(), worker.process.pid)
    os.kill(template, signal.SIGKILL)
    assert crash(job)[0] == "signal_9"
    assert own.submit("where_process").result(timeout=20)["pid"] != pid
    assert not is_alive(pid)


def test_a_process_that_ignores_its_cancel_is_killed_with_its_programs(
    own: jobhall.Client, worker: WorkerProcess, tmp_path: Path
) -> None:
    job = own.submit("stubborn_process", begun=str(tmp_path / "begun"))
    program = pids(tmp_path / "begun")
    job.cancel()
    assert job.wait(timeout=20).state == "cancelled"
    assert not is_alive(program)
    assert own.submit("add", a=1).result(timeout=20) == 2


@pytest.mark.parametrize(
    ("type", "how", "reason", "says"),
    [
        ("die_thread", {"how": "segv"}, "signal_11", "SIGSEGV"),
        ("die_thread", {"how": "exit"}, "exit_3", "exited with code 3"),
        ("die_async", {}, "signal_9", "SIGKILL"),
    ],
)
def test_the_parent_reports_what_a_dead_process_ran(
    own: jobhall.Client, worker: WorkerProcess, tmp_path: Path, type: str, how: dict[str, str], reason: str, says: str
) -> None:
    begun, child = tmp_path / "begun", worker.child()
    params = {"begun": str(begun), "ended": str(tmp_path / "ended")}
    other = own.submit("wait_thread", max_attempts=1, params=params)
    wait_for(begun.exists, "the other job")
    dead = own.submit(type, max_attempts=1, params=how)
    for job in (dead, other):
        found, explanation = crash(job)
        assert found == reason
        assert says in explanation
    assert own.submit("where_thread").result(timeout=20)["pid"] != child
    assert not is_alive(child)


def test_a_crash_while_the_server_is_away_is_reported_when_it_is_back(
    own_hall: Hall, own: jobhall.Client, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    with running(own_hall, tmp_path) as worker:
        job = own.submit("die_thread", max_attempts=1, params={"how": "segv", "begun": str(begun)})
        wait_for(lambda: job.refresh().state == "running", "the start")
        address = own_hall.url.removeprefix("http://")
        own_hall.stop(signal.SIGKILL)
        begun.touch()
        worker.wait_text("attempts have crashed")
        own_hall.start(address)
        assert crash(job)[0] == "signal_11"
        assert own.submit("add", a=1).result(timeout=20) == 2


def test_a_blocked_event_loop_is_reported(own: jobhall.Client, worker: WorkerProcess) -> None:
    reason, explanation = crash(own.submit("block", max_attempts=1))
    assert reason == "loop_blocked"
    assert "event loop of the worker was blocked" in explanation
    assert own.submit("add", a=1).result(timeout=20) == 2


def test_a_job_that_blocks_the_event_loop_is_accepted_and_runs_once(
    own_hall: Hall, own: jobhall.Client, tmp_path: Path
) -> None:
    runs, go, begun = tmp_path / "runs", tmp_path / "go", tmp_path / "begun"
    runs.touch()
    with running(own_hall, tmp_path) as worker:
        blocks = jobhall.spec("block_until", runs=str(runs), go=str(go))
        waits = jobhall.spec("wait_async", begun=str(begun), ended=str(tmp_path / "ended"))
        jobs = [own.job(one.id) for one in own.submit_many([blocks, waits])]
        wait_for(lambda: all(job.refresh().state == "running" for job in jobs), "both reported")
        worker.wait_text("a job blocks the event loop of the worker")
        go.touch()
        jobs[0].result(timeout=20)
        worker.wait_text("the event loop of the worker runs again")
        wait_for(begun.exists, "the job that waited for the event loop")
        jobs[1].cancel()
        assert jobs[1].wait(timeout=20).state == "cancelled"
        assert runs.read_text() == "ran\n"


@pytest.mark.parametrize("kind", ["async", "thread"])
def test_a_job_that_never_ends_costs_its_slot_until_the_process_is_replaced(
    own: jobhall.Client, worker: WorkerProcess, tmp_path: Path, kind: str
) -> None:
    begun, go, other_begun = tmp_path / "begun", tmp_path / "go", tmp_path / "other"
    child = worker.child()

    def free_slots() -> list[int]:
        return [one.slots for one in own.workers()]

    other = own.submit("wait_thread", begun=str(other_begun), ended=str(tmp_path / "ended"))
    job = own.submit(f"stubborn_{kind}", begun=str(begun), go=str(go))
    wait_for(lambda: begun.exists() and other_begun.exists(), "two jobs")
    job.cancel()
    assert job.wait(timeout=20).state == "cancelled"
    assert any("did not end within 0.5 s of its cancel and still runs" in line for line in job.log())
    worker.wait_text("1 of 8 slots are lost")
    wait_for(lambda: free_slots() == [6], "the lost slot shown by the server")
    assert worker.child() == child, "another job still runs"
    other.cancel()
    worker.wait_text("connected to", times=2)
    assert worker.child() != child
    assert not is_alive(child)
    wait_for(lambda: free_slots() == [8], "all slots")
    assert own.submit("add", a=1).result(timeout=20) == 2


@pytest.mark.parametrize("kind", ["async", "thread"])
def test_a_job_that_ends_after_its_grace_returns_its_slot(
    own: jobhall.Client, worker: WorkerProcess, tmp_path: Path, kind: str
) -> None:
    begun, go, other_begun = tmp_path / "begun", tmp_path / "go", tmp_path / "other"
    child = worker.child()
    other = own.submit("wait_thread", begun=str(other_begun), ended=str(tmp_path / "ended"))
    job = own.submit(f"stubborn_{kind}", begun=str(begun), go=str(go))
    wait_for(lambda: begun.exists() and other_begun.exists(), "two jobs")
    job.cancel()
    worker.wait_text("1 of 8 slots are lost")
    wait_for(lambda: [one.slots for one in own.workers()] == [6], "the lost slot")
    go.touch()
    wait_for(lambda: [one.slots for one in own.workers()] == [7], "the slot is there again")
    other.cancel()
    assert other.wait(timeout=20).state == "cancelled"
    assert worker.child() == child


@pytest.mark.parametrize("dies", ["parent", "child", "both"])
def test_no_process_outlives_a_worker_that_was_killed(
    own: jobhall.Client, worker: WorkerProcess, tmp_path: Path, dies: str
) -> None:
    kinds = ["thread", "process"]
    jobs = [own.submit(f"leave_program_{kind}", max_attempts=1, params={"pid": str(tmp_path / kind)}) for kind in kinds]
    programs = {pids(tmp_path / kind) for kind in kinds}
    tree = worker.tree() - ({worker.process.pid} if dies == "child" else set())
    assert programs | {worker.child()} < tree
    killed = {"parent": [worker.process.pid], "child": [worker.child()]}
    for pid in killed.get(dies, [*killed["child"], *killed["parent"]]):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not any(is_alive(pid) for pid in tree), "the end of all processes")
    for job in jobs:
        if dies == "child":
            assert crash(job)[0] == "signal_9"
        else:
            job.cancel()
