"""Throwaway servers: the real binary, on free ports, in temporary directories."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import jobhall
from jobhall.testing import Server

Hall = Server

CHECKOUT = Path(__file__).resolve().parents[3]


def binary() -> str:
    """The server: ``JOBHALL_BIN``, the one of this checkout, or the one on the path."""
    built = [CHECKOUT / "target" / profile / "jobhall" for profile in ("release", "debug")]
    found = os.environ.get("JOBHALL_BIN") or next((str(one) for one in built if one.exists()), None)
    found = found or shutil.which("jobhall")
    assert found, "no jobhall binary: set JOBHALL_BIN, or run cargo build -p jobhall-cli"
    return found


os.environ["JOBHALL_BIN"] = binary()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Looks for a condition until a deadline."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, f"this did not happen in time: {what}"
        time.sleep(0.01)


def make_hall(place: Path, verb: str) -> Hall:
    return Hall(place, commands=verb == "up").start()


@pytest.fixture(scope="session")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hall]:
    """A server with a worker that runs commands (type ``exec``), for all tests."""
    hall = make_hall(tmp_path_factory.mktemp("hall"), "up")
    yield hall
    hall.stop()


@pytest.fixture
def own_hall(tmp_path: Path) -> Iterator[Hall]:
    """A server without a worker, for one test."""
    hall = make_hall(tmp_path, "server")
    yield hall
    hall.stop()


@pytest.fixture
def client(hall: Hall) -> Iterator[jobhall.Client]:
    with hall.client() as client:
        yield client
