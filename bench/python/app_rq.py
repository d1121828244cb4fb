"""The RQ worker of the measurements, at its fast settings: no fork per job, no results, burst."""

from __future__ import annotations

import logging
import os
import sys

import redis
import rq

if __name__ == "__main__":
    connection = redis.Redis.from_url(os.environ["BENCH_REDIS"])
    worker = rq.SimpleWorker(["default"], connection=connection, log_job_description=False)
    worker.work(burst=sys.argv[1] == "burst", logging_level=logging.CRITICAL, with_scheduler=False)
