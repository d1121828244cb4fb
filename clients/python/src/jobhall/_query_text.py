"""The text of a query from its steps: what is written as it is, and what with escapes (``docs/queries.md``)."""

from __future__ import annotations

import datetime
import enum
import re
from collections.abc import Sequence
from typing import Any, Protocol

from .errors import InvalidRequest

COMMAND = re.compile(r"[a-z_][A-Za-z0-9_]{0,47}")
"""The name of a command."""
_PLAIN = re.compile(r"[A-Za-z0-9._]")
_ESCAPES = {"~": "~~", "-": "~_", "/": "~I", " ": "~."}
_DEPTH = 16


class Named(Protocol):
    """A function that ``@worker.command`` registered."""

    @property
    def name(self) -> str: ...


Step = str | Named | Sequence[Any]
"""A command without arguments, or a sequence of a command and its arguments."""
Query = str | Sequence[Step]
"""The text of a URL, or steps."""


def escape(text: str) -> str:
    """A text as an argument: a date becomes ``2026~_01~_01``."""
    if text in (".", ".."):
        return text.replace(".", "~x2e")
    return "".join(_escaped(one) for one in text)


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if _PLAIN.fullmatch(char):
        return char
    try:
        return "".join(f"~x{byte:02x}" for byte in char.encode())
    except UnicodeEncodeError:
        raise InvalidRequest(f"{char!r} is no character that UTF-8 has") from None


def argument_text(value: Any) -> str:
    """A value as the text of an argument, without escapes."""
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return f"{round(value.total_seconds() * 1000)}ms"
    raise InvalidRequest(f"{value!r:.80} cannot be an argument of a query: use text, numbers, dates or a list of steps")


def query_text(query: Query) -> str:
    """The text of a query that is given as steps.

    A step is the name of a command, or a tuple with its arguments. The last one may be the name of a file, such as
    ``"report.csv"``. An argument that is a list of steps is another query, whose value is the argument.

    >>> query_text(["numbers", ("between", "2026-01-01", "2026-02-01")])
    'numbers/between-2026~_01~_01-2026~_02~_01'
    """
    return query if isinstance(query, str) else _text(query, 0)


def _text(steps: Sequence[Step], depth: int) -> str:
    if depth > _DEPTH:
        raise InvalidRequest(f"queries are nested more than {_DEPTH} deep")
    if not steps:
        raise InvalidRequest("a query has at least one step")
    last = len(steps) - 1
    return "/".join(_step(step, at == last and at > 0, depth) for at, step in enumerate(steps))


def _step(step: Step, last: bool, depth: int) -> str:
    if isinstance(step, str) and last and "." in step:
        return escape(step)
    parts: Sequence[Any] = [step] if isinstance(step, str) or not isinstance(step, Sequence) else step or [""]
    command, arguments = parts[0], parts[1:]
    name = command if isinstance(command, str) else getattr(command, "name", None)
    if not isinstance(name, str) or not COMMAND.fullmatch(name):
        shown = repr(command)[:80]
        raise InvalidRequest(
            f"{shown} is no name of a command: up to 48 letters, digits and '_', beginning with a lower-case letter; "
            "a step with arguments is a tuple"
        )
    return "-".join([name, *(_argument(one, depth) for one in arguments)])


def _argument(value: Any, depth: int) -> str:
    if isinstance(value, list):
        return f"~X~/{_text(value, depth + 1)}~E"
    return escape(argument_text(value))
