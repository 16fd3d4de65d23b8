# SPDX-License-Identifier: Apache-2.0
"""The options of `tarry run`."""

import argparse
import difflib
import math
import os
import re
from typing import Any, NoReturn

DESCRIPTION = """\
Starts N processes of a Python script that trains with tarry.torch, and the hub that coordinates them. Their output is
shown with their numbers. Who dies is started again, as often as --restarts says; the others go on meanwhile.
"""
EPILOG = """\
On several machines the first one has the hub, and each of the others N more workers:
  first$   tarry run -n 4 --workers 8 --listen :7070 --credentials DIR SCRIPT
  second$  tarry run -n 4 --connect first:7070 --credentials DIR SCRIPT
DIR is what `tarry keys init --workers 8 DIR` makes, or the part of it that the machine needs: the folder `server` where
the hub is, and those of its workers, or `worker`. The hub takes two ports, 7070 and 7071; workers take any.
A machine that dies costs no step, and another one may take its place; the end of the first one ends all.

The script stays the same under srun, mpirun and torchrun, which bring processes of their own.
Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 end all processes. With a checkpoint (tarry.torch.join) a last state is stored
before, and the last line says where the next run continues. A second Ctrl-C ends at once.
"""


_MOST_HERE = 1024
_MOST_WORKERS = 100_000
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


def _modules(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise argparse.ArgumentTypeError(f"{name!r} is no name of a module")
    return names


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
        "-n", dest="here", type=_count(1, _MOST_HERE), metavar="N", help="processes to start on this machine"
    )
    found.add_argument(
        "--workers", type=_count(1, _MOST_WORKERS), metavar="W", help="of all machines (default N); where the hub is"
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
        "--preload",
        type=_modules,
        default=[],
        metavar="MODULE,..",
        help="imported once, and each process is forked from there: it starts sooner and takes less memory",
    )
    found.add_argument(
        "--silence", type=_seconds, default=2.0, metavar="SECONDS",
        help="without an answer, after which a worker counts as lost (default 2)",
    )  # fmt: skip
    found.add_argument(
        "--patience", type=_seconds, default=300.0, metavar="SECONDS",
        help="that a step waits where too few workers are left (default 300)",
    )  # fmt: skip
    found.add_argument(
        "--grace", type=_seconds, default=60.0, metavar="SECONDS",
        help="for a last state after Ctrl-C, SIGTERM, SIGHUP or SIGUSR1 (default 60)",
    )  # fmt: skip
    _add_machines(found)
    found.add_argument("-m", "--module", action="store_true", help="SCRIPT is a module's name, as for python -m")
    found.add_argument(
        "-q", "--quiet", action="store_true", help="no progress, and no word of workers that come and go"
    )
    found.add_argument("script", metavar="SCRIPT")
    more = found.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="for the script")
    more.required = False
    return found


def _add_machines(found: argparse.ArgumentParser) -> None:
    more = found.add_argument_group("several machines")
    more.add_argument(
        "--listen",
        metavar="[HOST]:PORT",
        help="start the hub here, for workers of other machines, too; its server is at the next port",
    )
    more.add_argument(
        "--advertise",
        metavar="HOST",
        help="how others reach this machine (default: HOST of --listen, or its address towards others)",
    )
    more.add_argument("--connect", metavar="HOST:PORT", help="the hub is there: start workers for it")
    more.add_argument(
        "--first", type=_count(0, _MOST_WORKERS), metavar="K",
        help="number of the first one, with --connect (default: the first N in a row that nobody has)",
    )  # fmt: skip
    more.add_argument(
        "--start", type=_seconds, metavar="SECONDS",
        help="that the first step waits for all workers, where the hub is (default 60)",
    )  # fmt: skip
    more.add_argument(
        "--credentials",
        metavar="DIR",
        help="of `tarry keys`: a folder with a folder for each member (default TARRY_CREDENTIALS)",
    )
    more.add_argument("--insecure", action="store_true", help="plain text in their place, on loopback addresses")
    more.add_argument(
        "--force", action="store_true", help="with --insecure: anywhere. Everybody who can connect can take part"
    )


def parse(arguments: list[str]) -> argparse.Namespace:
    """Ends the process where something is wrong."""
    made = parser()
    wanted = made.parse_args(arguments)
    why = _contradiction(wanted)
    if why:
        made.error(why)
    if wanted.connect is None:
        wanted.here = wanted.here or wanted.workers
        wanted.workers = wanted.workers or wanted.here
    wanted.start = wanted.start or 60.0
    if wanted.credentials is None and not wanted.insecure and (wanted.listen or wanted.connect):
        wanted.credentials = os.environ.get("TARRY_CREDENTIALS")
    return wanted


def _contradiction(wanted: argparse.Namespace) -> str:
    """What does not go together; "": everything does."""
    alone = wanted.listen is None and wanted.connect is None
    if wanted.here is None and (wanted.connect is not None or wanted.workers is None):
        return "the following arguments are required: -n"
    if wanted.listen is not None and wanted.connect is not None:
        return "--listen is for where the hub is, and --connect for where it is not"
    if wanted.connect is not None:
        for name in ("workers", "start", "advertise"):
            if getattr(wanted, name) is not None:
                return f"--{name} is told where the hub is"
    elif wanted.first is not None:
        return "--first needs --connect: where the hub is they begin with 0"
    elif wanted.workers is not None and wanted.here is not None and wanted.workers < wanted.here:
        return f"--workers {wanted.workers} are less than the {wanted.here} of this machine"
    elif alone and wanted.workers is not None and wanted.here is not None and wanted.workers > wanted.here:
        return f"--workers {wanted.workers} are more than the {wanted.here} of this machine: the others need --listen"
    if alone and (wanted.credentials or wanted.insecure or wanted.advertise):
        return "--credentials, --insecure and --advertise are for several machines: --listen or --connect"
    if wanted.credentials and wanted.insecure:
        return "--insecure: cannot be combined with --credentials"
    if wanted.force and not wanted.insecure:
        return "--force: has no meaning without --insecure"
    if not wanted.module and not os.path.isfile(wanted.script):
        return f"there is no script {wanted.script}"
    return ""
