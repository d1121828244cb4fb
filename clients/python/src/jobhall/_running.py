"""Records of running servers (the command line has the same rules in ``crates/cli/src/running.rs``).

A server writes one record beside its token and one in a directory of its user, and holds a lock on both while it runs.
The lock tells a running server from a record that was left behind: the system releases it when the process ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

IN_DATA = "server.json"
_RECORD_BYTES = 16 << 10


@dataclass(frozen=True, slots=True)
class Record:
    """What a running server says about itself."""

    url: str
    data: Path
    pid: int
    host: str
    certificate: Path | None = None


def in_data(data: Path) -> Record | None:
    """The server that runs on this data directory. Only a record of this user counts; for root, any user's."""
    return _read(data / IN_DATA, lambda owner: os.geteuid() in (0, owner))


def servers(directories: Sequence[Path]) -> list[Record]:
    """The running servers of this user, by their records in these directories."""
    found: set[Record] = set()
    for directory in directories:
        if not _is_own(directory):
            continue
        for path in directory.glob("server-*.json"):
            record = _read(path, lambda owner: owner == os.geteuid())
            if record is not None:
                found.add(record)
    return sorted(found, key=lambda record: (record.url, record.pid))


def owner(path: Path) -> int | None:
    """The owner of a file."""
    try:
        return path.stat().st_uid
    except OSError:
        return None


def _is_own(directory: Path) -> bool:
    """Whether a directory belongs to this user, and no one else can write to it."""
    try:
        found = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _read(path: Path, trusted: Callable[[int], bool]) -> Record | None:
    """Reads a record. One whose lock is free was left behind and does not count."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or not trusted(found.st_uid):
            return None
        if not _is_locked(descriptor):
            return None
        return _parse(os.read(descriptor, _RECORD_BYTES))
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    # Closing the file releases the lock that was just taken.
    return False


def _parse(text: bytes) -> Record | None:
    try:
        # Incomplete while the server writes it; it does not answer yet either.
        value = json.loads(text)
        certificate = value.get("certificate")
        record = Record(
            url=str(value["url"]),
            data=Path(value["data"]),
            pid=int(value["pid"]),
            host=str(value["host"]),
            certificate=None if certificate is None else Path(certificate),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return record if record.host == host_name() else None


def host_name() -> str:
    """The name of this machine, as the server writes it: a home directory may be shared by several machines."""
    try:
        name = Path("/proc/sys/kernel/hostname").read_text(encoding="utf-8")
    except OSError:
        name = "worker"
    fit = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in name.strip())[:100]
    return fit if fit[:1].isalnum() else f"host-{fit}"
