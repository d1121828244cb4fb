"""A worker of a hall with several nodes: its attempts survive a change of the leader."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import jobhall

from .conftest import Hall, binary, wait_for
from .postgres import postgres
from .workers import running

KINDS = ["async", "thread", "process"]


@dataclass
class Node:
    """A server on the shared database."""

    hall: Hall
    process: subprocess.Popen[bytes]


@contextmanager
def node(place: Path, database: str, key: Path) -> Iterator[Node]:
    hall = Hall(place)
    hall.data.mkdir(parents=True)
    command = [binary(), "server", "--database", database, "--data", str(hall.data), "--key-file", str(key)]
    with (place / "server.log").open("wb") as log:
        process = subprocess.Popen([*command, "--listen", "127.0.0.1:0"], env=hall.env, stdout=log, stderr=log)

    def is_up() -> bool:
        assert process.poll() is None, hall.log()
        try:
            # Incomplete while the server writes it.
            hall.url = json.loads((hall.data / "server.json").read_text())["url"]
        except (FileNotFoundError, json.JSONDecodeError):
            return False
        return True

    try:
        wait_for(is_up, "a node")
        yield Node(hall, process)
    finally:
        process.kill()
        process.wait()


def test_attempts_are_kept_over_a_change_of_the_leader(tmp_path: Path) -> None:
    go, key = tmp_path / "go", tmp_path / "hall.key"
    with (
        postgres() as database,
        node(tmp_path / "one", database, key) as leader,
        node(tmp_path / "two", database, key) as follower,
    ):
        hall = Hall(tmp_path / "one")
        addresses = f"{leader.hall.url},{follower.hall.url}"
        hall.url = addresses
        with running(hall, tmp_path) as worker, jobhall.Client(addresses, hall.token) as client:
            jobs = [
                client.submit(
                    f"speak_{kind}", max_attempts=1, params={"word": kind, "begun": str(begun), "go": str(go)}
                )
                for kind in KINDS
                for begun in [tmp_path / kind]
            ]
            parent = client.submit(
                "fan_out_gated", max_attempts=1, params={"go": str(go), "begun": str(tmp_path / "p")}
            )
            wait_for(lambda: all((tmp_path / name).exists() for name in [*KINDS, "p"]), "the start")
            wait_for(lambda: all(job.refresh().state == "running" for job in jobs), "the report of the start")
            leader.process.send_signal(signal.SIGKILL)
            leader.process.wait()
            worker.wait_text("connected again")
            go.touch()
            for job, kind in zip(jobs, KINDS, strict=True):
                job.result(timeout=30)
                (attempt,) = job.attempts()
                assert attempt.outcome == "succeeded"
                assert f"{kind} ends" in list(job.log())
            assert parent.result(timeout=30) == 1
            assert len(parent.attempts()) == 1
            assert client.submit("add", a=1).result(timeout=30) == 2
