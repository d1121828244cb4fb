"""A worker over TLS: the certificate beside the record of a local server, and one that cannot be read."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import jobhall
from jobhall import _running

from .conftest import Hall, binary, wait_for
from .test_client_connection import _certificate
from .workers import SOURCES, TESTS, WorkerProcess, start_worker


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[Hall]:
    """A server whose certificate is for another name than its address."""
    hall = Hall(tmp_path / "hall")
    hall.data.mkdir(parents=True)
    cert, key = _certificate(tmp_path, "one")
    command = [binary(), "server", "--data", str(hall.data), "--listen", "127.0.0.1:0"]
    command += ["--tls-cert", str(cert), "--tls-key", str(key)]
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(command, env=hall.env, stdout=log, stderr=log)

    def is_up() -> bool:
        assert process.poll() is None, (tmp_path / "server.log").read_text()
        return bool(_running.servers([hall.directory / "state" / "jobhall"]))

    try:
        wait_for(is_up, "the server")
        yield hall
    finally:
        process.kill()
        process.wait()


def test_a_worker_trusts_the_certificate_of_the_server_that_it_finds(
    secure: Hall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = secure.env | {"PYTHONPATH": str(SOURCES), "PYTHONDONTWRITEBYTECODE": "1"}
    with (tmp_path / "worker.log").open("wb") as log:
        command = [sys.executable, "-m", "jobhall", "worker", "worker_app:worker"]
        worker = WorkerProcess(
            subprocess.Popen(command, cwd=TESTS, env=env, stdout=log, stderr=log), tmp_path / "worker.log"
        )
    try:
        worker.wait_text("connected to https://")
        for name in ("HOME", "XDG_STATE_HOME"):
            monkeypatch.setenv(name, secure.env[name])
        for name in ("JOBHALL_SERVER", "JOBHALL_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        with jobhall.Client() as client:
            job = client.submit("large", size=300_000)
            assert len(job.result(timeout=20)) == 300_000, "the artifact was stored over TLS"
    finally:
        assert worker.stop() == 0


def test_a_certificate_that_cannot_be_read_ends_the_start(hall: Hall, tmp_path: Path) -> None:
    worker = start_worker(hall, tmp_path, "--server", "https://127.0.0.1:1", "--ca", str(tmp_path / "none"))
    assert worker.process.wait(20) == 2
    assert f"failed to use the certificates in {tmp_path / 'none'}" in worker.text()
