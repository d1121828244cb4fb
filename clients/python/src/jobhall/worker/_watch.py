"""Watches the event loop. While a job blocks it, the session is silent, and the server gives attempts that are not
accepted within seconds to a worker: they are accepted over HTTP from a thread, so that none of them runs twice."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from ..errors import ApiError, ConnectionFailed, UnexpectedAnswer
from ._files import Access

if TYPE_CHECKING:
    from ._attempt import Attempt
    from ._loop import Loop

log = logging.getLogger("jobhall.worker")
LOOK_SECONDS = 0.5
BLOCKED_SECONDS = 1.5
"""Longer than between two heartbeats, and so short that all can be accepted before the server gives them away."""


class Watch:
    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._heartbeat = time.monotonic()
        self._is_blocked = False
        self._stopped = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._look, daemon=True, name="jobhall-watch").start()

    def stop(self) -> None:
        self._stopped.set()

    def heartbeat(self) -> None:
        """The event loop runs."""
        self._heartbeat = time.monotonic()
        if self._is_blocked:
            self._is_blocked = False
            log.warning("the event loop of the worker runs again")

    def _look(self) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            if time.monotonic() < self._heartbeat + BLOCKED_SECONDS:
                continue
            if not self._is_blocked:
                self._is_blocked = True
                log.warning('a job blocks the event loop of the worker: use run="process", or asyncio.to_thread')
            for attempt in self._loop.unaccepted():
                if self._stopped.is_set() or not self._is_blocked:
                    break
                self._report(attempt)

    def _report(self, attempt: Attempt) -> None:
        """Reports that an attempt has started, which accepts it, or only accepts it."""
        connection, name = self._loop.connection, self._loop.name
        headers = {"Jobhall-Lease": attempt.lease, **({"Jobhall-Worker": name} if name else {})}
        try:
            access = Access(connection, attempt.id, connection.token)
            if attempt.begun:
                access.once("POST", "progress", headers=headers, json={})
            else:
                access.once("POST", "accept", headers=headers)
        except (ConnectionFailed, UnexpectedAnswer) as error:
            log.warning("attempt %s is not accepted yet: %s", attempt.id, error)
            return
        except ApiError as error:
            if error.is_transient:
                return
            log.warning("attempt %s: %s", attempt.id, error)
        attempt.accept_sent = True
