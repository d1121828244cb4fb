"""The programs of ``examples/python``, by the commands of their README, and what they do when something is wrong."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jobhall import testing

from .conftest import CHECKOUT, binary

EXAMPLES = CHECKOUT / "examples/python"
PACKAGE = CHECKOUT / "clients/python"
BLOCKS = re.findall(r"```(sh|text)\n(.*?)```", (EXAMPLES / "README.md").read_text(), re.S)[1:]
COMMANDS = [text for kind, text in BLOCKS if kind == "sh"]
OUTPUTS = [text for kind, text in BLOCKS if kind == "text"]


@pytest.fixture(scope="module")
def server() -> Iterator[testing.Server]:
    with testing.Server() as server:
        yield server


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """A copy of the programs, with ``jobhall`` and ``python`` on the path."""
    shutil.copytree(EXAMPLES, tmp_path / "python", ignore=shutil.ignore_patterns("__pycache__", "images", "thumbs"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/jobhall").symlink_to(binary())
    (tmp_path / "bin/python").symlink_to(sys.executable)
    return tmp_path


def environment(server: testing.Server, examples: Path) -> dict[str, str]:
    path = f"{examples / 'bin'}:{os.environ['PATH']}"
    # The interpreter of a virtual environment finds its packages by the place of its program.
    modules = os.pathsep.join([str(PACKAGE / "src"), *(one for one in sys.path if one.endswith("site-packages"))])
    return {**server.env, **server.environ, "PATH": path, "PYTHONPATH": modules}


def shell(server: testing.Server, examples: Path, commands: str) -> str:
    """Runs commands as somebody types them, and stops what they left in the background."""
    process = subprocess.Popen(
        ["sh", "-c", f"set -e\n{commands}\n"],
        cwd=examples / "python",
        env=environment(server, examples),
        stdout=subprocess.PIPE,
        stderr=(examples / "errors").open("wb"),
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        # The shell ends before the worker in the background, which keeps the pipe open.
        code = process.wait(60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
    output = process.stdout.read()
    assert code == 0, output + (examples / "errors").read_text()
    return output


def plain(output: str) -> list[str]:
    """The lines without what differs from run to run."""
    text = re.sub(r"\d+\.\d s", "N s", re.sub(r'version ".*"', "version", output))
    return sorted(text.splitlines())


def test_the_readme_has_an_output_for_each_program() -> None:
    assert len(COMMANDS) == len(OUTPUTS) == 3
    programs = {path.name for path in EXAMPLES.glob("*.py")} - {"png.py"}
    assert {name for text in COMMANDS for name in re.findall(r"(\w+\.py) worker", text)} == programs


@pytest.mark.parametrize("n", range(len(COMMANDS)))
def test_the_commands_of_the_readme_print_what_it_shows(server: testing.Server, examples: Path, n: int) -> None:
    assert plain(shell(server, examples, COMMANDS[n])) == plain(OUTPUTS[n])


def test_a_file_that_is_no_image_is_named_and_the_others_are_made(server: testing.Server, examples: Path) -> None:
    commands = COMMANDS[0].replace("python thumbnailer.py submit", "echo text > images/text.png\nexec 2>&1\n\\g<0>")
    commands = commands.replace("\\g<0>", "! python thumbnailer.py submit")
    lines = plain(shell(server, examples, commands))
    assert "3 thumbnails in thumbs" in lines
    assert any("text.png" in line and line.endswith("not a PNG image") for line in lines)
    with server.client() as client:
        failed = next(client.jobs(type="thumbnail", state="failed"))
        assert len(failed.attempts()) == 1
        made = png().read((examples / "python/thumbs/dawn.png").read_bytes())
        assert (made.width, made.height, len(made.rows)) == (64, 40, 40)


def test_without_the_limit_the_api_refuses_calls_that_then_succeed(server: testing.Server, examples: Path) -> None:
    commands = COMMANDS[2].replace("rate=10/1s", "none")
    output = shell(server, examples, commands)
    assert "limit of queue api: none" in output
    answers, refused = re.findall(r"^(\d+) answers in .*; the API refused (\d+) calls", output, re.M)[0]
    assert int(answers) == 40
    assert int(refused) > 0, "the API has a limit that the example can exceed"


def png() -> ModuleType:
    found = importlib.util.spec_from_file_location("png", EXAMPLES / "png.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules["png"] = module
    found.loader.exec_module(module)
    return module


def test_the_reader_of_images_knows_all_filters_and_refuses_what_it_cannot_read() -> None:
    module = png()
    rows = [bytes((x * 7 + y * 31 + c * 50) % 256 for x in range(9) for c in range(3)) for y in range(5)]
    image = module.Image(9, 5, rows)
    data = module.write(image)
    assert module.read(data) == image
    filtered = module.write(image).replace(_content(data), zlib.compress(_filtered(rows)))
    at = filtered.index(b"IDAT") - 4
    content = zlib.compress(_filtered(rows))
    filtered = filtered[:at] + len(content).to_bytes(4, "big") + filtered[at + 4 :]
    assert module.read(filtered) == image, "each row has another filter"
    header = data.index(b"IHDR") + 4
    bomb = data[:header] + (60_000).to_bytes(4, "big") * 2 + data[header + 8 :]
    for wrong in (b"", b"text", data[:40], data[:-30], data.replace(b"\x08\x02", b"\x08\x03"), bomb):
        with pytest.raises(ValueError, match=r"image|pixels"):
            module.read(wrong)


def _content(data: bytes) -> bytes:
    at = data.index(b"IDAT")
    return data[at + 4 : at + 4 + int.from_bytes(data[at - 4 : at], "big")]


def _filtered(rows: list[bytes]) -> bytes:
    """The rows as a PNG file may have them: filter 0 to 4, one after the other."""
    found = b""
    for kind, row in enumerate(rows):
        above = rows[kind - 1] if kind else bytes(len(row))
        line = bytearray()
        for at, value in enumerate(row):
            left, corner = (row[at - 3], above[at - 3]) if at >= 3 else (0, 0)
            estimate = left + above[at] - corner
            nearest = min((left, above[at], corner), key=lambda one, e=estimate: abs(e - one))  # type: ignore[misc]
            guess: Any = (0, left, above[at], (left + above[at]) // 2, nearest)[kind]
            line.append((value - guess) % 256)
        found += bytes([kind]) + line
    return found


@pytest.mark.parametrize("check", [["check", "--ignore", "T20"], ["format", "--check"]])
def test_the_programs_pass_the_lints_of_the_package(check: list[str]) -> None:
    command = [sys.executable, "-m", "ruff", *check, "--no-cache", "--config", str(PACKAGE / "pyproject.toml")]
    done = subprocess.run([*command, str(EXAMPLES)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
