"""A real server for tests: on a free port, in a directory of its own, with nothing of the user's environment."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from .. import _running
from ..aio import AsyncClient
from ..client import Client
from ..errors import ConfigurationError, JobhallError
from ..worker import Worker
from ..worker._output import _Stream as Stream

START_SECONDS = 30.0
STOP_SECONDS = 30.0
_LOOK_SECONDS = 0.005
_ISOLATED = ("JOBHALL_", "XDG_")
_names = itertools.count(1)
_workers: list[RunningWorker] = []


def find_binary() -> str:
    """The server's program: ``JOBHALL_BIN``, or ``jobhall`` on the path."""
    named = os.environ.get("JOBHALL_BIN")
    found = shutil.which(named or "jobhall")
    if found is None:
        why = f"JOBHALL_BIN is {named}, which is no program" if named else "jobhall is not on the PATH"
        raise ConfigurationError("no server to start", why=why, fix="install jobhall, or set JOBHALL_BIN to its path")
    return found


class Server:
    """A server and its data, which are removed when it is closed.

    ``commands`` says whether it also runs commands (type ``exec``), as ``jobhall up`` does. Without a ``directory`` a
    temporary one is made.
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None, *, commands: bool = False) -> None:
        self._temporary = None if directory else tempfile.TemporaryDirectory(prefix="jobhall-")
        self.directory = Path(directory or (self._temporary.name if self._temporary else "")).absolute()
        self.data = self.directory / "data"
        self.commands = commands
        self.url = ""
        self.process: subprocess.Popen[bytes] | None = None
        self._workers: list[RunningWorker] = []
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_ISOLATED)}
        self.env = {**kept, "HOME": str(self.directory), "XDG_STATE_HOME": str(self.directory / "state")}
        """The environment of the server."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, listen: str = "127.0.0.1:0") -> Self:
        """Starts the server and waits until clients find it. After :meth:`stop` it continues with its data."""
        if self.process is not None:
            raise JobhallError("the server runs already")
        binary = find_binary()
        self.data.mkdir(parents=True, exist_ok=True)
        verb = "up" if self.commands else "server"
        command = [binary, verb, "--data", str(self.data), "--listen", listen]
        with (self.directory / "server.log").open("ab") as log:
            self.process = subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            _wait_until(self._is_up, START_SECONDS, lambda: f"the server did not start:\n{self.log()}")
        except BaseException:
            self.stop(signal.SIGKILL)
            raise
        return self

    def _is_up(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            code = self.process.returncode
            raise JobhallError(f"the server ended with code {code}:\n{self.log()}")
        # The record for this user is the last thing that a server writes when it starts.
        records = _running.servers([self.directory / "state" / "jobhall"])
        found = next((record for record in records if record.pid == self.process.pid), None)
        self.url = found.url if found else ""
        return found is not None

    def stop(self, how: int = signal.SIGTERM) -> None:
        """Stops the workers that :meth:`run_worker` started, and the server; the data stay."""
        try:
            if how == signal.SIGTERM:
                while self._workers:
                    self._workers.pop().stop()
        finally:
            if self.process is not None:
                self.process.send_signal(how)
                try:
                    self.process.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    self.process.kill()
                    self.process.wait()
                self.process = None

    def close(self) -> None:
        """Stops the server and removes its temporary directory."""
        try:
            self.stop()
        finally:
            if self._temporary is not None:
                self._temporary.cleanup()

    @property
    def token(self) -> str:
        """The token of the administrator."""
        return (self.data / "admin.token").read_text().strip()

    @property
    def environ(self) -> dict[str, str]:
        """The variables by which clients, workers and the command line find the server."""
        return {"JOBHALL_SERVER": self.url, "JOBHALL_TOKEN": self.token}

    def log(self) -> str:
        """What the server has logged."""
        try:
            return (self.directory / "server.log").read_text(errors="replace")
        except OSError:
            return ""

    def client(self) -> Client:
        return Client(self.url, self.token)

    def async_client(self) -> AsyncClient:
        return AsyncClient(self.url, self.token)

    def run_worker(self, worker: Worker) -> RunningWorker:
        """Runs a worker in a thread of this process, until it or the server is stopped. The worker is not changed."""
        running = RunningWorker(worker, self.url, self.token)
        self._workers.append(running)
        return running


class RunningWorker:
    """A worker in a thread of this process, connected to a server."""

    def __init__(self, worker: Worker, url: str, token: str) -> None:
        self.worker = copy.copy(worker)
        self.worker.server, self.worker.token = url, token
        self.worker.name = worker.name or f"test-{os.getpid()}-{next(_names)}"
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name=self.worker.name, daemon=True)
        _workers.append(self)
        self._thread.start()
        try:
            _wait_until(self._is_connected, START_SECONDS, lambda: "the worker could not connect")
        except BaseException:
            self.stop()
            raise
        if self._error is not None:
            self.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _work(self) -> None:
        try:
            asyncio.run(self.worker.serve())
        except BaseException as error:
            self._error = error

    def _is_connected(self) -> bool:
        if self._error is not None:
            return True
        loop = self.worker.loop
        return loop is not None and loop.session is not None and loop.declaring.is_over

    def stop(self, timeout: float = STOP_SECONDS) -> None:
        """Lets the current jobs end, and cancels them after ``timeout`` seconds. Raises why the worker had stopped."""
        if self in _workers:
            for _ in range(2):
                self._drain()
                self._thread.join(timeout)
            _workers.remove(self)
            if self._thread.is_alive():
                raise JobhallError(f"a job of worker {self.worker.name} does not end")
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _drain(self) -> None:
        loop = self.worker.loop
        if loop is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # the event loop has just ended
                loop.loop.call_soon_threadsafe(loop.drain)


def _wait_until(condition: Callable[[], bool], seconds: float, what: Callable[[], str]) -> None:
    """Looks for a condition until a deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise JobhallError(what())
        time.sleep(_LOOK_SECONDS)


@contextlib.contextmanager
def output_of_jobs() -> Iterator[None]:
    """Sends what jobs print to their logs although pytest has replaced the standard streams since the worker began."""
    if not _workers or isinstance(sys.stdout, Stream):
        yield
        return
    before = sys.stdout, sys.stderr
    ours: Any = Stream("stdout", sys.stdout), Stream("stderr", sys.stderr)
    sys.stdout, sys.stderr = ours
    try:
        yield
    finally:
        if (sys.stdout, sys.stderr) == ours:
            sys.stdout, sys.stderr = before
