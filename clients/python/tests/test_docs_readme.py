"""Every Python block of the README runs: files by their names in the first line, the others as one program."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import CHECKOUT, Hall, wait_for

PACKAGE = CHECKOUT / "clients/python"
BLOCKS = re.findall(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.S)
FILES = {text.split("\n", 1)[0].removeprefix("# "): text for text in BLOCKS if re.match(r"# \w+\.py\n", text)}
PROGRAM = [text for text in BLOCKS if text not in FILES.values()]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "readme.py").write_text("\n".join(PROGRAM))
    return tmp_path


def environment(hall: Hall) -> dict[str, str]:
    return {**os.environ, **hall.environ, "PYTHONPATH": str(PACKAGE / "src")}


COMMANDS = re.findall(r"```sh\npython (.*?)\n```", (PACKAGE / "README.md").read_text())


@pytest.fixture(params=[COMMANDS, ["app.py", "sales.py"]], ids=["commands", "programs"])
def workers(hall: Hall, place: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    """The workers of the README, by their commands, and as programs."""
    commands = [[sys.executable, *shlex.split(command)] for command in request.param]
    processes = [subprocess.Popen(command, cwd=place, env=environment(hall)) for command in commands]
    try:
        with hall.client() as client:
            wait_for(lambda: any("sales" in one.workers for one in client.commands()), "the commands of the README")
        yield
    finally:
        for process in processes:
            process.terminate()
        assert [process.wait(30) for process in processes] == [0, 0]


def test_the_blocks_are_found() -> None:
    assert set(FILES) == {"app.py", "sales.py", "test_app.py"}
    assert len(PROGRAM) >= 8
    assert COMMANDS == ["-m jobhall worker app:worker", "-m jobhall worker sales:worker --reload"]


@pytest.mark.usefixtures("workers")
def test_the_program_runs(hall: Hall, place: Path) -> None:
    command = [sys.executable, "readme.py"]
    done = subprocess.run(command, cwd=place, env=environment(hall), capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_tests_pass(hall: Hall, place: Path) -> None:
    (place / "pytest.ini").write_text("[pytest]\nfilterwarnings = ignore::DeprecationWarning\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "jobhall_pytest", "-p", "no:cacheprovider", "--rootdir=."]
    done = subprocess.run(command, cwd=place, env=environment(hall), capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{FILES['test_app.py'].count('def test_')} passed" in done.stdout
