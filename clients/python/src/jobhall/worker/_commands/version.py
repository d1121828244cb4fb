"""The version of a command: a hash of its declaration and of the code that it consists of.

The file of a function's module is read when the function is registered, so the hash is that of the code that runs, even
if the file is edited while the worker runs. If it is edited between the import and the registration, the two differ,
which is noticed (:func:`edited_while_loaded`).
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import json
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_VERSION = re.compile(r"[A-Za-z0-9._-]{1,64}")
MOST_BYTES = 256 << 20
"""Maximum size of all files of a command."""
MOST_FILES = 10_000
CLOCK_NS = 20_000_000
"""How much older than the clock the time of a file may be that is written now."""


class VersionError(ValueError):
    """It is not known which code a command is."""


def check_version(version: str) -> str:
    if not _VERSION.fullmatch(version):
        raise VersionError(f"the version {version!r:.80} must have letters, digits, '.', '_' and '-' only, at most 64")
    return version


@dataclass(slots=True)
class Source:
    """The code of a function."""

    module: str
    path: Path | None
    content: bytes
    depends: str | tuple[str, ...] = ()
    stamp: tuple[int, int] = (0, 0)
    is_loaded: bool = True
    """Whether the code that runs is that of ``content``."""
    counted: dict[Path, bytes] = field(default_factory=dict)
    """The other files that count."""

    @staticmethod
    def of(function: Callable[..., Any], depends: str | Sequence[str]) -> Source:
        """Reads the file of the function's module; a function of an interactive session has only its own text."""
        plain = inspect.unwrap(function)
        module = getattr(plain, "__module__", None) or "__main__"
        names = depends if isinstance(depends, str) else tuple(depends)
        if isinstance(names, str) and names != "package":
            names = (names,)
        try:
            path = Path(inspect.getsourcefile(plain) or "").absolute()
            if path.is_file():
                content = path.read_bytes()
                return Source(module, path, content, names, _stamp(path), _is_loaded(plain, content))
            return Source(module, None, inspect.getsource(plain).encode(), names)
        except (OSError, TypeError):
            return Source(module, None, b"", names)

    def folder(self) -> Path | None:
        """Where the names of modules begin: the directory of the module, or above its outermost package."""
        if self.path is None:
            return None
        levels = 0 if self.module == "__main__" else self.module.count(".") + (self.path.name == "__init__.py")
        return self.path.parents[levels]

    def freeze(self, command: str) -> None:
        """Reads the other files that count."""
        if self.path is None and not self.content:
            raise VersionError(f"the command {command} has no source file: write @worker.command(version=…)")
        left = MOST_BYTES
        for path in self._other_files(command):
            data = path.read_bytes()
            left -= len(data)
            if left < 0 or len(self.counted) >= MOST_FILES:
                limits = f"{MOST_FILES} files with {MOST_BYTES} bytes"
                raise VersionError(f"the code of the command {command} exceeds {limits}: name less in depends")
            self.counted[path] = data

    def _other_files(self, command: str) -> list[Path]:
        if self.depends == "package":
            found = self._package()
        else:
            found = {path for name in self.depends for path in self._files_of(name, command)}
        return sorted(found - {self.path} if self.path else found)

    def _package(self) -> set[Path]:
        """The outermost package of the module; for a module without one, all modules of its directory."""
        folder = self.folder()
        if folder is None or self.path is None:
            return set()
        if self.path.parent == folder:
            return set(folder.glob("*.py"))
        return set((folder / self.path.relative_to(folder).parts[0]).rglob("*.py"))

    def _files_of(self, name: str, command: str) -> Iterable[Path]:
        """The files of a module or package; a name beside the function's module needs no package before it."""
        folder = self.folder()
        beside = self.path.parent / name.replace(".", "/") if self.path else None
        for base in [folder / name.replace(".", "/")] if folder else []:
            if base.with_suffix(".py").is_file():
                return [base.with_suffix(".py")]
            if base.is_dir():
                return list(base.rglob("*.py"))
        if beside is not None and beside.with_suffix(".py").is_file():
            return [beside.with_suffix(".py")]
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            spec = None
        if spec is None:
            raise VersionError(f"depends of the command {command}: there is no module {name!r}")
        if spec.submodule_search_locations:
            return [path for place in spec.submodule_search_locations for path in Path(place).rglob("*.py")]
        if not spec.origin or not Path(spec.origin).is_file():
            raise VersionError(f"depends of the command {command}: the module {name!r} has no file")
        return [Path(spec.origin)]

    def version(self, declaration: dict[str, Any]) -> str:
        """The hash of a declaration and this code, which must be frozen."""
        hasher = hashlib.blake2b(digest_size=8)
        parts = [json.dumps(declaration, sort_keys=True).encode(), self.content]
        folder = self.folder()
        for path, data in self.counted.items():
            shown = path.relative_to(folder) if folder and path.is_relative_to(folder) else Path(path.name)
            parts += [str(shown).encode(), data]
        for part in parts:
            hasher.update(len(part).to_bytes(8, "little"))
            hasher.update(part)
        return hasher.hexdigest()

    def is_outdated(self) -> bool:
        """Whether the file of the module is another than the one that was loaded."""
        if self.path is None:
            return False
        now = _stamp(self.path)
        if now == self.stamp:
            return False
        self.stamp = now
        return _read(self.path) != self.content

    def uncounted(self) -> list[tuple[str, Path]]:
        """Local modules that this code imports, also over others, and that do not count."""
        folder = self.folder()
        if self.path is None or folder is None:
            return []
        seen, look = {self.path}, [(self.path, self.content), *self.counted.items()]
        found: dict[Path, str] = {}
        while look:
            path, content = look.pop()
            for name in _imports(content, _package_of(path, folder)):
                other = _local_file(name, folder)
                if other is None or other in seen or other in self.counted or other == path:
                    continue
                seen.add(other)
                data = _read(other)
                if data.strip():
                    found[other] = name
                look.append((other, data))
        return sorted((name, path) for path, name in found.items())


