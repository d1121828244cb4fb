"""A throwaway PostgreSQL: a real server in a temporary directory, reachable only through a unix socket."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .conftest import wait_for

OWNER = "jobhall"


def program(name: str) -> str:
    """On Debian the server's programs are not in the path."""
    versions = [one for one in Path("/usr/lib/postgresql").glob("*/bin") if (one / "initdb").exists()]
    newest = max(versions, key=lambda one: float(one.parent.name), default=None)
    found = str(newest / name) if newest else shutil.which(name)
    assert found, "PostgreSQL is needed for this test (Debian: apt-get install postgresql)"
    return found


def unprivileged() -> int | None:
    """The user that runs it if this is root, as which PostgreSQL refuses to run."""
    if os.geteuid() != 0:
        return None
    names = {one.pw_name: one.pw_uid for one in pwd.getpwall()}
    return names.get("postgres", names.get("nobody"))


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of an empty database."""
    user = unprivileged()
    place = Path(tempfile.mkdtemp(prefix="jobhall-postgres-"))
    data, log = place / "data", place / "log"
    try:
        if user is not None:
            os.chown(place, user, -1)
        make = [program("initdb"), "--pgdata", str(data), "--auth=trust", "--no-sync", f"--username={OWNER}"]
        subprocess.run(make, user=user, cwd="/", check=True, capture_output=True)
        settings = [f"unix_socket_directories={place}", "listen_addresses=", "max_connections=60"]
        command = [program("postgres"), "-D", str(data), *(word for one in settings for word in ("-c", one))]
        with log.open("wb") as file:
            server = subprocess.Popen(command, user=user, cwd="/", stdout=file, stderr=file)
        try:
            wait_for(lambda: "ready to accept connections" in log.read_text(), "PostgreSQL")
            yield f"postgres://{OWNER}@localhost/postgres?host={place}"
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(30)
    finally:
        shutil.rmtree(place)
