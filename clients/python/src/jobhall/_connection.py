"""Which server is used if none is named, and to which one the local token is sent.

The rules are those of the command line (``crates/cli/src/settings``): arguments, then the environment, then the table
``[client]`` of the repository's ``.jobhall.toml``, then the files ``$XDG_CONFIG_HOME/jobhall/config.toml`` and
``/etc/jobhall/config.toml``, then the one running server of this user. The local token is sent only to the address that
the server wrote beside it.
"""

from __future__ import annotations

import ipaddress
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from . import _running
from ._running import Record
from .errors import ConfigurationError

DEFAULT_SERVER = "http://127.0.0.1:7450"
_SYSTEM = Path("/etc/jobhall/config.toml")
_PROJECT = ".jobhall.toml"
# A name that is not read, because people take it for the file of a repository.
_SIMILAR = "jobhall.toml"
_MAX_ADDRESSES = 16
_TOKEN_BYTES = 4_096
_KEYS = ("server", "token", "token_file", "data", "ca", "pin")
# Settings of the command line and of servers, which this package does not use.
_OTHER_KEYS = (
    *("color", "log", "log_format", "tls_cert", "tls_key", "hosts", "database"),
    *("database_direct", "database_pooled", "advertise", "key_file", "cache_size", "cache_values"),
)


@dataclass(frozen=True, slots=True)
class Connection:
    """The addresses of a hall, and how to authenticate there."""

    addresses: tuple[str, ...]
    token: str = field(repr=False)
    """The token; empty if there is none."""
    ca: str | None = None
    """A file with the authority that signed the server's certificate, besides those of this machine."""
    pin: str | None = None
    """A file with the exact certificate of the server; overrides ``ca``."""


@dataclass(frozen=True, slots=True)
class _Setting:
    value: str
    origin: str
    """``argument``, ``environment``, ``project``, ``user``, ``system``, ``running`` or ``default``."""
    where: str
    """The argument, variable or file, for messages; for ``running`` the data directory."""

    @property
    def is_of_command(self) -> bool:
        return self.origin in ("argument", "environment")


@dataclass(frozen=True, slots=True)
class _Layer:
    origin: str
    values: Mapping[str, str]
    where: str = ""

    def setting(self, key: str) -> _Setting | None:
        value = self.values.get(key)
        if value is None:
            return None
        if self.origin == "argument":
            return _Setting(value, self.origin, f"argument {key}")
        if self.origin == "environment":
            return _Setting(value, self.origin, f"environment JOBHALL_{key.upper()}")
        return _Setting(value, self.origin, self.where)


def find_server(
    server: str | Sequence[str] | None = None,
    token: str | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    *,
    ca: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    directory: Path | None = None,
    system: Path = _SYSTEM,
) -> Connection:
    """Finds the server and its token as the command line does.

    ``env``, ``directory`` and ``system`` replace the environment, the current directory and the file of the machine.

    Raises :class:`ConfigurationError` if a setting is wrong, several servers run and none is named, or the named data
    directory has no running server.
    """
    env = {name: value for name, value in (os.environ if env is None else env).items() if value}
    layers = _layers(server, token, data_dir, ca, env, directory or Path.cwd(), system)
    data = _first(layers, "data")
    running = _running.servers(_record_directories(env))
    chosen = _choose(_first(layers, "server"), data, running)
    found = _token(layers)
    if found is not None:
        _guard(chosen, found)
    else:
        found = _local_token(chosen, Path(data.value) if data else _default_data(env), running)
    ca_file, pin = _first(layers, "ca"), _first(layers, "pin")
    for certificate in (ca_file, pin):
        _confirm(chosen, certificate)
    pin_path = pin.value if pin else None
    if ca_file is None and pin is None:
        pin_path = _certificate(chosen, running)
    secret = found.value if found else ""
    if not (secret.isascii() and all("!" <= c <= "~" for c in secret)):
        raise ConfigurationError("the token has characters that no header can carry")
    return Connection(
        addresses=parse_addresses(chosen.value),
        token=secret,
        ca=os.path.abspath(ca_file.value) if ca_file else None,
        pin=os.path.abspath(pin_path) if pin_path else None,
    )


