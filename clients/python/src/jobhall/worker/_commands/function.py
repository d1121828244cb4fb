"""A function as a command, and the attempt of a node: its steps one after the other."""

from __future__ import annotations

import asyncio
import inspect
import logging
import mimetypes
import shutil
import tempfile
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..._codecs import OCTETS, check_extension, essence
from ..._query_text import COMMAND
from ..._spec import span
from .. import JobFunction
from .._verdicts import Refusal, Skip, StoredValue
from .arguments import Parameter, Parameters, parameters
from .values import (
    Content,
    Writer,
    fetch,
    fetch_bytes,
    known_forms,
    read_parameter,
    report_value,
)
from .version import Source, check_version

if TYPE_CHECKING:
    from .._context import Context
    from . import Options

log = logging.getLogger("jobhall.worker")
PREFIX = "q."
"""The types of jobs that are nodes of queries begin with this."""
_MOST_HERE = 2_048
"""The server's bound."""
_DEFAULTS: dict[str, Any] = {"volatile": False, "soft_volatile": False, "cacheable": True, "retries": 0}


def declared_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a declaration that differ from what is meant without them."""
    fields = {name: value for name, value in given.items() if value is not None and value != _DEFAULTS.get(name)}
    for name in ("timeout", "expires"):
        if name in fields:
            fields[name] = span(fields[name])
    return fields


class CommandFunction(JobFunction):
    """A function that runs as a step of queries. Calling it runs it here."""

    def __init__(
        self, name: str, function: Callable[..., Any], options: Options, commands: Mapping[str, CommandFunction]
    ) -> None:
        if not COMMAND.fullmatch(name):
            raise ValueError(
                f"{name!r:.80} is no name of a command: up to 48 letters, digits and '_', beginning with a lower-case "
                "letter or '_'; write @worker.command(\"name\")"
            )
        self.name = name
        self.user_function = function
        self.parameters: Parameters = parameters(function, options.input)
        self._commands = commands
        hint = typing.get_type_hints(function).get("return", inspect.Parameter.empty)
        extensions, media_type = known_forms(hint, options.media_type)
        self.writer = Writer(name, options.media_type)
        self.declaration = self._declare(options, extensions, media_type)
        self._source = Source.of(function, options.depends)
        self._is_hashed = options.version is None
        self._version = None if options.version is None else check_version(options.version)
        self.type = PREFIX + name
        self.options: dict[str, Any] = {}
        self.signature: Any = _NodeSignature(commands)
        self.is_async = inspect.iscoroutinefunction(function)
        self.function = self._run_async if self.is_async else self._run
        self.run = options.run or ("async" if self.is_async else "thread")
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", name)
        self.check_run()

    def __call__(self, *args: Any, **arguments: Any) -> Any:
        return self.user_function(*args, **arguments)

    def _declare(self, options: Options, extensions: list[str], media_type: str | None) -> dict[str, Any]:
        fields = dict(options.declared)
        arguments = self.parameters.arguments
        if isinstance(options.ignore, str):
            raise TypeError(f"ignore of {self.name} must be a list of arguments, not {options.ignore!r:.80}")
        unknown = set(options.ignore) - {one.name for one in arguments}
        if unknown:
            known = ", ".join(one.name for one in arguments) or "none"
            raise ValueError(f"ignore of {self.name}: there is no argument {min(unknown)!r} (it has: {known})")
        text = inspect.getdoc(self.user_function)
        if "help" not in fields and text:
            fields["help"] = text.split("\n\n", 1)[0].replace("\n", " ")[:1_000]
        if arguments:
            fields["args"] = [one.wire(one.name in options.ignore) for one in arguments]
        formats = extensions if options.formats is None else [check_extension(one) for one in options.formats]
        if formats:
            fields["formats"] = formats
        if media_type is not None:
            fields["media_type"] = media_type
        return fields

    @property
    def version(self) -> str:
        """The version, which is part of the identity of its values."""
        if self._version is None:
            self._source.freeze(self.name)
            takes = {"name": self.name, "input": self.parameters.input is not None}
            self._version = self._source.version({**takes, **self.declaration})
        return self._version

    @property
    def is_hashed(self) -> bool:
        """Whether its version is made of its code."""
        return self._is_hashed

    @property
    def source(self) -> Source:
        return self._source

    def declared(self) -> dict[str, Any]:
        """What is declared to the server."""
        return {"version": self.version, "command": self.declaration}

    def _run(self, node: dict[str, Any], ctx: Context) -> StoredValue:
        """Runs the steps of a node, in a thread or a process."""
        with _Node(self._commands, node, ctx) as running:
            for at in range(running.count):
                command, arguments = running.prepare(at)
                value = command.call(arguments)
                running.keep(at, value)
            return running.report()

    async def _run_async(self, node: dict[str, Any], ctx: Context) -> StoredValue:
        """The same, in an event loop; what is converted meanwhile does not keep it from other jobs."""
        with _Node(self._commands, node, ctx) as running:
            for at in range(running.count):
                command, arguments = await asyncio.to_thread(running.prepare, at)
                value = await command.call_async(arguments)
                await asyncio.to_thread(running.keep, at, value)
            return await asyncio.to_thread(running.report)

    def call(self, arguments: dict[str, Any]) -> Any:
        try:
            value = self.user_function(**arguments)
            return asyncio.run(value) if self.is_async else value
        except Skip as skip:
            raise self._skipped(skip) from skip

    async def call_async(self, arguments: dict[str, Any]) -> Any:
        if not self.is_async:
            return await asyncio.to_thread(self.call, arguments)
        try:
            return await self.user_function(**arguments)
        except Skip as skip:
            raise self._skipped(skip) from skip

    def _skipped(self, skip: Skip) -> Refusal:
        return Refusal("no_value", f"{self.name} raised Skip, but a step of a query must have a value: {skip}")


class _NodeSignature:
    """The params of a node in place of the arguments of a function."""

    context = "ctx"

    def __init__(self, commands: Mapping[str, CommandFunction]) -> None:
        self._commands = commands

    def bind(self, params: Any) -> dict[str, Any]:
        if not isinstance(params, dict) or not params.get("steps"):
            raise Refusal("bad_params", "the params are those of no query")
        for step in params["steps"]:
            known = self._commands.get(step["command"])
            if known is None or known.version != step["version"]:
                raise Refusal("unknown_version", f"this worker has no {step['command']}@{step['version']}")
            if known.is_hashed and known.source.is_outdated():
                log.warning(
                    "%s was edited: its commands are those of the old file until this worker is restarted "
                    "(--reload restarts it after each edit)",
                    known.source.path,
                )
        return {"node": params}


def _offered(commands: Mapping[str, CommandFunction]) -> list[str]:
    """The commands that may be run within others; none if the values of all may be kept."""
    modes = ("volatile", "soft_volatile")
    unkept = any(command.declaration.get(mode) for command in commands.values() for mode in modes)
    return [f"{name}@{command.version}" for name, command in commands.items()][:_MOST_HERE] if unkept else []


class _Node:
    """The values of a running node: its inputs, and those of the steps that have ended."""

    def __init__(self, commands: Mapping[str, CommandFunction], params: dict[str, Any], ctx: Context) -> None:
        self._commands = commands
        self._steps: list[dict[str, Any]] = params["steps"]
        self._identities: list[str] = params.get("inputs", [])
        self._sources: list[dict[str, str]] = params.get("sources", [])
        self._ctx = ctx
        self._directory: Path | None = None
        self._known: dict[tuple[str, int], Content] = {}
        """What was read from the server, and the values of steps, by their places."""
        self._files = 0
        if ctx._asking.run is None:
            ctx._asking.here = _offered(commands)
            ctx._asking.run = self._run_here

    def _run_here(self, params: dict[str, Any]) -> bytes:
        """The value of a query that this attempt asks for and that may not be kept."""
        with _Node(self._commands, params, self._ctx._within()) as running:
            for at in range(running.count):
                command, arguments = running.prepare(at)
                running.keep(at, command.call(arguments))
            return running._known["step", running.count - 1].read()

    @property
    def count(self) -> int:
        return len(self._steps)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def prepare(self, at: int) -> tuple[CommandFunction, dict[str, Any]]:
        """The command of a step, and what it is called with."""
        step = self._steps[at]
        command = self._commands[step["command"]]
        self._ctx.format = step.get("format")
        takes, place = command.parameters, step.get("input")
        arguments: dict[str, Any] = {}
        if takes.context is not None:
            arguments[takes.context] = self._ctx
        if takes.input is None and place is not None:
            raise Refusal("unexpected_input", f"{command.name} takes no input: it can only begin a query")
        if takes.input is not None and place is not None:
            arguments[takes.input.name] = self._read(takes.input, place, command)
        elif takes.input_required:
            raise Refusal("no_input", f"{command.name} needs an input: it cannot begin a query")
        for parameter, given in zip(takes.arguments, step.get("arguments", []), strict=True):
            if isinstance(given, str):
                arguments[parameter.name] = parameter.convert(given, command.name)
            else:
                arguments[parameter.name] = self._read(parameter, given, command)
        return command, arguments

    def _read(self, parameter: Parameter, place: dict[str, int], command: CommandFunction) -> Any:
        assert parameter.link is not None
        content = self._content(place, parameter.link.as_file)
        return read_parameter(parameter.link, content, parameter.name, command.name)

    def _content(self, place: dict[str, int], as_file: bool) -> Content:
        (found,) = place.items()
        if found not in self._known:
            self._known[found] = self._receive(*found, as_file)
        content = self._known[found]
        if as_file and isinstance(content.data, bytes):
            path = self._new_file()
            path.write_bytes(content.data)
            content = self._known[found] = Content(path, content.media_type)
        return content

    def _receive(self, kind: str, at: int, as_file: bool) -> Content:
        """A value that another job has made, or stored data, whose key may say what it is."""
        if kind == "input":
            return self._fetch(self._identities[at], as_file)
        if kind != "source":
            raise Refusal("bad_params", f"a step receives a {kind}, which this version does not know")
        source = self._sources[at]
        content = self._fetch(source["digest"], as_file)
        guessed = mimetypes.guess_type(source["key"])[0] if essence(content.media_type) == OCTETS else None
        return Content(content.data, guessed or content.media_type)

    def _fetch(self, identity: str, as_file: bool) -> Content:
        access = self._ctx._reach()
        if not as_file:
            return fetch_bytes(access, identity, self._ctx)
        path = self._new_file()
        with path.open("wb") as file:
            media_type = fetch(access, identity, file, self._ctx)
        return Content(path, media_type)

    def _new_file(self) -> Path:
        """A file for a value, in the directory of this attempt."""
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="jobhall-value-"))
        self._files += 1
        return self._directory / f"value-{self._files}"

    def keep(self, at: int, value: Any) -> None:
        """The value of a step as bytes."""
        step = self._steps[at]
        self._known["step", at] = self._commands[step["command"]].writer.write(value, step.get("format"))

    def report(self) -> StoredValue:
        return report_value(self._known["step", self.count - 1])
