"""One run of a worker over jobs that were queued before it started: Jobhall, the Rust session worker, Celery, RQ.

The time of a run is from the first job that ran until all have succeeded, so neither the start of the interpreter nor
the connection counts. The jobs that had run when the first one was seen are not counted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from jobs import Marks
from machine import HERE, Hall, Redis, clean_env, stop, until

LONGEST = 90.0


def observe(worker: subprocess.Popen[bytes], marks: Marks, count: int, all_succeeded: Callable[[], bool]) -> float:
    """Jobs per second."""
    deadline = time.monotonic() + LONGEST

    def wait(pause: float) -> None:
        if marks.count() < count and worker.poll() is not None:
            output = marks.directory.with_suffix(".log").read_text()[-2_000:]
            sys.exit(f"the worker ended with {worker.returncode} after {marks.count()} of {count} jobs\n{output}")
        if time.monotonic() > deadline:
            sys.exit(f"{count} jobs took longer than {LONGEST:.0f} s")
        time.sleep(pause)

    while not (before := marks.count()):
        wait(0.001)
    begun = time.perf_counter()
    while marks.count() < count:
        wait(0.002)
    while not all_succeeded():
        wait(0.001)
    return (count - before) / (time.perf_counter() - begun)


class Runs:
    """The runs of one measurement, each with marks of its own."""

    def __init__(self, place: Path, hall: Hall, redis: Redis | None) -> None:
        self.place = place
        self.hall = hall
        self.redis = redis
        self._numbers = 0

    def marks(self) -> Marks:
        self._numbers += 1
        return Marks(self.place / f"marks-{self._numbers}")

    def start(self, marks: Marks, command: Sequence[str], **env: str) -> subprocess.Popen[bytes]:
        redis = {"BENCH_REDIS": self.redis.url} if self.redis else {}
        names = {"JOBHALL_SERVER": self.hall.url, "JOBHALL_TOKEN": self.hall.token, "BENCH_MARKS": str(marks.directory)}
        environment = clean_env(self.place, **names, **redis, **env)
        with marks.directory.with_suffix(".log").open("wb") as log:
            return subprocess.Popen(command, cwd=HERE, env=environment, stdout=log, stderr=log)

    def submit_noops(self, count: int) -> None:
        self.hall.client.submit_many({"type": "noop", "params": {}} for _ in range(count))

    def jobhall(self, count: int, how: str, slots: int, processes: int = 1) -> float:
        self.submit_noops(count)
        goal = self.hall.succeeded() + count
        marks = self.marks()
        worker = self.start(marks, [sys.executable, "app_jobhall.py", how, str(slots), str(processes)])
        try:
            return observe(worker, marks, count, lambda: self.hall.succeeded() >= goal)
        finally:
            stop(worker)

    def rust(self, count: int, program: str, slots: int) -> float:
        """The Rust session worker, which measures itself from its first credit."""
        self.submit_noops(count)
        goal = self.hall.succeeded() + count
        command = [program, "noop", "--server", self.hall.url, "--jobs", str(count), "--slots", str(slots)]
        env = clean_env(self.place, JOBHALL_TOKEN=self.hall.token)
        ran = subprocess.run(command, env=env, check=True, capture_output=True, timeout=LONGEST)
        until(lambda: self.hall.succeeded() >= goal, "the jobs of the Rust worker")
        return float(json.loads(ran.stdout)["lives_per_second"])

    def celery(self, count: int, pool: str, concurrency: int, prefetch: int = 512, *, keeps: bool = True) -> float:
        """``keeps`` says that Redis keeps what a worker has prefetched until it acknowledges that."""
        assert self.redis is not None
        self._fill_celery(count)
        marks = self.marks()
        command = [sys.executable, "app_celery.py", pool, str(concurrency)]
        worker = self.start(marks, command, BENCH_PREFETCH=str(prefetch), BENCH_KEEPS=str(int(keeps)))
        try:
            return observe(worker, marks, count, lambda: True)
        finally:
            stop(worker)

    def _fill_celery(self, count: int) -> None:
        """Queues tasks as a producer does: one real message, repeated with other ids."""
        assert self.redis is not None
        connection = self.redis.connection
        connection.flushall()
        env = clean_env(self.place, BENCH_REDIS=self.redis.url, BENCH_MARKS=str(self.place))
        code = "import app_celery; app_celery.noop.apply_async(ignore_result=True)"
        subprocess.run([sys.executable, "-c", code], cwd=HERE, env=env, check=True, timeout=30)
        (message,) = connection.lrange("celery", 0, -1)
        whole = json.loads(message)
        old, tag = whole["headers"]["id"], whole["properties"]["delivery_tag"]
        text = message.decode()
        connection.delete("celery")
        many = (text.replace(old, _like(old, n)).replace(tag, _like(tag, n)) for n in range(count))
        connection.lpush("celery", *many)

    def rq(self, count: int) -> float:
        import rq

        assert self.redis is not None
        connection = self.redis.connection
        connection.flushall()
        queue = rq.Queue(connection=connection)
        prepared = [rq.Queue.prepare_data("jobs.noop", result_ttl=0) for _ in range(count)]
        for start in range(0, count, 2_000):
            queue.enqueue_many(prepared[start : start + 2_000])
        marks = self.marks()
        worker = self.start(marks, [sys.executable, "app_rq.py", "burst"])
        try:
            return observe(worker, marks, count, lambda: queue.count == 0)
        finally:
            stop(worker)


def _like(uuid: str, number: int) -> str:
    return f"{number:08x}{uuid[8:]}"
