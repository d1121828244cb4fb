"""The parameters of a command: its input, and arguments, which arrive as texts."""

from __future__ import annotations

import datetime
import enum
import inspect
import re
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Union, get_args, get_origin

from ..._query_text import argument_text
from ...errors import InvalidRequest
from .._context import Context
from .._verdicts import BadArguments
from .values import Reader, reader

_NAME = re.compile(r"[a-z_][A-Za-z0-9_]{0,47}")
_SPAN = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?", re.ASCII)
_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1_000, 1)
MOST_PARAMETERS = 32
"""The server's bound."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The type of an argument: its name in the declaration, and the conversion of its text."""

    name: str
    read: Callable[[str], Any]
    expected: str = "another value"
    values: tuple[str, ...] = ()


def _bool(text: str) -> bool:
    return {"true": True, "false": False}[text]


def _span(text: str) -> datetime.timedelta:
    found = _SPAN.fullmatch(text)
    if not text or found is None:
        raise ValueError(text)
    pairs = zip(found.groups(), _UNITS_MS, strict=True)
    return datetime.timedelta(milliseconds=sum(int(number) * unit for number, unit in pairs if number))


def _moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


_KINDS: dict[Any, Kind] = {
    str: Kind("text", str),
    Any: Kind("text", str),
    inspect.Parameter.empty: Kind("text", str),
    int: Kind("int", int, "a whole number"),
    float: Kind("number", float, "a number"),
    bool: Kind("bool", _bool, "true or false"),
    datetime.date: Kind("date", datetime.date.fromisoformat, "a date such as 2026-01-31"),
    datetime.datetime: Kind("text", _moment, "a time such as 2026-01-31T12:00:00+00:00"),
    datetime.timedelta: Kind("span", _span, "a duration such as 1h30m"),
}


def _choice(values: typing.Iterable[Any], show: Callable[[Any], str]) -> Kind:
    known = {show(value): value for value in values}
    return Kind("one_of", known.__getitem__, "one of " + ", ".join(known), tuple(known))


def _kind(hint: Any) -> Kind | None:
    """The type of an argument with this annotation; none if it is no text."""
    if isinstance(hint, typing.NewType):
        return _kind(hint.__supertype__)
    if get_origin(hint) is typing.Annotated:
        return _kind(get_args(hint)[0])
    if hint in _KINDS:
        return _KINDS[hint]
    if get_origin(hint) is Literal:
        return _choice(get_args(hint), argument_text)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _choice(hint, lambda one: argument_text(one.value))
    return None


def _without_none(hint: Any) -> Any:
    """``T`` of ``T | None``; the hint itself if it is no such union."""
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    rest = [arg for arg in get_args(hint) if arg is not type(None)]
    return rest[0] if len(rest) == 1 and len(rest) < len(get_args(hint)) else hint


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument: a text, or a link, which is the value of another query."""

    name: str
    kind: Kind | None
    link: Reader | None = None
    default: str | None = None

    def wire(self, ignore: bool) -> dict[str, Any]:
        found: dict[str, Any] = {"name": self.name, "type": self.kind.name if self.kind else "link"}
        if self.kind is not None and self.kind.values:
            found["values"] = list(self.kind.values)
        if self.default is not None:
            found["default"] = self.default
        if ignore:
            found["ignore"] = True
        if found["type"] in ("text", "one_of"):
            # Nothing here takes an argument for an option.
            found["dash"] = True
        return found

    def convert(self, text: str, command: str) -> Any:
        """The value of a text; raises :class:`BadArguments`, which names the argument."""
        assert self.kind is not None
        try:
            return self.kind.read(text)
        except (ValueError, KeyError, OverflowError):
            raise BadArguments(
                f"argument {self.name!r} of {command} must be {self.kind.expected}, not {text!r:.80}"
            ) from None


@dataclass(slots=True)
class Parameters:
    """What a command takes."""

    input: Parameter | None = None
    input_required: bool = False
    context: str | None = None
    arguments: list[Parameter] = field(default_factory=list)


def parameters(function: Callable[..., Any], has_input: bool) -> Parameters:
    """Reads the signature of a function."""
    name = getattr(function, "__qualname__", repr(function))
    hints = typing.get_type_hints(function)
    found = Parameters()
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name, parameter.empty)
        if hint is Context or (parameter.name == "ctx" and hint is parameter.empty):
            found.context = parameter.name
        elif parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{name}: a command is called by the names of its parameters, so {parameter} cannot be one")
        elif has_input and found.input is None:
            found.input = Parameter(parameter.name, None, _input(name, parameter.name, hint))
            found.input_required = parameter.default is parameter.empty
        else:
            found.arguments.append(_argument(name, parameter, hint))
    if len(found.arguments) > MOST_PARAMETERS:
        raise TypeError(f"{name} has {len(found.arguments)} arguments, the limit is {MOST_PARAMETERS}")
    return found


def _input(function: str, name: str, hint: Any) -> Reader:
    if hint is inspect.Parameter.empty or hint is Any:
        raise TypeError(
            f"{function}: annotate {name!r}, the value of the step before, with bytes, str, Path, dict, list or "
            "another type; if the command begins a query and it is an argument, write @worker.command(input=False)"
        )
    return reader(hint, f"{function}: {name!r}")


def _argument(function: str, parameter: inspect.Parameter, hint: Any) -> Parameter:
    name = parameter.name
    if not _NAME.fullmatch(name):
        raise TypeError(
            f"{function}: {name!r} is no name of an argument: up to 48 letters, digits and '_', beginning with a "
            "lower-case letter or '_'"
        )
    has_default = parameter.default is not parameter.empty
    plain = _without_none(hint)
    kind = _kind(plain)
    if kind is None:
        if has_default:
            raise TypeError(f"{function}: {name!r} is the value of another query, which has no default")
        return Parameter(name, None, reader(hint, f"{function}: {name!r}"))
    if plain is not hint:
        if not has_default or parameter.default is not None:
            raise TypeError(f"{function}: {name!r} may be None, so None must be its default")
        # A query has no null: the empty text is None, and the worker checks the others.
        return Parameter(name, _optional(kind), None, "")
    return Parameter(name, kind, None, _default(function, parameter, kind) if has_default else None)


def _optional(kind: Kind) -> Kind:
    return Kind("text", lambda text: None if text == "" else kind.read(text), kind.expected)


def _default(function: str, parameter: inspect.Parameter, kind: Kind) -> str:
    try:
        text = argument_text(parameter.default)
        kind.read(text)
    except (InvalidRequest, ValueError, KeyError):
        shown = repr(parameter.default)[:80]
        raise TypeError(f"{function}: the default of {parameter.name!r} must be {kind.expected}, not {shown}") from None
    return text
