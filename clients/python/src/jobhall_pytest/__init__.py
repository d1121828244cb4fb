"""Fixtures for pytest: ``jobhall_server``, a real server, and ``jobhall_client``.

A package of its own, so that a run of pytest that needs no server does not import the client.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from jobhall import Client
    from jobhall.testing import Server

_HELP = "Life of the server of the fixture jobhall_server: function (a fresh one for each test), module or session"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("jobhall_scope", _HELP, default="function")
    parser.addini("jobhall_commands", "Whether that server also runs commands (type exec)", type="bool", default=False)


def _scope(fixture_name: str, config: pytest.Config) -> Literal["function", "module", "session"]:
    scope = config.getini("jobhall_scope")
    if scope not in ("function", "module", "session"):
        raise pytest.UsageError(f"jobhall_scope must be function, module or session, not {scope!r}")
    return scope  # type: ignore[no-any-return]


@pytest.fixture(scope=_scope)
def jobhall_server(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Server]:
    """A real server on a free port. Meanwhile clients and workers without arguments find this one, and no other."""
    from jobhall.testing import Server

    commands = bool(pytestconfig.getini("jobhall_commands"))
    with Server(tmp_path_factory.mktemp("jobhall"), commands=commands) as server, pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("JOBHALL_") and name != "JOBHALL_BIN"]:
            patch.delenv(name)
        for name, value in server.environ.items():
            patch.setenv(name, value)
        yield server


@pytest.fixture
def jobhall_client(jobhall_server: Server) -> Iterator[Client]:
    """A client of ``jobhall_server``, with the token of its administrator."""
    with jobhall_server.client() as client:
        yield client


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call() -> Generator[None, Any, Any]:
    servers = sys.modules.get("jobhall.testing._server")
    if servers is None:
        return (yield)
    with servers.output_of_jobs():
        return (yield)
