"""Notices changes of Python files below a directory."""

from __future__ import annotations

import os
from pathlib import Path

_MOST_FILES = 20_000
_SKIPPED = {"__pycache__", "node_modules", "site-packages"}


class Files:
    """The Python files of a directory, with when they were last written."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen = self._look()

    def changed(self) -> list[str]:
        """The files that were written, made or removed since the last call."""
        before, self._seen = self._seen, self._look()
        names = before.keys() | self._seen.keys()
        return sorted(name for name in names if before.get(name) != self._seen.get(name))

    def _look(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for place, folders, names in os.walk(self._directory):
            folders[:] = [one for one in folders if one not in _SKIPPED and not one.startswith(".")]
            if "pyvenv.cfg" in names:
                folders.clear()
                continue
            for name in names:
                if name.endswith(".py"):
                    path = Path(place) / name
                    try:
                        status = path.stat()
                    except OSError:
                        continue
                    found[str(path)] = (status.st_mtime_ns, status.st_size)
            if len(found) > _MOST_FILES:
                break
        return found
