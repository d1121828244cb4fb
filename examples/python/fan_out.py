"""Counts prime numbers: one job splits the range, sub-jobs count, and it adds up their results.

python fan_out.py worker               runs the jobs
python fan_out.py submit 200000 20     counts the primes below 200,000 in 20 parts
"""

from __future__ import annotations

import sys
from itertools import pairwise

import jobhall

worker = jobhall.Worker(slots=2, name="fan-out")


@worker.job("count-primes")
def count_primes(start: int, stop: int) -> int:
    """How many primes there are in a range."""
    found = sum(1 for n in range(max(start, 2), stop) if all(n % d for d in range(2, int(n**0.5) + 1)))
    print(f"{found} primes from {start} to {stop}")
    return found


@worker.job("sum-primes", max_attempts=3)
async def sum_primes(ctx: jobhall.Context, below: int, parts: int) -> dict[str, int]:
    """Waits for its sub-jobs; meanwhile its slot is free for one of them.

    If this attempt is lost, the next one finds the sub-jobs of the first: what was counted is not counted again.
    """
    edges = [below * n // parts for n in range(parts + 1)]
    jobs = [await ctx.submit("count-primes", start=start, stop=stop) for start, stop in pairwise(edges)]
    counts = await ctx.results(jobs)
    return {"primes": sum(counts), "parts": len(counts), "most": max(counts)}


def submit(below: int, parts: int) -> int:
    with jobhall.Client() as client:
        job = client.submit(sum_primes, below=below, parts=parts)
        result = job.result(timeout=300)
    print(f"{result['primes']} primes below {below}, counted in {result['parts']} parts")
    return 0


def main(arguments: list[str]) -> int:
    match arguments:
        case ["worker"]:
            worker.run()
            return 0
        case ["submit", below, parts]:
            return submit(int(below), int(parts))
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
