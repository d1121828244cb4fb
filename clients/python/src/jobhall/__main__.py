"""``python -m jobhall``: the commands of this package."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .worker._command import run_command

USAGE = """\
usage: python -m jobhall worker APP [options]

APP is MODULE:NAME, such as app:worker: a jobhall.Worker in a module that can be imported from this directory.
`python -m jobhall worker --help` lists the options. Everything else is in the program `jobhall`.
"""


def main(arguments: Sequence[str]) -> int:
    match list(arguments):
        case ["worker", *rest]:
            return run_command(rest)
        case ["-h" | "--help" | "help"]:
            sys.stdout.write(USAGE)
            return 0
    sys.stderr.write(USAGE)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
