"""Arguments of a job from its params: checked and converted by the annotations of the function."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import inspect
import types
import typing
from collections import abc
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any, Literal, Union, get_args, get_origin

from ._verdicts import BadArguments

Convert = Callable[[Any, str], Any]


class Signature:
    """The parameters of a function, and which of them is the context."""

    def __init__(self, function: Callable[..., Any], context: type) -> None:
        self.name = getattr(function, "__qualname__", repr(function))
        hints = _hints(function, self.name)
        self.context: str | None = None
        self.open = False
        self.convert: dict[str, Convert | None] = {}
        self.required: list[str] = []
        for name, parameter in inspect.signature(function).parameters.items():
            hint = hints.get(name, Any)
            if hint is context or (name == "ctx" and hint is Any):
                self.context = name
            elif parameter.kind is parameter.VAR_KEYWORD:
                self.open = True
            elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
                raise TypeError(f"{self.name}: params are passed by name, so {name!r} cannot be positional only")
            else:
                self.convert[name] = converter(hint)
                if parameter.default is parameter.empty:
                    self.required.append(name)

    def bind(self, params: Any) -> dict[str, Any]:
        """The keyword arguments; raises :class:`BadArguments`, which names the wrong one."""
        if type(params) is not dict:
            raise BadArguments(f"params of {self.name} must be an object, not {kind(params)}")
        bound = {}
        convert = self.convert
        for name, value in params.items():
            if name in convert:
                step = convert[name]
                bound[name] = value if step is None else step(value, name)
            elif self.open:
                bound[name] = value
            else:
                known = ", ".join(convert) or "none"
                raise BadArguments(f"{self.name} has no argument {name!r} (it has: {known})")
        for name in self.required:
            if name not in bound:
                raise BadArguments(f"argument {name!r} of {self.name} is missing")
        return bound


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=False)
    except NameError as error:
        text = (
            f"{name}: an annotation cannot be read: {error}; a name must be defined in the module when it is imported"
        )
        raise TypeError(text) from None


def kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    names |= {int: "an integer", float: "a number"}
    return names.get(type(value), type(value).__name__)


def wrong(where: str, expected: str, value: Any) -> BadArguments:
    shown = repr(value)
    return BadArguments(f"argument {where!r} must be {expected}, not {kind(value)} ({shown[:80]})")


def converter(hint: Any) -> Convert | None:
    """The conversion for an annotation; none if every value fits."""
    if hint is Any or hint is inspect.Parameter.empty or hint is object:
        return None
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if isinstance(hint, typing.NewType):
        return converter(hint.__supertype__)
    origin, args = get_origin(hint), get_args(hint)
    if (concrete := _CONCRETE.get(origin or hint)) is not None:
        origin = concrete
    if origin in (typing.Required, typing.NotRequired, typing.Annotated):
        return converter(args[0])
    if origin is Literal:
        return _literal(args)
    if origin in (Union, types.UnionType):
        return _union(args)
    if hint in (list, set, tuple, frozenset) or origin in (list, set, tuple, frozenset):
        return _sequence(origin or hint, args)
    if hint is dict or origin is dict:
        return _mapping(args)
    if typing.is_typeddict(hint):
        return _made_once(hint, _typed_dict)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _made_once(hint, _dataclass)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _enum(hint)
    if isinstance(hint, type) and issubclass(hint, PurePath):
        return lambda value, where: hint(_str(value, where))
    raise TypeError(f"no conversion from JSON to {hint!r}; annotate the argument with Any to get the plain value")


def _int(value: Any, where: str) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    raise wrong(where, "an integer", value)


def _float(value: Any, where: str) -> float:
    if type(value) in (int, float):
        try:
            return float(value)
        except OverflowError:
            raise wrong(where, "a number that a float can have", value) from None
    raise wrong(where, "a number", value)


def _str(value: Any, where: str) -> str:
    if type(value) is str:
        return value
    raise wrong(where, "a string", value)


def _bool(value: Any, where: str) -> bool:
    if type(value) is bool:
        return value
    raise wrong(where, "a boolean", value)


def _none(value: Any, where: str) -> None:
    if value is not None:
        raise wrong(where, "null", value)


def _moment(of: Any, expected: str) -> Convert:
    def convert(value: Any, where: str) -> Any:
        try:
            return of.fromisoformat(_str(value, where))
        except ValueError:
            raise wrong(where, expected, value) from None

    return convert


_CONCRETE: dict[Any, type] = {
    **dict.fromkeys((abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable), list),
    **dict.fromkeys((abc.Set, abc.MutableSet), set),
    **dict.fromkeys((abc.Mapping, abc.MutableMapping), dict),
}
_SIMPLE: dict[Any, Convert] = {
    int: _int,
    float: _float,
    str: _str,
    bool: _bool,
    type(None): _none,
    None: _none,
    Path: lambda value, where: Path(_str(value, where)),
    datetime.datetime: _moment(datetime.datetime, "a time such as 2030-01-31T12:00:00+00:00"),
    datetime.date: _moment(datetime.date, "a date such as 2030-01-31"),
}


def _literal(values: tuple[Any, ...]) -> Convert:
    def convert(value: Any, where: str) -> Any:
        for one in values:
            if type(one) is type(value) and one == value:
                return one
        raise wrong(where, "one of " + ", ".join(map(repr, values)), value)

    return convert


def _enum(of: type[enum.Enum]) -> Convert:
    def convert(value: Any, where: str) -> Any:
        try:
            return of(value)
        except ValueError:
            raise wrong(where, "one of " + ", ".join(repr(one.value) for one in of), value) from None

    return convert


def _union(args: tuple[Any, ...]) -> Convert | None:
    steps = [converter(arg) for arg in args]
    if None in steps:
        return None

    def convert(value: Any, where: str) -> Any:
        reasons = []
        for step in steps:
            try:
                return step(value, where) if step else value
            except BadArguments as error:
                reasons.append(str(error))
        raise BadArguments("; or ".join(reasons))

    return convert


def _sequence(of: Any, args: tuple[Any, ...]) -> Convert:
    fixed = of is tuple and args and args[-1] is not Ellipsis
    steps = [converter(arg) for arg in args if arg is not Ellipsis]

    def convert(value: Any, where: str) -> Any:
        if type(value) is not list:
            raise wrong(where, "a list", value)
        if fixed and len(value) != len(steps):
            raise wrong(where, f"a list of {len(steps)}", value)
        each = steps if fixed else (steps or [None]) * len(value)
        pairs = zip(each, value, strict=True)
        items = [step(one, f"{where}[{n}]") if step else one for n, (step, one) in enumerate(pairs)]
        try:
            return of(items)
        except TypeError as error:
            raise BadArguments(f"argument {where!r} cannot be a {of.__name__}: {error}") from None

    return convert


def _mapping(args: tuple[Any, ...]) -> Convert:
    step = converter(args[1]) if args else None

    def convert(value: Any, where: str) -> Any:
        if type(value) is not dict:
            raise wrong(where, "an object", value)
        return value if step is None else {name: step(one, f"{where}.{name}") for name, one in value.items()}

    return convert


def _fields(value: Any, where: str, steps: dict[str, Convert | None], required: set[str]) -> dict[str, Any]:
    if type(value) is not dict:
        raise wrong(where, "an object", value)
    for name in value:
        if name not in steps:
            raise BadArguments(f"argument {where!r} has no field {name!r} (it has: {', '.join(steps)})")
    for name in required:
        if name not in value:
            raise BadArguments(f"argument '{where}.{name}' is missing")
    return {name: step(one, f"{where}.{name}") if (step := steps[name]) else one for name, one in value.items()}


_made: dict[Any, Convert] = {}
_in_work: set[Any] = set()


def _made_once(hint: Any, make: Callable[[Any], Convert]) -> Convert:
    """The conversion for a class, whose fields may have the class itself in their annotations."""
    if hint in _in_work:
        return lambda value, where: _made[hint](value, where)
    _in_work.add(hint)
    try:
        return _made.setdefault(hint, make(hint))
    finally:
        _in_work.discard(hint)


def _typed_dict(of: Any) -> Convert:
    hints = typing.get_type_hints(of, include_extras=True)
    steps = {name: converter(hint) for name, hint in hints.items()}
    # The class itself does not see qualifiers in annotations that are strings.
    origins = {name: get_origin(hint) for name, hint in hints.items()}
    required = {name for name in of.__required_keys__ if origins[name] is not typing.NotRequired}
    required |= {name for name, origin in origins.items() if origin is typing.Required}
    return lambda value, where: _fields(value, where, steps, required)


def _dataclass(of: type) -> Convert:
    hints = typing.get_type_hints(of)
    own = [field for field in dataclasses.fields(of) if field.init]
    steps = {field.name: converter(hints[field.name]) for field in own}
    missing = dataclasses.MISSING
    required = {f.name for f in own if f.default is missing and f.default_factory is missing}

    def convert(value: Any, where: str) -> Any:
        fields = _fields(value, where, steps, required)
        try:
            return of(**fields)
        except (TypeError, ValueError) as error:
            raise BadArguments(f"argument {where!r}: {error}") from error

    return convert
