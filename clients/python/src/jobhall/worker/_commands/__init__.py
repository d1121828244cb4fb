"""Commands of queries: functions that a worker declares, and that run as the steps of queries.

``arguments`` reads the signature of a function, ``values`` converts what goes in and out, ``version`` says which code a
function is, ``function`` runs the steps of an attempt, and ``declare`` makes the commands known to the server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from ..._spec import Span

if TYPE_CHECKING:
    from pathlib import Path

    from .. import Run
    from .function import CommandFunction

Decorator = Callable[[Callable[..., Any]], "CommandFunction"]


@dataclass(frozen=True, slots=True)
class Options:
    """What a decorator says about its command."""

    input: bool = True
    version: str | None = None
    depends: str | Sequence[str] = ()
    ignore: Sequence[str] = ()
    media_type: str | None = None
    formats: Sequence[str] | None = None
    run: Run | None = None
    declared: dict[str, Any] = field(default_factory=dict)
    """Fields that are declared as they are given."""


class Commands:
    """The commands of a worker."""

    def __init__(self) -> None:
        self.functions: dict[str, Any] = {}
        self.commands: dict[str, CommandFunction] = {}
        """By name."""
        self.loaded_since: int | None = None
        """When the import of the app began, in nanoseconds; none if it was not imported to run it."""

    @overload
    def command(self, name: Callable[..., Any], /) -> CommandFunction: ...

    @overload
    def command(
        self,
        name: str | None = None,
        /,
        *,
        input: bool = True,
        version: str | int | None = None,
        depends: str | Sequence[str] = (),
        ignore: Sequence[str] = (),
        media_type: str | None = None,
        formats: Sequence[str] | None = None,
        run: Run | None = None,
        volatile: bool = False,
        soft_volatile: bool = False,
        cacheable: bool = True,
        expires: Span | None = None,
        retries: int = 0,
        timeout: Span | None = None,
        needs: str | None = None,
        uses: str | None = None,
        help: str | None = None,
    ) -> Decorator: ...

    def command(
        self,
        name: str | Callable[..., Any] | None = None,
        /,
        *,
        input: bool = True,
        version: str | int | None = None,
        depends: str | Sequence[str] = (),
        ignore: Sequence[str] = (),
        media_type: str | None = None,
        formats: Sequence[str] | None = None,
        run: Run | None = None,
        volatile: bool = False,
        soft_volatile: bool = False,
        cacheable: bool = True,
        expires: Span | None = None,
        retries: int = 0,
        timeout: Span | None = None,
        needs: str | None = None,
        uses: str | None = None,
        help: str | None = None,
    ) -> Decorator | CommandFunction:
        """Registers a function as a command of queries, by its own name or another one.

        The first parameter is the value of the step before; with ``input=False`` the command begins a query and has
        none. The other parameters are the arguments. What the annotations mean is in the README.

        ``version`` replaces the version, which is otherwise a hash of the declaration, of the file of the function's
        module, and of the modules that ``depends`` names (or ``depends="package"``). ``ignore`` names arguments that do
        not change the value. ``formats`` are the extensions that the file name of a query may have, ``ctx.format`` says
        which one was asked for.
        """
        from .function import CommandFunction, declared_fields

        fields = declared_fields(
            {"volatile": volatile, "soft_volatile": soft_volatile, "cacheable": cacheable, "expires": expires}
            | {"retries": retries, "timeout": timeout, "needs": needs, "uses": uses, "help": help}
        )
        version = None if version is None else str(version)
        options = Options(input, version, depends, ignore, media_type, formats, run, fields)

        def register(function: Callable[..., Any]) -> CommandFunction:
            named = name if isinstance(name, str) else getattr(function, "__name__", "")
            if named in self.commands:
                raise ValueError(f"the command {named!r} is declared twice")
            made = CommandFunction(named, function, options, self.commands)
            self.functions[made.type] = self.commands[named] = made
            return made

        return register(name) if callable(name) else register

    def freeze_commands(self) -> Path | None:
        """Says which code the commands are; a file that was edited while the app was loaded, if there is one."""
        from .declare import freeze

        return freeze(self.commands, self.loaded_since)

    def command_abilities(self) -> str:
        """The ability by which the server finds a worker with a command in its version."""
        if not self.commands:
            return ""
        names = ",".join(f'"{name}@{command.version}"' for name, command in self.commands.items())
        return f"commands=[{names}]"
