"""A throwaway server with real objects: jobs in several states, a group, a schedule, artifacts, tokens, a worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

API = "/api/v1"
WORKER = "fuzz-worker"
OTHER = "other-worker"


@dataclass
class Reply:
    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Api:
    """Requests with the administrator's token."""

    url: str
    token: str

    def send(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
        """A path with two slashes at its beginning is one outside of ``/api/v1``."""
        address = self.url + (path[1:] if path.startswith("//") else API + path)
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        request = urllib.request.Request(address, data, method=method)
        all_headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind, **(headers or {})}
        for name, value in all_headers.items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                return Reply(reply.status, reply.read())
        except urllib.error.HTTPError as error:
            return Reply(error.code, error.read())

    def must(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        reply = self.send(method, path, body, headers)
        assert reply.status < 300, f"{method} {path}: {reply.status} {reply.body.decode()}"
        return reply.json() if reply.body else None

    def claim(self) -> dict[str, Any]:
        """A new job, claimed and accepted by the worker. No request of the test names its type or queue."""
        # A request may have paused or drained the worker.
        self.send("POST", f"/workers/{WORKER}/resume")
        job = self.must("POST", "/jobs", {"type": "fuzz-work", "queue": "work", "params": {"a": 1}})
        poll = {"slots": 1, "wait_s": 5, "accepts": "queue=work", "fresh": True}
        for _ in range(3):
            answer = self.must("POST", "/vacancies", poll, {"Jobhall-Worker": WORKER})
            if answer is not None:
                break
        assert answer is not None, self.must("GET", f"/jobs/{job['id']}/explain")
        attempt = answer["attempts"][0]
        self.must("POST", f"/attempts/{attempt['id']}/accept", None, lease(attempt))
        return dict(attempt)


def lease(attempt: dict[str, Any]) -> dict[str, str]:
    return {"Jobhall-Lease": attempt["lease"], "Jobhall-Worker": WORKER}


@dataclass
class Hall:
    """The server's process."""

    binary: str
    place: Path
    process: subprocess.Popen[bytes] | None = None
    api: Api = field(default_factory=lambda: Api("", ""))

    def start(self) -> None:
        data = self.place / "data"
        data.mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("JOBHALL_", "XDG_"))}
        env = kept | {"HOME": str(self.place), "XDG_STATE_HOME": str(self.place / "state")}
        command = [self.binary, "server", "--data", str(data), "--listen", "127.0.0.1:0"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        self.wait_for_record(data / "server.json", data / "admin.token")

    def wait_for_record(self, record: Path, token: Path) -> None:
        """Looks for the files that say where the server listens, until a deadline."""
        assert self.process is not None
        deadline = time.monotonic() + 30
        while not (token.exists() and self.address(record)):
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, "the server has not started within 30 s"
            time.sleep(0.01)
        self.api = Api(self.address(record), token.read_text().strip())

    @staticmethod
    def address(record: Path) -> str:
        try:
            return str(json.loads(record.read_text())["url"])
        except (OSError, ValueError):
            return ""

    @property
    def log(self) -> Path:
        return self.place / "server.log"

    def stop(self) -> int:
        """Stops the server in order, and returns its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


def furnish(api: Api) -> dict[str, list[str | int]]:
    """Makes objects in every state, and returns their ids and names."""
    jobs: list[int] = []

    def submit(**job: Any) -> int:
        jobs.append(api.must("POST", "/jobs", {"type": "fuzz", **job})["id"])
        return jobs[-1]

    submit(key="k", params={"n": [1]}, tags=["t"], owner="o")
    first = submit(run_at="2100-01-01T00:00:00Z")
    submit(after=[first])
    api.must("POST", f"/jobs/{submit()}/hold")
    api.must("POST", f"/jobs/{submit()}/cancel")
    for outcome in ("succeeded", "failed"):
        attempt = api.claim()
        path, by = f"/attempts/{attempt['id']}", lease(attempt)
        api.must("POST", f"{path}/log", b"hello\n", by)
        api.must("PUT", f"{path}/artifacts/report/a.txt", b"an artifact", by)
        end: dict[str, Any] = {"value": [1]} if outcome == "succeeded" else {"error": {"reason": "r"}}
        api.must("POST", f"{path}/outcome", {"outcome": outcome, **end}, by)
        jobs.append(attempt["job"]["id"])
    api.must("POST", "/tokens", {"name": OTHER, "role": "worker"})
    group = api.must("POST", "/groups", {"name": "g", "closed": True, "jobs": [{"type": "fuzz"}, {"type": "fuzz"}]})
    done = api.must("POST", "/groups", {"closed": True})
    api.must("PUT", "/types/external", {"external": True})
    api.must("PUT", "/queues/limited", {"limits": [{"concurrency": 2, "by": "owner"}]})
    api.must("PUT", "/schedules/nightly", {"cron": "0 3 * * *", "job": {"type": "fuzz"}})
    operation = api.must("POST", "/operations", {"verb": "cancel", "filter": {"tag": "none"}, "dry_run": True})
    tokens = [api.must("POST", "/tokens", {"name": f"t{n}", "role": "viewer"})["id"] for n in range(3)]
    join = api.must("POST", "/tokens", {"kind": "join", "role": "worker", "uses": 10_000, "expires_in": "1h"})
    return {
        "jobs": [*jobs],
        "attempts": [f"{jobs[-1]}-1", f"{jobs[-2]}-1"],
        "groups": [group["id"], done["id"]],
        "operations": [operation["id"]],
        "types": ["fuzz", "external"],
        "queues": ["default", "limited"],
        "schedules": ["nightly"],
        "workers": [OTHER],
        "artifacts": ["report/a.txt"],
        "tokens": tokens,
        "join": [join["secret"]],
        "keys": ["k"],
    }