def parse_addresses(text: str) -> tuple[str, ...]:
    """One address, or several separated by commas."""
    addresses = tuple(_address(one.strip()) for one in text.split(","))
    if len(addresses) > _MAX_ADDRESSES:
        raise ConfigurationError(f"{len(addresses)} addresses are named, the limit is {_MAX_ADDRESSES}")
    return addresses


def _address(text: str) -> str:
    try:
        parts = urlsplit(text)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise ConfigurationError(f"{text!r} is not a URL", why=str(error)) from None
    if not fits or parts.query or parts.fragment or parts.username is not None:
        raise ConfigurationError(
            f"{text!r} is not the address of a server", fix="write http://HOST:PORT or https://HOST:PORT"
        )
    return text.rstrip("/")


def _layers(
    server: str | Sequence[str] | None,
    token: str | None,
    data_dir: str | os.PathLike[str] | None,
    ca: str | os.PathLike[str] | None,
    env: Mapping[str, str],
    directory: Path,
    system: Path,
) -> list[_Layer]:
    joined = server if server is None or isinstance(server, str) else ",".join(server)
    given = {
        "server": joined,
        "token": token,
        "data": None if data_dir is None else os.fspath(data_dir),
        "ca": None if ca is None else os.fspath(ca),
    }
    layers = [
        _Layer("argument", {key: value for key, value in given.items() if value is not None}),
        _Layer("environment", {key: env[name] for key in _KEYS if (name := f"JOBHALL_{key.upper()}") in env}),
        _project(directory),
    ]
    home = _home(env, "XDG_CONFIG_HOME", ".config")
    if home is not None:
        layers.append(_file("user", home / "config.toml"))
    layers.append(_file("system", system))
    return layers


def _project(directory: Path) -> _Layer:
    """The table ``client`` of the file of the repository: in the directory or above it, up to its root."""
    if (directory / _SIMILAR).is_file():
        raise ConfigurationError(
            f"{directory / _SIMILAR} is not read",
            why=f"the settings of a repository are in the table [client] of {_PROJECT}",
        )
    above = [directory, *directory.parents]
    root = next((at for at, path in enumerate(above) if (path / ".git").exists()), 0)
    path = next((path / _PROJECT for path in above[: root + 1] if (path / _PROJECT).is_file()), directory / _PROJECT)
    values = _values(path).get("client", {})
    if not isinstance(values, dict):
        raise ConfigurationError(f"{path}: client must be a table")
    return _layer("project", values, path)


def _file(origin: str, path: Path) -> _Layer:
    return _layer(origin, _values(path), path)