def _shown(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else path.name


def _stamp(path: Path) -> tuple[int, int]:
    """When a file was written, and its size; zeros if it is gone."""
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _is_loaded(function: Callable[..., Any], content: bytes) -> bool:
    """Whether the module of a function, if it is being loaded, or the function itself is what these bytes say."""
    try:
        module = compile(content, "<file>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals is function.__globals__:
            return frame.f_code == module
        frame = frame.f_back
    code = getattr(function, "__code__", None)
    return code is None or code in _codes(module)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield one
            yield from _codes(one)


def edited_while_loaded(sources: Iterable[Source], started_ns: int) -> Path | None:
    """A file that was written while the app was loaded, so that its version may not be that of the code that runs."""
    since = started_ns - CLOCK_NS
    for source in sources:
        if source.path is not None and not source.is_loaded and source.stamp[0] >= since:
            return source.path
        for path in source.counted:
            if _stamp(path)[0] >= since:
                return path
    return None


def _package_of(path: Path, folder: Path) -> list[str]:
    return list(path.relative_to(folder).parts[:-1]) if path.is_relative_to(folder) else []


def _imports(content: bytes, package: list[str]) -> list[str]:
    """The names of the modules that a file may import, anywhere in it."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return []
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found += [base, *(f"{base}.{alias.name}".lstrip(".") for alias in node.names)]
    return [name for name in found if name]


def _local_file(name: str, folder: Path) -> Path | None:
    """The file of a module below this folder, which is none of the interpreter or of an installed package."""
    if name.partition(".")[0] in sys.stdlib_module_names:
        return None
    base = folder / name.replace(".", "/")
    for path in (base.with_name(base.name + ".py"), base / "__init__.py"):
        if path.is_file():
            return None if _is_installed(path, folder) else path
    return None


def _is_installed(path: Path, folder: Path) -> bool:
    """Whether a file belongs to another installed package. An installed app itself is local."""
    names = {"site-packages", "dist-packages"}
    if names & set(path.relative_to(folder).parts):
        return True
    return folder.name in names or folder == Path(sysconfig.get_paths()["stdlib"])


def warning(path: Path, modules: Sequence[tuple[str, Path]]) -> str:
    """What is said about modules that do not count."""
    files = " and ".join(_shown(other, path.parent) for _, other in modules)
    names = ", ".join(f'"{name}"' for name, _ in modules)
    verb = "does" if len(modules) == 1 else "do"
    return f'{path.name} imports {files}, which {verb} not count: depends=[{names}] or depends="package"'
