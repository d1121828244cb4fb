"""Declares the commands of a worker to the server, when its first session begins.

A later session declares only commands that the server does not know at all: another worker may have declared a newer
version meanwhile, and a lost connection must not bring the old one back.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ..._core import Request, change, get
from ..._transport import AsyncTransport
from ...errors import ApiError, ConnectionFailed, UnexpectedAnswer
from .._attempt import TRANSIENT
from .version import edited_while_loaded, warning

if TYPE_CHECKING:
    from pathlib import Path

    from ..._connection import Connection
    from .function import CommandFunction

log = logging.getLogger("jobhall.worker")
AGAIN_SECONDS = 1.0
AT_ONCE = 500
"""Commands in one request."""


def freeze(commands: dict[str, CommandFunction], loaded_since: int | None = None) -> Path | None:
    """Determines which code the commands are, and names what they import and does not count.

    Returns a file that was edited after this time, while the app was loaded: then it is not known.
    """
    warned = set()
    if loaded_since is not None:
        hashed = [command for command in commands.values() if command.is_hashed and command.version]
        edited = edited_while_loaded((command.source for command in hashed), loaded_since)
        if edited is not None:
            log.warning("%s was edited while it was loaded: loading the app again", edited)
            return edited
    for command in commands.values():
        _ = command.version
        source = command.source
        modules = tuple(source.uncounted())
        if command.is_hashed and modules and source.path is not None and (source.path, modules) not in warned:
            warned.add((source.path, modules))
            log.warning("%s", warning(source.path, modules))
    return None


class Declaring:
    """Declares commands in the background. ``is_over`` is true as soon as the server knows them or refuses them."""

    def __init__(self, connection: Connection, commands: dict[str, CommandFunction]) -> None:
        self._connection = connection
        self._commands = commands
        self._task: asyncio.Task[None] | None = None
        self._declared = False
        self.is_over = not commands

    def begin(self) -> None:
        """A session has begun."""
        if self._commands:
            self.stop()
            self._task = asyncio.get_running_loop().create_task(self._declare())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _declare(self) -> None:
        transport = AsyncTransport(self._connection)
        try:
            while True:
                if await self._try(transport):
                    return
                await asyncio.sleep(AGAIN_SECONDS)
        finally:
            await transport.close()

    async def _try(self, transport: AsyncTransport) -> bool:
        """Whether no further try is needed."""
        try:
            names = await self._unknown(transport) if self._declared else list(self._commands)
            for start in range(0, len(names), AT_ONCE):
                some = {name: self._commands[name].declared() for name in names[start : start + AT_ONCE]}
                await _ask(transport, change("PUT", "commands", body={"commands": some}, repeatable=True))
        except ApiError as error:
            if error.code in TRANSIENT:
                log.warning("the commands are not declared yet: %s", error)
                return False
            log.error("the server refused the commands of this worker: %s", error)
        except (ConnectionFailed, UnexpectedAnswer) as error:
            log.warning("the commands are not declared yet: %s", error)
            return False
        else:
            self._declared = True
            if names:
                log.info("commands declared: %s", ", ".join(f"{name}@{self._commands[name].version}" for name in names))
        self.is_over = True
        return True

    async def _unknown(self, transport: AsyncTransport) -> list[str]:
        page = await _ask(transport, get("commands"))
        known = {one["name"] for one in page["items"]}
        return [name for name in self._commands if name not in known]


async def _ask(transport: AsyncTransport, request: Request) -> Any:
    return await transport.run(transport.core.json(request))
