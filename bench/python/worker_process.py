"""Jobs in processes: the Jobhall worker against Celery's prefork pool with as many processes, in one run.

The jobs do nothing and are queued before the worker starts. The runs alternate; the median counts. Celery runs with the
best of several prefetch settings, which a first round of shorter runs finds.

"""

from __future__ import annotations

import argparse

from machine import DURABILITY, Goals, Machine, default_binary, missing, ratio, servers, table
from runs import Runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000, help="jobs of a run of Jobhall")
    parser.add_argument("--peer-jobs", type=int, default=5_000, help="jobs of a run of Celery: a steady rate")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--slots", type=int, default=64, help="processes that run and jobs that wait for them")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--binary", default=default_binary())
    asked = parser.parse_args()
    goals, machine = Goals(), Machine()
    processes = asked.processes
    with servers(asked.binary) as (place, hall, redis):
        runs = Runs(place, hall, redis)
        why = missing("celery")
        found: dict[str, list[float]] = {"jobhall process": [], "celery prefork": []}
        prefetch = 512
        if why is None:
            short = {n: runs.celery(asked.peer_jobs // 2, "prefork", processes, n) for n in (1, 4, 64, 512, 0)}
            prefetch = max(short, key=lambda n: short[n])
            rates = {n: round(rate) for n, rate in short.items()}
            print(f"Celery by prefetch multiplier, one run of {asked.peer_jobs // 2} jobs each: {rates}")
        for _ in range(asked.turns):
            found["jobhall process"].append(runs.jobhall(asked.jobs, "process", asked.slots, processes))
            if why is None:
                found["celery prefork"].append(runs.celery(asked.peer_jobs, "prefork", processes, prefetch))
    table(f"jobs in {processes} processes, median of {asked.turns} ({machine}):", found)
    print(DURABILITY)
    if why is None:
        goals.at_least("jobhall process / celery prefork", ratio(found, "jobhall process", "celery prefork"), 3)
    else:
        goals.not_proven("celery", why)
    goals.end()


if __name__ == "__main__":
    main()
