"""What the measurements share: the servers, the machine, and the table of figures."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2

import jobhall

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DURABILITY = (
    "durability: Jobhall answers after the commit to disk, and an outcome is committed before it counts; Redis keeps\n"
    "  jobs in memory (--save '', no append-only file), and the peers delete or acknowledge them without a sync"
)


def until(condition: Callable[[], bool], what: str, seconds: float = 30, pause: float = 0.01) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"waited in vain for {what}")
        time.sleep(pause)


def stop(process: subprocess.Popen[Any], how: signal.Signals = signal.SIGTERM) -> None:
    """Ends a process that was started here."""
    if process.poll() is None:
        process.send_signal(how)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(30)


def clean_env(place: Path, **more: str) -> dict[str, str]:
    """The environment of a started process: nothing of the user's own server reaches it."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("JOBHALL_", "XDG_"))}
    return {**env, "HOME": str(place), "PYTHONPATH": f"{ROOT / 'clients/python/src'}:{HERE}", **more}


def address(record: Path) -> str:
    """The URL of the server with this record; empty while it is missing or incomplete."""
    try:
        return str(json.loads(record.read_text())["url"])
    except (OSError, ValueError):
        return ""


class Hall:
    """A Jobhall server with an empty durable store."""

    def __init__(self, place: Path, binary: str) -> None:
        data = place / "data"
        data.mkdir()
        command = [binary, "server", "--data", str(data), "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            command, env=clean_env(place), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until(lambda: (data / "admin.token").exists() and address(data / "server.json") != "", "the server")
        self.url = address(data / "server.json")
        self.token = (data / "admin.token").read_text().strip()
        self.client = jobhall.Client(self.url, self.token)
        self._http = httpx2.Client(base_url=self.url, headers={"Authorization": f"Bearer {self.token}"})

    def succeeded(self) -> int:
        """The number of jobs that have succeeded since the server was started."""
        found = self._http.get("/api/v1/stats").raise_for_status().json()
        return int(found["totals"]["completed"]["succeeded"])


class Redis:
    """A Redis server that keeps everything in memory."""

    def __init__(self, place: Path) -> None:
        import redis

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(place), "--save", ""]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.connection: Any = redis.Redis(port=self.port)

        def answers() -> bool:
            try:
                return bool(self.connection.ping())
            except redis.ConnectionError:
                return False

        until(answers, "redis")


@contextlib.contextmanager
def servers(binary: str) -> Iterator[tuple[Path, Hall, Redis | None]]:
    """A Jobhall server and, if it is installed, a Redis server, in a directory that is removed afterwards."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as directory:
        place = Path(directory)
        hall = Hall(place, binary)
        started = [hall.process]
        try:
            redis = None if missing("redis") else Redis(place)
            if redis is not None:
                started.append(redis.process)
            yield place, hall, redis
        finally:
            for process in started:
                stop(process)


def missing(module: str) -> str | None:
    """Why a peer cannot be measured; none if it can."""
    from importlib.util import find_spec
    from shutil import which

    if find_spec(module) is None:
        return f"the package {module} is not installed"
    return None if which("redis-server") else "redis-server is not installed"


class Machine:
    """The share of CPU time that the hypervisor gave to others, and how busy the machine was, since a moment."""

    def __init__(self) -> None:
        self._before = self._ticks()

    @staticmethod
    def _ticks() -> list[int]:
        with Path("/proc/stat").open() as stat:
            return [int(word) for word in stat.readline().split()[1:9]]

    def __str__(self) -> str:
        user, nice, system, idle, wait, irq, soft, steal = (
            now - before for now, before in zip(self._ticks(), self._before, strict=True)
        )
        total = user + nice + system + idle + wait + irq + soft + steal
        shares = f"steal {100 * steal / max(total, 1):.1f} %, idle {100 * (idle + wait) / max(total, 1):.0f} %"
        return f"{shares}, load {os.getloadavg()[0]:.1f}"


def shown(values: Sequence[float], form: str = ".0f") -> str:
    return "[" + ", ".join(format(value, form) for value in values) + "]"


def table(title: str, found: Mapping[str, Sequence[float]]) -> None:
    """Prints the median of each row."""
    print(title)
    for name, values in found.items():
        if values:
            print(f"  {name:34} {statistics.median(values):8.0f} jobs/s   {shown(values)}")


def ratio(found: Mapping[str, Sequence[float]], one: str, other: str) -> float:
    """The median of the ratios of the runs of each turn, which are neighbours in time."""
    return statistics.median(a / b for a, b in zip(found[one], found[other], strict=True))


class Goals:
    """The goals of a measurement. A missed one, or one that could not be proven, makes the program fail."""

    def __init__(self) -> None:
        self._failed = False

    def at_least(self, name: str, ratio: float, goal: float) -> None:
        self._print(name, ratio, goal, ratio >= goal, "at least")

    def at_most(self, name: str, ratio: float, goal: float) -> None:
        self._print(name, ratio, goal, ratio <= goal, "at most")

    def _print(self, name: str, ratio: float, goal: float, met: bool, word: str) -> None:
        self._failed |= not met
        print(f"  {name:34} {ratio:8.2f}   goal {word} {goal:g}: {'met' if met else 'MISSED'}")

    def not_proven(self, name: str, why: str) -> None:
        """A peer is missing. ``BENCH_WITHOUT=NAME`` in the environment accepts that."""
        accepted = name in os.environ.get("BENCH_WITHOUT", "").split(",")
        self._failed |= not accepted
        print(f"  not proven: {name}: {why}{' (accepted by BENCH_WITHOUT)' if accepted else ''}")

    def end(self) -> None:
        sys.exit(1 if self._failed else 0)


def default_binary(name: str = "jobhall") -> str:
    beside = Path(os.environ.get("JOBHALL_BIN", ROOT / "target/release/jobhall"))
    return str(beside if name == "jobhall" else beside.with_name(name))
