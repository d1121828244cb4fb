"""The Celery application of the measurements, at its fast settings: no results, no events, acknowledged early."""

from __future__ import annotations

import os
import sys

import jobs
from celery import Celery

app = Celery("bench", broker=os.environ["BENCH_REDIS"])
app.conf.update(
    task_ignore_result=True,
    task_store_errors_even_if_ignored=False,
    task_acks_late=False,
    task_send_sent_event=False,
    task_track_started=False,
    task_compression=None,
    worker_prefetch_multiplier=int(os.environ.get("BENCH_PREFETCH", "512")),
    worker_disable_rate_limits=True,
    worker_send_task_events=False,
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,
    broker_connection_retry_on_startup=True,
    broker_pool_limit=4,
    broker_transport_options={"ack_emulation": os.environ.get("BENCH_KEEPS", "1") == "1"},
)
noop = app.task(name="noop", ignore_result=True)(jobs.noop)
stamp = app.task(name="stamp", ignore_result=True)(jobs.stamp)

if __name__ == "__main__":
    # The first-come strategy of the prefork pool cannot be chosen on the command line.
    worker = app.Worker(
        pool=sys.argv[1],
        concurrency=int(sys.argv[2]),
        queues=sys.argv[3:] or ["celery"],
        optimization="fast",
        loglevel="CRITICAL",
        quiet=True,
        task_events=False,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    worker.start()
