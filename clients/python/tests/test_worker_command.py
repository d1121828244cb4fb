"""``python -m jobhall worker``: how it starts, drains and loads the app again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

import jobhall
from jobhall.worker._app import AppError, load
from jobhall.worker._command import parser

from .conftest import CHECKOUT, Hall, binary, wait_for
from .workers import outcomes, running, start_worker

APP = """\
import jobhall

worker = jobhall.Worker(name="small")


@worker.job("value")
async def value() -> int:
    return {value}
"""


@pytest.mark.parametrize(
    ("text", "app", "says"),
    [
        (None, "missing:worker", "there is no module 'missing' in this directory or the environment"),
        ("import not_there\n", "{}:worker", "ModuleNotFoundError: No module named 'not_there'"),
        ("x = 1 +\n", "{}:worker", "SyntaxError"),
        ("raise SystemExit('no')\n", "{}:worker", "SystemExit: no"),
        ("x = 1\n", "{}:other", "has no 'other' (workers in it: none)"),
        ("worker = 1\n", "{}", ":worker is no jobhall.Worker but int"),
        ("x = 1\n", "app/{}.py:worker", "is a path: name the module, such as app.{}:worker"),
        ("import jobhall\nworker = jobhall.Worker()\n", "{}:worker", ":worker has no jobs"),
    ],
)
def test_an_app_that_cannot_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, app: str, says: str
) -> None:
    module = f"app_{uuid.uuid4().hex[:8]}"
    if text is not None:
        (tmp_path / f"{module}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    with pytest.raises(AppError) as error:
        load(app.format(module))
    assert says.format(module) in str(error.value)
    assert "importlib" not in str(error.value)


def test_a_failed_start_has_an_exit_code(hall: Hall, tmp_path: Path) -> None:
    for text, code, says in [
        ("import not_there\n", 2, "error: importing small failed"),
        ("import os\nos._exit(3)\n", 1, "the worker process exited with code 3"),
    ]:
        (tmp_path / "small.py").write_text(text)
        worker = start_worker(hall, tmp_path, app="small:worker", directory=tmp_path)
        assert worker.process.wait(20) == code
        assert says in worker.text()


def test_options_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    for options, says in [
        (["--slots", "0"], "argument --slots: must be from 1 to 10000, not 0"),
        (["--slots", "x"], "argument --slots: invalid number value: 'x'"),
        (["--processes", "5000"], "argument --processes: must be from 1 to 4096, not 5000"),
        (["--lease", "1"], "argument --lease: must be from 3 to 86400, not 1"),
        (["--lease", "inf"], "argument --lease: must be from 3 to 86400, not inf"),
        (["--grace", "soon"], "argument --grace: invalid seconds value: 'soon'"),
    ]:
        with pytest.raises(SystemExit, match="2"):
            parser().parse_args(["app:worker", *options])
        assert says in capsys.readouterr().err


def test_a_refused_token_has_an_exit_code(hall: Hall, tmp_path: Path) -> None:
    worker = start_worker(hall, tmp_path, "--token", "jh_wrong")
    assert worker.process.wait(20) == 4
    assert "the server refused this worker's token (unknown, expired or revoked)" in worker.text()
    assert "fix: make another" in worker.text()


def test_a_wrong_name_or_abilities_end_the_start(hall: Hall, tmp_path: Path) -> None:
    for option, value, says in [
        ("--name", "a b", "worker has the character ' ' at byte 1"),
        ("--abilities", "gpu==1", "abilities: expected a value, found '='"),
    ]:
        worker = start_worker(hall, tmp_path, option, value)
        assert worker.process.wait(20) == 2
        assert says in worker.text()


def test_sigterm_lets_jobs_end(hall: Hall, client: jobhall.Client, tmp_path: Path) -> None:
    go = tmp_path / "go"
    with running(hall, tmp_path, "--name", "drains") as worker:
        job = client.submit("steps", go=str(go))
        process = client.submit("steps_process", go=str(go))
        wait_for(lambda: job.refresh().state == process.refresh().state == "running", "the start")
        worker.process.send_signal(signal.SIGTERM)
        worker.wait_text("draining: no more jobs are taken, 2 still run")
        later = client.submit("add", a=1)
        go.touch()
        assert worker.process.wait(20) == 0
    assert job.refresh().state == process.refresh().state == "succeeded"
    assert later.refresh().state == "queued"
    later.cancel()


def test_a_second_sigterm_gives_the_jobs_back(own_hall: Hall, tmp_path: Path) -> None:
    with running(own_hall, tmp_path) as worker, own_hall.client() as client:
        jobs = [
            client.submit(f"wait_{kind}", begun=str(tmp_path / kind), ended=str(tmp_path / f"{kind} ended"))
            for kind in ("async", "thread", "process")
        ]
        wait_for(lambda: all(job.refresh().state == "running" for job in jobs), "the report of the start")
        worker.process.send_signal(signal.SIGTERM)
        worker.wait_text("draining: no more jobs are taken, 3 still run")
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(20) == 0
        wait_for(lambda: all(outcomes(job) == ["lost"] for job in jobs), "lost attempts")
        for job in jobs:
            job.cancel()


def test_an_operator_drains_a_worker(own_hall: Hall, tmp_path: Path) -> None:
    with running(own_hall, tmp_path, "--name", "drained") as worker:
        command = [binary(), "worker", "drain", "drained", "--server", own_hall.url, "--token", own_hall.token]
        subprocess.run(command, check=True, capture_output=True)
        assert worker.process.wait(20) == 0


def test_reload_runs_the_edited_app(own_hall: Hall, tmp_path: Path) -> None:
    file = tmp_path / "app" / "small.py"
    file.parent.mkdir()
    file.write_text(APP.format(value=1))
    with (
        own_hall.client() as client,
        running(own_hall, tmp_path, "--reload", app="small:worker", directory=file.parent) as worker,
    ):
        assert client.submit("value").result(timeout=20) == 1
        file.write_text(APP.format(value=22))
        worker.wait_text("connected to", times=2)
        assert "loading the app again: small.py has changed" in worker.text()
        assert client.submit("value").result(timeout=20) == 22
        file.write_text("worker = 1 +")
        worker.wait_text("waiting for a change")
        file.write_text(APP.format(value=333))
        assert client.submit("value").result(timeout=20) == 333


def test_a_second_worker_of_the_same_name_says_what_to_do(hall: Hall, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    with running(hall, tmp_path, "--name", "twice"):
        second = start_worker(hall, tmp_path / "second", "--name", "twice")
        second.wait_text("a worker named twice is connected from another process; give each worker its own token")
        second.wait_text("(--name, or Worker(name=...))")
        assert second.stop() == 0


def test_the_command_without_a_worker_prints_its_usage() -> None:
    for arguments, code in ((["--help"], 0), (["serve"], 2), (["worker", "--help"], 0)):
        command = [sys.executable, "-m", "jobhall", *arguments]
        env = os.environ | {"PYTHONPATH": str(CHECKOUT / "clients/python/src")}
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        assert done.returncode == code
        assert "usage: python -m jobhall" in done.stdout + done.stderr
