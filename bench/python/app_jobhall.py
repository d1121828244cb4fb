"""The Jobhall worker of the measurements: python app_jobhall.py async|thread|process SLOTS [PROCESSES] [TYPE]."""

from __future__ import annotations

import sys

import jobs

import jobhall

how, slots, *rest = sys.argv[1:]
processes = int(rest[0]) if rest else None
type_of_stamp = rest[1] if len(rest) > 1 else "stamp"
# Each worker has a name of its own, since all of them use the administrator's token.
worker = jobhall.Worker(slots=int(slots), processes=processes, name=f"bench-{how}")

if how == "async":

    @worker.job("noop")
    async def noop() -> None:
        jobs.noop()

    @worker.job(type_of_stamp)
    async def stamp() -> None:
        jobs.stamp()

else:
    worker.job("noop", run=how)(jobs.noop)  # type: ignore[arg-type]
    worker.job(type_of_stamp, run=how)(jobs.stamp)  # type: ignore[arg-type]

if __name__ == "__main__":
    worker.run()
