"""Commands in this process: one step of a query, called with a value and arguments, without a server."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .._frames import read_frame
from .._query_text import argument_text
from ..errors import InvalidRequest
from ..worker._commands.values import Content, Writer, stored_bytes

if TYPE_CHECKING:
    from ..worker import Worker
    from ..worker._commands.function import CommandFunction
    from ._hall import LocalHall
    from ._jobs import LocalJob


@dataclass(frozen=True, slots=True)
class LocalValue:
    """The value of a command that ran in this process."""

    content: bytes
    media_type: str
    job: LocalJob
    """The job that ran it, with its log."""

    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        return json.loads(self.content)

    def frame(self, kind: Literal["pandas", "polars"] = "pandas") -> Any:
        return read_frame(self.content, self.media_type, kind)


@dataclass(frozen=True, slots=True)
class Call:
    """A command with its input and arguments, as the job of a query has them."""

    command: CommandFunction
    params: dict[str, Any]
    values: dict[str, Content]

    def options(self) -> dict[str, Any]:
        declared = self.command.declaration
        found: dict[str, Any] = {"params": self.params, "max_attempts": declared.get("retries", 0) + 1}
        if "timeout" in declared:
            found["timeout"] = declared["timeout"]
        return found


def find_command(worker: Worker, command: str | CommandFunction) -> CommandFunction:
    name = command if isinstance(command, str) else command.name
    if name not in worker.commands:
        known = ", ".join(worker.commands) or "none"
        raise InvalidRequest(f"the worker has no command {name!r} (it has: {known})")
    return worker.commands[name]


def call_of(command: CommandFunction, arguments: tuple[Any, ...], input: Any, format: str | None) -> Call:
    """What the server would give to the worker."""
    takes, name = command.parameters.arguments, command.name
    if len(arguments) > len(takes):
        raise InvalidRequest(f"{name} takes {len(takes)} arguments, {len(arguments)} given")
    values: dict[str, Content] = {}

    def linked(value: Any) -> dict[str, int]:
        values[f"value-{len(values)}"] = Writer("the test").write(value, None)
        return {"input": len(values) - 1}

    step: dict[str, Any] = {"command": name, "version": command.version, "arguments": []}
    if input is not None:
        step["input"] = linked(input)
    for at, parameter in enumerate(takes):
        given = arguments[at] if at < len(arguments) else parameter.default
        if at >= len(arguments) and given is None:
            raise InvalidRequest(f"argument {parameter.name!r} of {name} is missing")
        step["arguments"].append(linked(given) if parameter.kind is None else argument_text(given))
    if format is not None:
        step["format"] = _format(command, format)
    return Call(command, {"query": name, "identity": "", "steps": [step], "inputs": list(values)}, values)


def _format(command: CommandFunction, format: str) -> str:
    offered, wanted = command.declaration.get("formats", []), format.removeprefix(".")
    if wanted not in offered:
        raise InvalidRequest(f"{command.name} offers no .{wanted} (it offers: {', '.join(offered) or 'none'})")
    return wanted


def local_value(job: LocalJob) -> LocalValue:
    """The value of a job that has ended. Raises how it ended."""
    found = job.result()
    return LocalValue(stored_bytes(found), found["media_type"], job)


async def run_call(hall: LocalHall, call: Call) -> LocalValue:
    hall.values = call.values
    return local_value(await hall.run_async(call.command.type, **call.options()))
