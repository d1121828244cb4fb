"""Loads the worker that ``MODULE:NAME`` names."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
import traceback

from ..errors import JobhallError
from . import Worker


class AppError(JobhallError):
    """The app cannot be loaded."""


def load(app: str) -> Worker:
    module, colon, name = app.partition(":")
    if module.endswith(".py") or "/" in module:
        wanted = module.removesuffix(".py").strip("./").replace("/", ".")
        raise AppError(f"{app!r} is a path: name the module, such as {wanted}:{name or 'worker'}")
    if not module or (colon and not name):
        raise AppError(f"{app!r} is not MODULE:NAME, such as app:worker")
    started = time.time_ns()
    found = _import(module)
    name = name or "worker"
    value = getattr(found, name, None)
    if value is None:
        workers = [key for key, one in vars(found).items() if isinstance(one, Worker)]
        raise AppError(f"module {module} has no {name!r} (workers in it: {', '.join(workers) or 'none'})")
    if not isinstance(value, Worker):
        raise AppError(f"{module}:{name} is no jobhall.Worker but {type(value).__name__}")
    if not value.functions:
        raise AppError(f"{module}:{name} has no jobs: register functions with @{name}.job or @{name}.command")
    value.loaded_since = started
    return value


def _import(module: str) -> object:
    sys.path[:0] = [] if "" in sys.path[:1] else [""]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(error.name + ".")):
            raise AppError(f"there is no module {error.name!r} in this directory or the environment") from error
        raise _failure(module, error) from error
    except (Exception, SystemExit) as error:
        raise _failure(module, error) from error


def _failure(module: str, error: BaseException) -> AppError:
    """The traceback begins in the app: the frames of the import system say nothing about it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if "importlib" not in one.filename and one.filename != __file__]
    shown = "".join(traceback.format_list(own) + traceback.format_exception_only(error))
    return AppError(f"importing {module} failed\n{shown.rstrip()}")
