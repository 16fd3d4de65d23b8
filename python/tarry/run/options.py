# SPDX-License-Identifier: Apache-2.0
"""The options of `tarry run`."""

import argparse

DESCRIPTION = """\
Starts N processes of a Python script that trains with tarry.torch, and the coordinator that sums their gradients. Their
output is shown with their numbers. Who dies is started again, as often as --restarts says; the others go on meanwhile.
"""
EPILOG = """\
The script stays the same under srun, mpirun and torchrun, which bring processes of their own.
Ctrl-C ends all processes; with a checkpoint (tarry.torch.join) the next run goes on from it.
"""


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


_positive.__name__ = "count"


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        prog="tarry run", description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("-n", "--workers", type=_positive, required=True, metavar="N", help="processes to start")
    found.add_argument(
        "--restarts",
        type=int,
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
    found.add_argument("--straggler-seed", type=int, default=1, metavar="S", help="of these delays (default 1)")
    found.add_argument(
        "--threads", type=_positive, metavar="T", help="of each process (OMP_NUM_THREADS; default: processors / N)"
    )
    found.add_argument(
        "--silence", type=float, default=2.0, metavar="SECONDS",
        help="without an answer, after which a worker counts as lost (default 2)",
    )  # fmt: skip
    found.add_argument(
        "--patience", type=float, default=300.0, metavar="SECONDS",
        help="that a step waits where too few workers are left (default 300)",
    )  # fmt: skip
    found.add_argument("-m", "--module", action="store_true", help="SCRIPT is a module's name, as for python -m")
    found.add_argument(
        "-q", "--quiet", action="store_true", help="no progress, and no word of workers that come and go"
    )
    found.add_argument("script", metavar="SCRIPT")
    found.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="for the script")
    return found
