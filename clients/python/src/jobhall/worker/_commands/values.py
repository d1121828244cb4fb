"""Values of steps: how they are read from the server, converted, and reported."""

from __future__ import annotations

import base64
import inspect
import io
import json
import mimetypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, BinaryIO

from ..._codecs import JSON, OCTETS, TEXT, Codec, NoForm, check_media_type, find
from ...errors import ApiError, ConnectionFailed, JobhallError, UnexpectedAnswer
from .._arguments import converter
from .._attempt import TRANSIENT
from .._verdicts import BadArguments, Cancelled, Refusal, StoredValue, encode, text_of

if TYPE_CHECKING:
    from .._context import Context
    from .._files import Access

INLINE_BYTES = 64 << 10
"""Largest value in a report; the server's bound."""
AGAIN_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of a value, in memory or as a file."""

    data: bytes | Path
    media_type: str

    def read(self) -> bytes:
        return self.data if isinstance(self.data, bytes) else self.data.read_bytes()

    def size(self) -> int:
        return len(self.data) if isinstance(self.data, bytes) else self.data.stat().st_size


def report_value(content: Content) -> StoredValue:
    """The value as it is reported."""
    size = content.size()
    if size > INLINE_BYTES:
        why = f"the value has {size} bytes, the limit is {INLINE_BYTES}; write it elsewhere and hand on where it is"
        raise Refusal("value_too_large", why)
    data = content.read()
    found = StoredValue(media_type=content.media_type, size=len(data))
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = None
    if text is None or _escapes(data) > len(data) // 3:
        found["base64"] = base64.b64encode(data).decode()
    else:
        found["text"] = text
    return found


def stored_bytes(value: dict[str, Any]) -> bytes:
    """The bytes of a reported value."""
    text: str | None = value.get("text")
    return base64.b64decode(value["base64"]) if text is None else text.encode()


def _escapes(data: bytes) -> int:
    """How many bytes JSON adds to a text."""
    short = sum(data.count(one) for one in (b'"', b"\\", b"\n", b"\r", b"\t"))
    control = sum(data.count(bytes([one])) for one in range(32) if one not in b"\n\r\t")
    return short + 5 * control


def fetch(access: Access, identity: str, file: BinaryIO, ctx: Context) -> str:
    """Reads an input into a file, and returns its media type. The server is waited for as long as the attempt runs."""
    while True:
        try:
            return access.download(f"values/{identity}", file)
        except ApiError as error:
            if error.code not in TRANSIENT:
                raise Refusal("no_inputs", error.detail, outcome="crashed") from None
        except (ConnectionFailed, UnexpectedAnswer):
            pass
        if ctx.cancelled:
            raise Cancelled
        time.sleep(AGAIN_SECONDS)
        file.seek(0)
        file.truncate()


def fetch_bytes(access: Access, identity: str, ctx: Context) -> Content:
    buffer = io.BytesIO()
    media_type = fetch(access, identity, buffer, ctx)
    return Content(buffer.getvalue(), media_type)


@dataclass(frozen=True, slots=True)
class Reader:
    """How a parameter is made of a value."""

    as_file: bool
    read: Callable[[Content], Any]


def _text(content: Content) -> str:
    try:
        return content.read().decode()
    except UnicodeDecodeError as error:
        raise NoForm(f"it is no text: {error}") from None


def _path(content: Content) -> Path:
    assert isinstance(content.data, Path)
    return content.data


def reader(hint: Any, where: str) -> Reader:
    """The reader for an annotation."""
    if hint is bytes:
        return Reader(False, Content.read)
    if hint is str:
        return Reader(False, _text)
    if hint in (Path, PurePath):
        return Reader(True, _path)
    codec = find(hint) if isinstance(hint, type) else None
    if codec is not None:
        if not codec.reads():
            raise TypeError(f"{where}: a {codec.name} can only be written")
        return Reader(False, _by_codec(codec))
    try:
        convert = converter(hint)
    except TypeError:
        raise TypeError(f"{where}: {shown_hint(hint)} has no form as bytes; register one with jobhall.codec") from None
    return Reader(False, _by_json(convert))


def _by_codec(codec: Codec) -> Callable[[Content], Any]:
    return lambda content: codec.decode(content.read(), content.media_type)


def _by_json(convert: Callable[[Any, str], Any] | None) -> Callable[[Content], Any]:
    def read(content: Content) -> Any:
        try:
            value = json.loads(content.read())
        except ValueError as error:
            raise NoForm(f"it is not JSON: {error}") from None
        return value if convert is None else convert(value, "input")

    return read


def read_parameter(read: Reader, content: Content, name: str, command: str) -> Any:
    """The value of a parameter; an error names it."""
    try:
        return read.read(content)
    except BadArguments as error:
        raise BadArguments(f"{name!r} of {command}: {error}") from None
    except JobhallError as error:
        raise BadArguments(f"{name!r} of {command} cannot be made of the value before it: {error}") from None
    except Exception as error:
        # Of pandas, or of a codec of the app.
        kind = type(error).__qualname__
        why = f"{name!r} of {command} cannot be made of the value before it: {kind}: {text_of(error)}"
        raise BadArguments(why) from error


def shown_hint(hint: Any) -> str:
    return getattr(hint, "__qualname__", None) or str(hint)


@dataclass(frozen=True, slots=True)
class Writer:
    """How the value of a command becomes bytes."""

    command: str
    media_type: str | None = None
    """The declared one."""

    def write(self, value: Any, extension: str | None) -> Content:
        """The bytes of what the function has returned."""
        kind = type(value).__qualname__
        try:
            return self._write(value, extension)
        except NoForm as error:
            raise Refusal("bad_value", f"{self.command} returned a {kind}: {error}") from None
        except (TypeError, ValueError, RecursionError) as error:
            if isinstance(value, bytes | str | PurePath):
                raise
            why = f"{self.command} returned a {kind}, which cannot be written: {text_of(error)}"
            advice = "return bytes, str, Path, JSON, a frame or a figure, or register its form with jobhall.codec"
            raise Refusal("bad_value", f"{why}; {advice}") from error

    def _write(self, value: Any, extension: str | None) -> Content:
        guessed = mimetypes.guess_type(f"value.{extension}")[0] if extension else None
        if isinstance(value, bytes | bytearray | memoryview):
            return Content(bytes(value), guessed or self.media_type or OCTETS)
        if isinstance(value, str):
            return Content(value.encode(), guessed or self.media_type or TEXT)
        if isinstance(value, PurePath):
            return self._file(Path(value), guessed)
        codec = find(type(value))
        if codec is not None:
            form = codec.to_write(extension, None if len(codec.forms) == 1 else self.media_type)
            assert form.encode is not None
            return Content(_bytes(form.encode(value), codec), form.media_type)
        return Content(encode(value).encode(), self.media_type or JSON)

    def _file(self, path: Path, guessed: str | None) -> Content:
        if not path.is_file():
            raise Refusal("bad_value", f"{self.command} returned the path {path}, where no file is")
        return Content(path, guessed or self.media_type or mimetypes.guess_type(path.name)[0] or OCTETS)


def _bytes(data: Any, codec: Codec) -> bytes:
    if not isinstance(data, bytes):
        raise NoForm(f"its codec ({codec.name}) made a {type(data).__qualname__} of it and no bytes")
    return data


def known_forms(hint: Any, media_type: str | None) -> tuple[list[str], str | None]:
    """The extensions and the media type that a command with this return annotation declares."""
    if media_type is not None:
        check_media_type(media_type)
    codec = find(hint) if isinstance(hint, type) else None
    if codec is not None:
        if media_type is not None and len(codec.forms) > 1:
            codec.to_write(None, media_type)
        single = codec.forms[0].media_type if len(codec.forms) == 1 else None
        return sorted(codec.extensions()), media_type or single
    if hint is str:
        return [], media_type or TEXT
    if hint in (bytes, Any, inspect.Parameter.empty) or (isinstance(hint, type) and issubclass(hint, PurePath)):
        return [], media_type
    return ["json"], media_type or JSON
