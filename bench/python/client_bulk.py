"""Bulk submit of jobs: the Jobhall client against RQ's ``enqueue_many`` over Redis, in one run.

Both get the same params, over loopback, with their ordinary durability. The runs alternate; the median counts.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from machine import DURABILITY, Goals, Machine, default_binary, missing, ratio, servers, table

import jobhall


def of_jobhall(client: jobhall.Client, count: int) -> float:
    begun = time.perf_counter()
    made = client.submit_many(jobhall.spec("add", a=n, b=2) for n in range(count))
    taken = time.perf_counter() - begun
    assert len({one.id for one in made}) == count
    return count / taken


def of_rq(connection: Any, count: int) -> float:
    import rq

    connection.flushall()
    queue = rq.Queue(connection=connection)
    begun = time.perf_counter()
    queue.enqueue_many([rq.Queue.prepare_data("operator.add", args=(n, 2)) for n in range(count)])
    taken = time.perf_counter() - begun
    assert queue.count == count
    return count / taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--binary", default=default_binary())
    asked = parser.parse_args()
    goals, machine = Goals(), Machine()
    with servers(asked.binary) as (_, hall, redis):
        why = missing("rq")
        found: dict[str, list[float]] = {"jobhall submit_many": [], "rq enqueue_many": []}
        for _ in range(asked.turns):
            found["jobhall submit_many"].append(of_jobhall(hall.client, asked.jobs))
            if redis is not None and why is None:
                found["rq enqueue_many"].append(of_rq(redis.connection, asked.jobs))
    table(f"bulk submit of {asked.jobs} jobs, median of {asked.turns} ({machine}):", found)
    print(DURABILITY)
    if why is None:
        goals.at_least("submit_many / enqueue_many", ratio(found, "jobhall submit_many", "rq enqueue_many"), 10)
    else:
        goals.not_proven("rq", why)
    goals.end()


if __name__ == "__main__":
    main()
