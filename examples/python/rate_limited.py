"""Calls an API that permits few requests per second. The hall's limit of a queue keeps all workers together within it.

jobhall queue set api --limit rate=10/1s     10 jobs of the queue start per second, on all workers together
python rate_limited.py worker                runs the jobs
python rate_limited.py submit 40             submits 40 calls and counts those that the API refused

``submit`` also is the API: a server on this machine that refuses what is too much.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jobhall
from jobhall import spec
from jobhall.worker import Retry

QUEUE = "api"
worker = jobhall.Worker(slots=16, name="rate-limited")


@worker.job("call-api", queue=QUEUE, max_attempts=20)
def call_api(url: str) -> Any:
    """One call. If the API refuses it nevertheless, the job runs again when the API says."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code != 429:
            raise
        raise Retry("the API is busy", in_=float(error.headers["Retry-After"])) from None


class Api(ThreadingHTTPServer):
    """Permits 25 requests at once and 25 more per second, and refuses others with 429."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.answered = self.refused = 0
        self._tokens, self._at = 25.0, time.monotonic()
        self._lock = threading.Lock()

    def permits(self) -> bool:
        with self._lock:
            now = time.monotonic()
            self._tokens, self._at = min(25.0, self._tokens + (now - self._at) * 25), now
            if self._tokens < 1:
                self.refused += 1
                return False
            self._tokens -= 1
            self.answered += 1
            return True


class _Answer(BaseHTTPRequestHandler):
    server: Api

    def do_GET(self) -> None:
        permitted = self.server.permits()
        body = json.dumps({"answer": self.path} if permitted else {"error": "too many requests"}).encode()
        self.send_response(200 if permitted else 429)
        if not permitted:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def submit(calls: int) -> int:
    api = Api()
    threading.Thread(target=api.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{api.server_port}"
    with jobhall.Client() as client:
        limits = ", ".join(f"{one.rate.count} per {one.rate.per_ms} ms" for one in _rates(client)) or "none"
        print(f"limit of queue {QUEUE}: {limits}")
        since = time.monotonic()
        jobs = client.submit_many(spec(call_api, url=f"{url}/{n}") for n in range(calls))
        answers = client.results(jobs, timeout=300)
    seconds = time.monotonic() - since
    print(f"{len(answers)} answers in {seconds:.1f} s; the API refused {api.refused} calls")
    api.shutdown()
    return 0


def _rates(client: jobhall.Client) -> list[Any]:
    try:
        return [limit for limit in client.queue(QUEUE).limits if limit.rate is not None]
    except jobhall.errors.NotFound:
        return []


def main(arguments: list[str]) -> int:
    match arguments:
        case ["worker"]:
            worker.run()
            return 0
        case ["submit", calls]:
            return submit(int(calls))
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
