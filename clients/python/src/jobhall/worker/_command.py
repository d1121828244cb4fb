"""``python -m jobhall worker``: the options, and which of the two processes this is.

Exit codes are those of the program ``jobhall``: 0 drained, 1 unexpected, 2 usage or an app that cannot be loaded, 4 the
token was refused, 6 the name is taken.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from .._connection import read_token
from ..errors import JobhallError
from . import MAX_PROCESSES, MAX_SLOTS, MOST_SECONDS, Worker, _processes
from ._app import load
from ._output import outside_of_jobs
from ._parent import REPLACE, Parent
from ._registry import Registry
from ._session import Refused

OK, UNEXPECTED, USAGE, AUTH, CONFLICT = 0, 1, 2, 4, 6
_REFUSALS = {"unauthorized": AUTH, "forbidden": AUTH, "conflict": CONFLICT}

EXAMPLES = """\
examples:
  python -m jobhall worker app:worker --slots 8
  python -m jobhall worker app:worker --reload
  python -m jobhall worker app:worker --server https://hall:7450 --token-file worker.token
"""


def _number(name: str, least: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        value = float(text)
        if not least <= value <= MOST_SECONDS:
            raise argparse.ArgumentTypeError(f"must be from {least:g} to {MOST_SECONDS}, not {text}")
        return value

    parse.__name__ = name
    return parse


def _count(most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        value = int(text)
        if not 1 <= value <= most:
            raise argparse.ArgumentTypeError(f"must be from 1 to {most}, not {text}")
        return value

    return number


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m jobhall worker",
        description="Runs the jobs of an app. Options override what the app says.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("app", metavar="APP", help="MODULE:NAME of a jobhall.Worker, such as app:worker")
    add("--slots", type=_count(MAX_SLOTS), metavar="N", help="maximum number of concurrent jobs")
    processes = 'maximum number of processes for jobs with run="process"'
    add("--processes", type=_count(MAX_PROCESSES), metavar="N", help=processes)
    add("--name", help="name of the worker, if the token is an administrator's [default: host name]")
    add("--abilities", metavar="LIST", help="abilities of the worker, such as 'gpu=2, os=linux'")
    add("--server", metavar="URL", help="server; separate several nodes with commas [env: JOBHALL_SERVER]")
    add("--token", help="token (prefer JOBHALL_TOKEN or a file)")
    add("--token-file", type=Path, metavar="FILE", help="file with the token [env: JOBHALL_TOKEN_FILE]")
    add("--data", metavar="DIR", help="data directory of a local server [env: JOBHALL_DATA]")
    add("--ca", metavar="FILE", help="certificate of the CA that signed the server's [env: JOBHALL_CA]")
    add(
        "--grace", type=_number("seconds", 0), metavar="S", help="seconds that cancelled jobs have to end [default: 10]"
    )
    add("--lease", type=_number("seconds", 3), metavar="S", help="seconds until jobs of a silent worker are given away")
    add("--reload", action="store_true", help="load the app again when a Python file below this directory changes")
    add("--log", default="info", choices=("error", "warning", "info", "debug"), help="log level [default: info]")
    add("--child", type=int, help=argparse.SUPPRESS)
    add("--parent", type=int, help=argparse.SUPPRESS)
    add("--instance", help=argparse.SUPPRESS)
    add("--continued", action="store_true", help=argparse.SUPPRESS)
    return made


def run_command(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    logging.basicConfig(level=options.log.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for handler in logging.getLogger().handlers:
        handler.addFilter(outside_of_jobs)
    if options.child is None:
        return Parent(arguments, options.reload).run()
    registry = Registry(options.child)
    code = _run_child(options, registry)
    registry.ended()
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of jobs that never end would keep the interpreter.
    os._exit(code)


def _fail(text: str, code: int) -> int:
    sys.stderr.write(f"error: {text}\n")
    return code


def _run_child(options: argparse.Namespace, registry: Registry) -> int:
    os.close(options.child)
    _processes.die_with(options.parent)
    os.register_at_fork(after_in_child=lambda: _processes.die_with(os.getppid()))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        worker = load(options.app)
        _configure(worker, options)
        worker.connection()
    except (JobhallError, ValueError) as error:
        return _fail(str(error), USAGE)
    try:
        worker.run(registry)
    except Refused as refused:
        return _fail(_refusal(refused), _REFUSALS.get(refused.code, USAGE))
    except BaseException:
        # A job has broken the event loop. The parent reports what ran here as crashed.
        traceback.print_exc(file=sys.__stderr__)
        os._exit(UNEXPECTED)
    return REPLACE if worker.loop is not None and worker.loop.is_replaced else OK


def _refusal(refused: Refused) -> str:
    if _REFUSALS.get(refused.code) == AUTH:
        return (
            f"the server refused this worker's token (unknown, expired or revoked)\nwhy: {refused}\n"
            "fix: make another with `jobhall token create NAME --role worker`"
        )
    return f"the server refused this worker: {refused}"


def _configure(worker: Worker, options: argparse.Namespace) -> None:
    for name in ("slots", "name", "abilities", "server", "token", "ca", "grace", "lease"):
        value = getattr(options, name)
        if value is not None:
            setattr(worker, name, value)
    if options.processes is not None:
        worker.processes = options.processes
    if options.data is not None:
        worker.data_dir = options.data
    if options.token_file is not None:
        worker.token = read_token(options.token_file)
    worker.instance = options.instance
    worker.fresh = not options.continued
