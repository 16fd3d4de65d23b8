# SPDX-License-Identifier: Apache-2.0
"""The options of `tarry run`."""

import argparse
import difflib
import math
import re
from typing import Any, NoReturn

DESCRIPTION = """\
Starts N processes of a Python script that trains with tarry.torch, and the coordinator that sums their gradients. Their
output is shown with their numbers. Who dies is started again, as often as --restarts says; the others go on meanwhile.
"""
EPILOG = """\
The script stays the same under srun, mpirun and torchrun, which bring processes of their own.
Ctrl-C ends all processes; with a checkpoint (tarry.torch.join) the next run goes on from it.
"""


_MOST_WORKERS = 1024  # of one machine
_UNKNOWN = re.compile(r"unrecognized arguments: (-[^ =]*)")


class _Parser(argparse.ArgumentParser):
    """Says in one line what is wrong, as the command line tool does."""

    def error(self, message: str) -> NoReturn:
        unknown = _UNKNOWN.match(message)
        if unknown is not None:
            known = difflib.get_close_matches(unknown[1], self._option_string_actions, 1)
            hint = f"did you mean {known[0]}?" if known else "see tarry run --help"
            self.exit(2, f"{self.prog}: {unknown[1]}: unknown option ({hint})\n")
        self.exit(2, f"{self.prog}: {message} (see tarry run --help)\n")


def _count(least: int, most: int) -> Any:
    def count(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"{text} is not in the range {least} to {most}")
        return number

    return count


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return number


def parser() -> argparse.ArgumentParser:
    found = _Parser(
        prog="tarry run", description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument(
        "-n", "--workers", type=_count(1, _MOST_WORKERS), required=True, metavar="N", help="processes to start"
    )
    found.add_argument(
        "--restarts",
        type=_count(0, 1_000_000),
        default=0,
        metavar="K",
        help="how often a process that dies is started again (default 0)",
    )
    found.add_argument(
        "--straggler",
        default="",
        metavar="SPEC",
        help="delays to inject, as in 'slow:1,5' or 'exp:0.01' (default none)",
    )
    found.add_argument(
        "--straggler-seed", type=_count(0, (1 << 63) - 1), default=1, metavar="S", help="of these delays (default 1)"
    )
    found.add_argument(
        "--threads",
        type=_count(1, 1 << 20),
        metavar="T",
        help="of each process (OMP_NUM_THREADS; default: processors / N)",
    )
    found.add_argument(
        "--silence", type=_seconds, default=2.0, metavar="SECONDS",
        help="without an answer, after which a worker counts as lost (default 2)",
    )  # fmt: skip
    found.add_argument(
        "--patience", type=_seconds, default=300.0, metavar="SECONDS",
        help="that a step waits where too few workers are left (default 300)",
    )  # fmt: skip
    found.add_argument("-m", "--module", action="store_true", help="SCRIPT is a module's name, as for python -m")
    found.add_argument(
        "-q", "--quiet", action="store_true", help="no progress, and no word of workers that come and go"
    )
    found.add_argument("script", metavar="SCRIPT")
    more = found.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="for the script")
    more.required = False
    return found
