"""Reports attempts as crashed whose process has died, over HTTP."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from ..errors import ApiError, ConnectionFailed, UnexpectedAnswer
from ._files import Access
from ._verdicts import Report, crashed

if TYPE_CHECKING:
    from .._connection import Connection
    from ._registry import Left

log = logging.getLogger("jobhall.worker")
THREADS = 8
FIRST_SECONDS = 0.5
AGAIN_SECONDS = 0.5
LEASE_SECONDS = 30.0
FINISH_SECONDS = 5.0


class Reports:
    """The reports that are not answered yet. A server that is away gets them when it is back."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._open: set[Future[None]] = set()
        self._stopped = threading.Event()

    def crashed(self, left: Left, reason: str, explanation: str) -> None:
        """Reports the attempts, and waits a moment for the answers."""
        if left.connection is None or not left.attempts:
            return
        self._threads = self._threads or ThreadPoolExecutor(THREADS, thread_name_prefix="jobhall")
        report = crashed(reason, explanation)
        until = time.monotonic() + LEASE_SECONDS
        for attempt, lease in left.attempts:
            self._open.add(self._threads.submit(self._send, left.connection, left.name, attempt, lease, report, until))
        wait(self._open, FIRST_SECONDS)

    def are_open(self) -> bool:
        self._open = {one for one in self._open if not one.done()}
        return bool(self._open)

    def finish(self) -> None:
        wait(self._open, FINISH_SECONDS)
        self._stopped.set()

    def _send(
        self, connection: Connection, name: str | None, attempt: str, lease: str, report: Report, until: float
    ) -> None:
        access = Access(connection, attempt, connection.token)
        headers = {"Jobhall-Lease": lease}
        if name:
            headers["Jobhall-Worker"] = name
        while not self._stopped.is_set() and time.monotonic() < until:
            try:
                access.once("POST", "outcome", headers=headers, json=report)
            except (ConnectionFailed, UnexpectedAnswer) as error:
                log.warning("attempt %s is not reported yet: %s", attempt, error)
                self._stopped.wait(AGAIN_SECONDS)
            except ApiError as error:
                if error.status < 500:
                    # Its outcome was reported before the process died, or its lease has ended.
                    log.info("attempt %s: %s", attempt, error)
                    return
                self._stopped.wait(AGAIN_SECONDS)
            else:
                return
