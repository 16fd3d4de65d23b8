# SPDX-License-Identifier: Apache-2.0
"""The command `tarry` of the Python package: 'run' is its own, and other commands go on to the command line tool."""

import os
import sys
from collections.abc import Sequence

from . import __version__
from .run.launcher import main as run

HELP = """\
Usage: tarry COMMAND [OPTION...]
Gradient sums over workers that are slow, uneven or dead.

  tarry run      start processes of a Python script that trains with tarry.torch

      --help     Give this help list
      --version  Print the version

This is the command of the Python package. Other commands (train, serve, work, plan, simulate, keys, top, ...) are
those of the command line tool tarry, and go on to it where it is in PATH.
"""
EXIT_USAGE = 2
_ELF = b"\x7fELF"


def tool() -> str | None:
    """The path of the command line tool: the first program tarry in PATH that is no script, as this one is."""
    for folder in os.get_exec_path():
        path = os.path.join(folder, "tarry")
        if os.path.isfile(path) and os.access(path, os.X_OK | os.R_OK):
            with open(path, "rb") as file:
                if file.read(len(_ELF)) == _ELF:
                    return path
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status; does not return where the command line tool goes on."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words:
        return _complain("no command given (see tarry --help)")
    if words[0] == "run":
        return run(words[1:])
    if words[0] in ("--help", "-h"):
        print(HELP, end="")
        return 0
    if words[0] == "--version":
        print(f"tarry {__version__}")
        return 0
    if words[0].startswith("-"):
        return _complain(f"{words[0]}: unknown option (see tarry --help)")
    path = tool()
    if path is None:
        return _complain(
            f"{words[0]}: the command line tool tarry is not in PATH, and the Python package has no such command "
            "(see tarry --help)"
        )
    sys.stdout.flush()
    os.execv(path, [path, *words])


def _complain(why: str) -> int:
    print(f"tarry: {why}", file=sys.stderr)
    return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main())
