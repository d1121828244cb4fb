"""The memory that output needs is bounded."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from jobhall.worker._output import CHUNK, PENDING_BYTES, Output

from .conftest import Hall, wait_for
from .workers import running


def peak_kilobytes(pid: int) -> int:
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1])


def test_a_thread_waits_for_room_and_nothing_is_lost() -> None:
    output = Output(lambda: None, loop_thread=0)
    line = b"z" * 1_000 + b"\n"
    count = 10 * PENDING_BYTES // len(line)

    def write() -> None:
        for _ in range(count):
            output.write("stdout", line)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    taken = bytearray()
    while len(taken) < count * len(line):
        wait_for(lambda: bool(output), "output")
        assert output._size <= PENDING_BYTES + len(line)
        piece = output.take()
        assert piece is not None
        assert len(piece[1]) <= CHUNK
        taken += piece[1]
    writer.join(20)
    assert bytes(taken) == line * count


def test_the_event_loop_drops_what_does_not_fit_and_says_so() -> None:
    output = Output(lambda: None, threading.get_ident())
    for _ in range(4):
        output.write("stdout", b"z" * PENDING_BYTES)
    pieces = []
    while piece := output.take():
        pieces.append(piece)
    assert sum(len(data) for stream, data in pieces if stream == "stdout") == PENDING_BYTES
    assert pieces[-1] == ("stderr", b"[%d bytes of output were dropped: too many at once]\n" % (3 * PENDING_BYTES))


@pytest.mark.parametrize("kind", ["flood_async", "flood_thread", "flood_process"])
def test_a_flood_of_output_needs_little_memory(own_hall: Hall, tmp_path: Path, kind: str) -> None:
    """More than the server keeps of one attempt (64 MiB). ``FLOOD_MEGABYTES=1024`` prints a gigabyte."""
    megabytes = int(os.environ.get("FLOOD_MEGABYTES", "80"))
    with running(own_hall, tmp_path) as worker, own_hall.client() as client:
        client.submit("where_process").result(timeout=20)
        before = peak_kilobytes(worker.child())
        job = client.submit(kind, megabytes=megabytes)
        job.result(timeout=60 + megabytes / 5)
        more = peak_kilobytes(worker.child()) - before
        assert more < 10 * 1024, f"{more} KiB more"
        if kind == "flood_async":
            # The event loop cannot wait for room.
            assert list(job.log())[-1].endswith("bytes of output were dropped: too many at once]")
        else:
            assert len(job.log_bytes()) == 64 << 20
