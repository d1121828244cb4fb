"""Workers of tests: ``python -m jobhall worker`` as a user starts it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import jobhall

from .conftest import CHECKOUT, Hall, wait_for

TESTS = Path(__file__).resolve().parent
SOURCES = CHECKOUT / "clients/python/src"


@dataclass
class WorkerProcess:
    process: subprocess.Popen[bytes]
    log: Path

    def text(self) -> str:
        return self.log.read_text()

    def wait_text(self, text: str, times: int = 1) -> None:
        def is_there() -> bool:
            found = self.text().count(text) >= times
            assert found or self.process.poll() is None, self.text()
            return found

        wait_for(is_there, f"{text!r} in the log of the worker")

    def child(self) -> int:
        """The process that runs the jobs."""
        listed = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        (pid, *_) = Path(listed).read_text().split()
        return int(pid)

    def tree(self) -> set[int]:
        """All processes of the worker."""
        found, open_ = set[int](), [self.process.pid]
        while open_:
            pid = open_.pop()
            found.add(pid)
            for listed in Path(f"/proc/{pid}/task").glob("*/children"):
                open_ += map(int, listed.read_text().split())
        return found

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(30)


def start_worker(
    hall: Hall, place: Path, *options: str, app: str = "worker_app:worker", directory: Path = TESTS
) -> WorkerProcess:
    return start(hall, place, ["-m", "jobhall", "worker", app, *options], directory)


def start_program(hall: Hall, place: Path) -> WorkerProcess:
    """``worker.run()`` in a program of the user, without a parent process."""
    return start(hall, place, [str(TESTS / "program.py")], TESTS)


def start(hall: Hall, place: Path, arguments: list[str], directory: Path) -> WorkerProcess:
    log = place / "worker.log"
    env = hall.env | {"JOBHALL_SERVER": hall.url, "JOBHALL_TOKEN": hall.token, "PYTHONPATH": str(SOURCES)}
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    command = [sys.executable, *arguments]
    with log.open("wb") as file:
        process = subprocess.Popen(command, cwd=directory, env=env, stdout=file, stderr=file)
    return WorkerProcess(process, log)


@contextmanager
def running(
    hall: Hall, place: Path, *options: str, app: str = "worker_app:worker", directory: Path = TESTS
) -> Iterator[WorkerProcess]:
    """A connected worker, which leaves no process behind."""
    worker = start_worker(hall, place, *options, app=app, directory=directory)
    try:
        worker.wait_text("connected to")
        yield worker
    finally:
        tree = worker.tree() if worker.process.poll() is None else set[int]()
        try:
            worker.stop()
        finally:
            worker.process.kill()
        wait_for(lambda: not any(is_alive(pid) for pid in tree), "the end of all processes of the worker")


def is_alive(pid: int) -> bool:
    """Whether a process runs: one that has ended and was not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def outcomes(job: jobhall.Job) -> list[str | None]:
    """The outcomes of the attempts, the oldest first."""
    return [one.outcome for one in sorted(job.attempts(), key=lambda one: one.assigned_at)]


def pids(path: Path) -> int:
    wait_for(path.exists, str(path))
    wait_for(lambda: bool(path.read_text()), str(path))
    return int(path.read_text())
