"""Jobs that do nothing: the async Jobhall worker against Celery, RQ and the Rust session worker, in one run.

The jobs are queued before the worker starts. The runs alternate; the median counts. Celery runs with the best of its
pools, which a first round of shorter runs finds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from machine import DURABILITY, Goals, Machine, default_binary, missing, ratio, servers, table
from runs import Runs

POOLS = [("solo", 1, 512), ("threads", 2, 512), ("prefork", 1, 512), ("prefork", 2, 512), ("prefork", 2, 0)]


def best_pool(runs: Runs, count: int) -> tuple[str, int, int]:
    """The fastest setting of Celery."""
    found = {pool: runs.celery(count, *pool) for pool in POOLS}
    print(f"Celery's pools, one run of {count} jobs each (pool, concurrency, prefetch multiplier):")
    for pool, rate in found.items():
        print(f"  {pool!s:28} {rate:10.0f} jobs/s")
    return max(found, key=lambda pool: found[pool])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000, help="jobs of a run of Jobhall")
    parser.add_argument("--peer-jobs", type=int, default=5_000, help="jobs of a run of Celery and RQ: a steady rate")
    parser.add_argument("--slots", type=int, default=1_024, help="slots of the Jobhall workers, Python and Rust")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--binary", default=default_binary())
    parser.add_argument("--rust", default=default_binary("jobhall-bench-hall"))
    asked = parser.parse_args()
    goals, machine = Goals(), Machine()
    with servers(asked.binary) as (place, hall, redis):
        runs = Runs(place, hall, redis)
        turn: dict[str, Callable[[], float]] = {"jobhall async": lambda: runs.jobhall(asked.jobs, "async", asked.slots)}
        absent: dict[str, str] = {}
        for peer in ("celery", "rq"):
            if why := missing(peer):
                absent[peer] = why
        if "celery" not in absent:
            pool = best_pool(runs, asked.peer_jobs // 2)
            turn["celery"] = lambda: runs.celery(asked.peer_jobs, *pool)
            # For comparison: jobs that a worker has prefetched are lost if it dies.
            turn["celery, at most once (no goal)"] = lambda: runs.celery(asked.peer_jobs, "solo", 1, keeps=False)
        if "rq" not in absent:
            turn["rq"] = lambda: runs.rq(asked.peer_jobs)
        if Path(asked.rust).exists():
            turn["rust session worker"] = lambda: runs.rust(asked.jobs, asked.rust, asked.slots)
        else:
            absent["rust session worker"] = f"{asked.rust} does not exist"
        found: dict[str, list[float]] = {name: [] for name in turn}
        for _ in range(asked.turns):
            for name, run in turn.items():
                found[name].append(run())
    table(f"jobs that do nothing, median of {asked.turns} ({machine}):", found)
    print(DURABILITY)
    for name, goal in (("celery", 20), ("rq", 20), ("rust session worker", 0.25)):
        if name in absent:
            goals.not_proven(name, absent[name])
        else:
            goals.at_least(f"jobhall async / {name}", ratio(found, "jobhall async", name), goal)
    goals.end()


if __name__ == "__main__":
    main()
