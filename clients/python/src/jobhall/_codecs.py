"""Values as bytes: the forms that a type has, and which of them is written or read.

Frames and figures are known if their packages are installed; they are imported when the first value is converted. Other
types are registered with :func:`codec`. What can be written as JSON needs no codec.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .errors import JobhallError

OCTETS = "application/octet-stream"
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+( *;[ -~]*)?")
_EXTENSION = re.compile(r"[a-z0-9]{1,16}")
_FRAMES = {
    ("pandas", "DataFrame"): "pandas_frame",
    ("pandas", "Series"): "pandas_series",
    ("polars", "DataFrame"): "polars_frame",
}


class NoForm(JobhallError, TypeError):
    """A value has no form as bytes, or not the one that is asked for."""


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a type. Without ``encode`` it is only read, without ``decode`` only written."""

    media_type: str
    extension: str | None = None
    encode: Callable[[Any], bytes] | None = None
    decode: Callable[[bytes], Any] | None = None


def essence(media_type: str) -> str:
    """The media type without its parameters."""
    return media_type.partition(";")[0].strip().lower()


def check_media_type(media_type: str) -> str:
    if len(media_type) > 128 or not _MEDIA_TYPE.fullmatch(media_type):
        raise ValueError(f"{media_type!r:.80} is no media type such as text/csv")
    return media_type


def check_extension(extension: str) -> str:
    """An extension without its dot."""
    plain = extension.removeprefix(".")
    if not _EXTENSION.fullmatch(plain):
        raise ValueError(f"{extension!r:.40} is no extension such as csv: up to 16 small letters and digits")
    return plain


@dataclass(frozen=True, slots=True)
class Codec:
    """The forms of a type; the first one is written if nothing else is asked for."""

    name: str
    forms: tuple[Form, ...]
    guess: Callable[[bytes], str | None] = lambda _: None
    """The extension of the form that bytes without a useful media type have."""

    def extensions(self) -> list[str]:
        """The extensions that can be written."""
        return [form.extension for form in self.forms if form.extension and form.encode]

    def media_types(self) -> list[str]:
        return [essence(form.media_type) for form in self.forms if form.encode]

    def reads(self) -> bool:
        return any(form.decode for form in self.forms)

    def to_write(self, extension: str | None, media_type: str | None) -> Form:
        """The form with this extension, or of this media type, or the default one."""
        known = [form for form in self.forms if form.encode]
        if extension is not None:
            known = [form for form in known if form.extension == extension]
            if not known:
                offered = ", ".join(self.extensions()) or "none"
                raise NoForm(f"a {self.name} cannot be written as .{extension} (it can as: {offered})")
        elif media_type is not None:
            known = [form for form in known if essence(form.media_type) == essence(media_type)]
            if not known:
                offered = ", ".join(self.media_types()) or "nothing"
                raise NoForm(f"a {self.name} cannot be written as {media_type} (it can as: {offered})")
        if not known:
            raise NoForm(f"a {self.name} can only be read")
        return known[0]

    def decode(self, content: bytes, media_type: str) -> Any:
        """The value that these bytes are a form of."""
        known = [form for form in self.forms if form.decode]
        same = [form for form in known if essence(form.media_type) == essence(media_type)]
        if not same and len(known) == 1:
            same = known
        if not same:
            guessed = self.guess(content) if essence(media_type) in (OCTETS, "text/plain", "") else None
            same = [form for form in known if guessed is not None and form.extension == guessed]
        if not same or same[0].decode is None:
            readable = ", ".join(essence(form.media_type) for form in known) or "nothing"
            raise NoForm(f"a {self.name} cannot be read from {media_type or 'bytes'} (it can from: {readable})")
        return same[0].decode(content)


_registered: dict[type, Codec] = {}


def codec(
    type: type,
    *,
    media_type: str,
    encode: Callable[[Any], bytes] | None = None,
    decode: Callable[[bytes], Any] | None = None,
    extension: str | None = None,
) -> None:
    """Says how values of a type are written as bytes and read from them, in commands of queries.

    Call it once for each form of the type; the first one is the default. The extension is that of the file name at the
    end of a query, which chooses the form. A form without ``encode`` is only read, one without ``decode`` only written.
    """
    if not isinstance(type, builtin_type):
        raise TypeError(f"a codec is for a class, not for {type!r:.80}")
    if encode is None and decode is None:
        raise ValueError(f"a codec of {type.__qualname__} needs encode, decode or both")
    form = Form(check_media_type(media_type), extension and check_extension(extension), encode, decode)
    before = _registered[type].forms if type in _registered else ()
    others = tuple(one for one in before if essence(one.media_type) != essence(media_type))
    _registered[type] = Codec(type.__qualname__, (*others, form))


builtin_type = type


def find(kind: type) -> Codec | None:
    """The codec of a type or of the nearest of its bases."""
    for base in kind.__mro__:
        if base in _registered:
            return _registered[base]
        package = base.__module__.partition(".")[0]
        if (package, base.__name__) in _FRAMES:
            from . import _frames

            made: Codec = getattr(_frames, _FRAMES[(package, base.__name__)])()
            return made
        if (package, base.__name__) == ("matplotlib", "Figure"):
            from . import _figures

            return _figures.CODEC
    return None
