"""From the call that submits a job to the first line of its function, on idle workers: Jobhall against Celery and RQ.

One job at a time; the peers take turns of a few jobs, so that a change of the machine's speed reaches all of them. Both
times are of the clock that all processes of the machine share.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from jobs import Marks
from machine import DURABILITY, Goals, Machine, default_binary, missing, servers, stop
from runs import Runs

LONGEST = 10.0
BLOCK = 10
"""Jobs of a peer in a row, after one that does not count: it finds the memory of the other peers in the caches."""
PAUSE = 0.001
"""Before each look at the marks. They have the time of the start; a look takes CPU from the worker."""


@dataclass
class Peer:
    """A way to submit a job, and the marks of its idle worker."""

    name: str
    submit: Callable[[], Any]
    marks: Marks
    worker: Any
    times: list[float] = field(default_factory=list)

    def one(self) -> float:
        """Milliseconds."""
        count = self.marks.count()
        begun = time.monotonic_ns()
        self.submit()
        deadline = time.monotonic() + LONGEST
        time.sleep(PAUSE)
        while self.marks.count() == count:
            if time.monotonic() > deadline:
                sys.exit(f"{self.name}: a job was not started within {LONGEST:.0f} s")
            time.sleep(PAUSE)
        return (self.marks.last_start() - begun) / 1e6


def of_jobhall(runs: Runs, how: str) -> Peer:
    marks, kind = runs.marks(), f"stamp-{how}"
    worker = runs.start(marks, [sys.executable, "app_jobhall.py", how, "4", "1", kind])
    return Peer(f"jobhall {how}", partial(runs.hall.client.submit, kind), marks, worker)


def of_celery(runs: Runs, pool: str) -> Peer:
    """Each pool has a queue of its own."""
    assert runs.redis is not None
    os.environ["BENCH_REDIS"] = runs.redis.url
    import app_celery

    marks = runs.marks()
    worker = runs.start(marks, [sys.executable, "app_celery.py", pool, "2", pool])
    return Peer(f"celery {pool}", partial(app_celery.stamp.apply_async, queue=pool), marks, worker)


def of_rq(runs: Runs) -> Peer:
    import rq

    assert runs.redis is not None
    queue, marks = rq.Queue(connection=runs.redis.connection), runs.marks()
    worker = runs.start(marks, [sys.executable, "app_rq.py", "stay"])
    return Peer("rq", partial(queue.enqueue, "jobs.stamp", result_ttl=0), marks, worker)


def measure(runs: Runs, jobs: int) -> list[Peer]:
    peers: list[Peer] = []
    try:
        peers += [of_jobhall(runs, how) for how in ("async", "thread")]
        if missing("celery") is None:
            peers += [of_celery(runs, pool) for pool in ("solo", "threads", "prefork")]
        if missing("rq") is None:
            peers.append(of_rq(runs))
        order, chance = list(peers), random.Random(1)
        for turn in range(1 + -(-jobs // BLOCK)):
            # Whoever comes after a slow peer finds a slower machine.
            chance.shuffle(order)
            for peer in order:
                peer.one()
                times = [peer.one() for _ in range(BLOCK)]
                if turn > 0:
                    peer.times += times
    finally:
        for peer in peers:
            stop(peer.worker)
    return peers


def sync_time(place: Path) -> float:
    """Milliseconds of one sync of a page: Jobhall does it before it answers, and before a worker gets the job."""
    times = []
    with (place / "sync").open("wb") as file:
        for _ in range(200):
            file.seek(0)
            file.write(b"x" * 4_096)
            file.flush()
            begun = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - begun) * 1e3)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--binary", default=default_binary())
    asked = parser.parse_args()
    goals, machine = Goals(), Machine()
    with servers(asked.binary) as (place, hall, redis):
        peers = measure(Runs(place, hall, redis), asked.jobs)
        sync = sync_time(place)
    print(f"submit to start on idle workers, {asked.jobs} jobs each, in ms ({machine}):")
    for peer in peers:
        p95 = statistics.quantiles(peer.times, n=20)[18]
        print(f"  {peer.name:28} p50 {statistics.median(peer.times):7.2f}   p95 {p95:7.2f}")
    print(f"  {'one fdatasync on this disk':28} p50 {sync:7.2f}")
    print(DURABILITY)
    p50 = {peer.name: statistics.median(peer.times) for peer in peers}
    if why := missing("celery"):
        goals.not_proven("celery", why)
    else:
        goals.at_most("jobhall async / celery prefork", p50["jobhall async"] / p50["celery prefork"], 0.5)
        for pool in ("threads", "solo"):
            print(f"  jobhall async / celery {pool:11} {p50['jobhall async'] / p50[f'celery {pool}']:8.2f}   no goal")
    if why := missing("rq"):
        goals.not_proven("rq", why)
    goals.end()


if __name__ == "__main__":
    main()
