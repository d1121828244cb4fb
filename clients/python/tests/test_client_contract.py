"""The generated files, the error codes, the README, and the built package."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

from jobhall import _spec, errors, requests

from .conftest import CHECKOUT

HERE = Path(__file__).resolve().parent.parent
SCHEMAS: dict[str, Any] = json.loads((CHECKOUT / "crates/protocol/openapi.json").read_text())["components"]["schemas"]


@pytest.mark.parametrize("name", ["generate_models", "generate_sync"])
def test_generated_files_are_up_to_date(name: str) -> None:
    found = importlib.util.spec_from_file_location(name, HERE / "scripts" / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    for path, text in module.generate().items():
        assert path.read_text() == text, f"stale: run python scripts/{name}.py"


def test_every_error_code_has_an_exception() -> None:
    codes = {one["const"] for one in SCHEMAS["Code"]["oneOf"]}
    assert set(errors.BY_CODE) == codes
    names = {"".join(word.title() for word in code.split("_")) for code in codes}
    assert {kind.__name__ for kind in errors.BY_CODE.values()} == names
    source = (CHECKOUT / "crates/protocol/src/problem.rs").read_text()
    assert len(re.findall(r"^    [A-Z]\w+,$", source, re.M)) == len(codes)


def test_a_job_has_no_field_that_the_server_does_not_know() -> None:
    options: dict[str, Any] = dict.fromkeys(("key", "needs", "uses", "queue", "windows", "owner"), "a")
    options |= dict.fromkeys(("priority", "max_attempts", "timeout", "silence", "after", "reuse", "group"), 1)
    options |= dict.fromkeys(("after_any", "at_most_once", "avoid"), True)
    job = _spec.spec("x", run_at="2030-01-01T00:00:00Z", tags=["t"], throttle_factor=1, on_duplicate="join", **options)
    known = SCHEMAS["SubmitJob"]["properties"]
    assert set(job.wire) <= set(known)
    assert set(known) - set(job.wire) == {"attached", "copy_of", "params", "retry"} - set(job.wire)
    assert set(requests.SubmitJob.__annotations__) == set(known)


def test_the_bounds_are_those_of_the_server() -> None:
    core = (CHECKOUT / "crates/core/src/bounds.rs").read_text()
    assert f"SUBMIT_JOBS: usize = {_spec.MAX_JOBS:_};" in core
    body = (CHECKOUT / "crates/server/src/request/body.rs").read_text()
    assert "BODY_BYTES: usize = 1 << 20;" in body
    assert _spec.MAX_BYTES == (1 << 20) - 2


INSTALLED = """
import jobhall
from jobhall import testing

worker = jobhall.Worker()

@worker.job("add")
def add(a: int, b: int) -> int:
    return a + b

def test_without_a_server():
    assert testing.run(worker, add, a=2, b=3).result() == 5

def test_with_one(jobhall_server, jobhall_client):
    with jobhall_server.run_worker(worker):
        assert jobhall_client.submit(add, a=2, b=3).result(timeout=20) == 5
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sdist, and the wheel that is built from it."""
    place = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(place), str(HERE)]
    subprocess.run(build, check=True, capture_output=True, timeout=120)
    (wheel,), (sdist,) = place.glob("*.whl"), place.glob("*.tar.gz")
    assert wheel.name.endswith("py3-none-any.whl")
    with zipfile.ZipFile(wheel) as files:
        (metadata,) = [name for name in files.namelist() if name.endswith("METADATA")]
        needs = re.findall(r"^Requires-Dist: ([\w-]+)", files.read(metadata).decode(), re.M)
    assert sorted(needs) == ["httpx2", "websockets"]
    return {"wheel": wheel, "sdist": sdist}


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_wheel_and_sdist_install_into_a_fresh_environment(built: dict[str, Path], tmp_path: Path, kind: str) -> None:
    """With its dependencies; pytest finds the fixtures."""
    place = tmp_path / "environment"
    venv.create(place, with_pip=True, system_site_packages=False)
    python = str(place / "bin/python")
    pip = [python, "-m", "pip", "install", "-q", str(built[kind]), "pytest>=9.2"]
    subprocess.run(pip, check=True, capture_output=True, timeout=240)
    typed = "import jobhall, jobhall_pytest; print(jobhall.__file__, jobhall_pytest.__file__)"
    files = subprocess.run([python, "-c", typed], check=True, capture_output=True, text=True, cwd=tmp_path).stdout
    for file in files.split():
        assert Path(file).is_relative_to(place)
        assert (Path(file).parent / "py.typed").exists()
    (tmp_path / "test_installed.py").write_text(INSTALLED)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [python, "-m", "pytest", "-q", "--rootdir=.", "test_installed.py"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