def _values(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: not TOML", why=str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"failed to read {path}", why=str(error)) from None


def _layer(origin: str, values: Mapping[str, object], path: Path) -> _Layer:
    settings: dict[str, str] = {}
    for key, value in values.items():
        if key not in _KEYS and key not in _OTHER_KEYS:
            raise ConfigurationError(f"{path}: unknown key {key!r}")
        if not isinstance(value, str):
            raise ConfigurationError(f"{path}: {key} must be a quoted string")
        if key in _KEYS:
            settings[key] = value
    return _Layer(origin, settings, str(path))


def _first(layers: Sequence[_Layer], key: str) -> _Setting | None:
    return next((found for layer in layers if (found := layer.setting(key)) is not None), None)


def _token(layers: Sequence[_Layer]) -> _Setting | None:
    """Within one layer the token has precedence over the token file."""
    for layer in layers:
        if (token := layer.setting("token")) is not None:
            return _Setting(token.value.strip(), token.origin, token.where)
        if (path := layer.setting("token_file")) is not None:
            return _Setting(read_token(Path(path.value)), path.origin, path.where)
    return None


def read_token(path: Path) -> str:
    """The token in the first line of a file."""
    try:
        with path.open("rb") as file:
            # Only the first line: a worker's token comes through a pipe that stays open.
            text = file.readline(_TOKEN_BYTES).decode("utf-8", "replace").strip()
    except OSError as error:
        raise ConfigurationError(f"failed to read the token in {path}", why=str(error)) from None
    if not text:
        raise ConfigurationError(f"{path} contains no token")
    return text


def _home(env: Mapping[str, str], variable: str, below: str) -> Path | None:
    base = env.get(variable)
    if base and os.path.isabs(base):
        return Path(base) / "jobhall"
    home = env.get("HOME")
    return Path(home) / below / "jobhall" if home else None


def _record_directories(env: Mapping[str, str]) -> list[Path]:
    """A server and a client may be started with different variables, so that both directories are read."""
    runtime = env.get("XDG_RUNTIME_DIR")
    found = [Path(runtime) / "jobhall"] if runtime and os.path.isabs(runtime) else []
    state = _home(env, "XDG_STATE_HOME", ".local/state")
    return found + ([state] if state else [])


def _default_data(env: Mapping[str, str]) -> Path | None:
    return _home(env, "XDG_DATA_HOME", ".local/share")


def _choose(named: _Setting | None, data: _Setting | None, running: Sequence[Record]) -> _Setting:
    """A server that a file names comes after a data directory that was named for this process."""
    data_of_command = data is not None and data.is_of_command
    if named is not None and (named.is_of_command or not data_of_command):
        return named
    if data is not None:
        record = _running.in_data(Path(data.value))
        if record is not None:
            return _of_record(record)
        if data_of_command:
            raise ConfigurationError(
                f"no server is running on the data directory {data.value}",
                why=f"{data.value}/server.json is missing, cannot be read, or belongs to another user",
                fix=f"start one with `jobhall up --data {data.value}`, or name one with server=URL",
            )
    if len(running) > 1:
        listed = ", ".join(f"{one.url} (data {one.data}, pid {one.pid})" for one in running)
        raise ConfigurationError(
            "several servers are running, and none is named",
            why=listed,
            fix="name one with server=URL, JOBHALL_SERVER or JOBHALL_DATA",
        )
    return _of_record(running[0]) if running else _Setting(DEFAULT_SERVER, "default", "default")


def _of_record(record: Record) -> _Setting:
    return _Setting(record.url, "running", str(record.data))


def _local_token(server: _Setting, data: Path | None, running: Sequence[Record]) -> _Setting | None:
    """The administrator's token of a local server, but only if this server wrote its address beside the token."""
    candidates = [Path(server.where)] if server.origin == "running" else []
    candidates += [data] if data is not None else []
    candidates += [record.data for record in running]
    for candidate in candidates:
        found = _token_in(candidate, server.value)
        if found is not None:
            return found
    return None


def _token_in(data: Path, server: str) -> _Setting | None:
    record, path = _running.in_data(data), data / "admin.token"
    # Root reads the files of every user: the user who wrote the address must be the one who has the token.
    if record is None or _running.owner(path) != _running.owner(data / _running.IN_DATA):
        return None
    if record.url.rstrip("/") != server.rstrip("/"):
        return None
    try:
        return _Setting(read_token(path), "local", str(path))
    except ConfigurationError:
        return None


def _certificate(server: _Setting, running: Sequence[Record]) -> str | None:
    """The certificate of a running server that was found by its record."""
    if server.origin != "running":
        return None
    data = Path(server.where)
    record = next((one for one in running if one.data == data and one.url == server.value), None)
    record = record or _running.in_data(data)
    return str(record.certificate) if record and record.certificate else None


def _guard(server: _Setting, token: _Setting) -> None:
    """A checked-out ``.jobhall.toml`` is not trusted: it must not send the user's token to a host of its choice."""
    if server.origin == "project" and not is_loopback(server.value) and token.origin in ("user", "system"):
        raise ConfigurationError(
            f"the token of {token.where} is not sent to {server.value}",
            why=f"that address comes from {server.where}, which may come from someone else",
            fix="give the token of that server with JOBHALL_TOKEN, or the address with server=",
        )


def _confirm(server: _Setting, certificate: _Setting | None) -> None:
    """Nor may it choose the trusted certificate for a server that was configured elsewhere."""
    if certificate is None or certificate.origin != "project" or server.origin == "project":
        return
    if "https" in server.value:
        raise ConfigurationError(
            f"the certificate of {certificate.where} is not trusted for {server.value}",
            why=f"that address comes from {server.where}, and the certificate may come from someone else",
            fix="give the certificate with ca= or JOBHALL_CA",
        )


def is_loopback(server: str) -> bool:
    """Whether a URL is on this machine; of several, whether all are."""
    return all(_is_here(one.strip()) for one in server.split(","))


def _is_here(server: str) -> bool:
    try:
        host = urlsplit(server.replace("\\", "/")).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
