#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps of ranks of MPI beside MPI's own collectives with the same sleeps, as Markdown tables.

Usage: bench/mpi.py STEP_MPI [--runs R] [--steps S] [--claims LIST]

STEP_MPI is build/bench/step-mpi of an optimised build; Open MPI's mpirun is looked for in PATH. Claims are `straggler` (16
ranks, as much work in all, 16 pieces; one 10 times slower, by sleeps) and `sleep` (16 ranks, 300 ms of sleep as compute, d =
1e6 and 1e7, beside the sleep and MPI_Allreduce alone; and a step without sleep). In one process Tarry's steps and those of
the collectives follow each other; a figure is the median over all steps of all runs.
"""

import argparse
import os
import statistics
import subprocess
import sys

import markdown

LIMIT_SECONDS = 580
SECONDS = 0.3
SLOW = 10
STRAGGLER = {"ranks": 16, "dimension": 100_000, "pieces": 16}
SLEEP = {"ranks": 16, "pieces": 1}
DIMENSIONS = (1_000_000, 10_000_000)
WAYS = ("shared", "mpi")


def measure(options, over, ranks, dimension, pieces, seconds=SECONDS, slow=1):
    """Seconds of each step, by what made it."""
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    command = ["mpirun.openmpi", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "--mca", "pml", "ob1", "--mca",
               "btl", "vader,self", "-n", ranks, options.step_mpi, dimension, options.steps, seconds, pieces, slow, over]
    figures = {}
    for _ in range(options.runs):
        ran = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True,
                             timeout=LIMIT_SECONDS)
        if ran.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}: {ran.stderr.strip() or ran.stdout.strip()}")
        for line in ran.stdout.splitlines():
            what, value = line.split()
            figures.setdefault(what, []).append(float(value))
    return {what: statistics.median(values) for what, values in figures.items()}


def milliseconds(seconds):
    return f"{seconds * 1e3:.1f}"


def straggler(options):
    figures = {over: [measure(options, over, **STRAGGLER, slow=slow) for slow in (1, SLOW)] for over in WAYS}
    makers = [*((f"Tarry, {over}", over, "tarry") for over in WAYS), ("MPI_Allreduce", "mpi", "allreduce"),
              ("MPI_Reduce and MPI_Bcast", "mpi", "reduce")]
    reference = figures["mpi"][1]["tarry"]
    rows = []
    for name, over, what in makers:
        even, uneven = (found[what] for found in figures[over])
        rows.append([name, milliseconds(even), milliseconds(uneven), f"{uneven / even:.2f}", f"{uneven / reference:.2f}"])
    return markdown.table(["ranks step by", "balanced, ms", "one slow, ms", "of balanced", "of Tarry, mpi"], rows)


def sleep(options):
    rows = []
    for over in WAYS:
        for dimension in DIMENSIONS:
            with_sleep = measure(options, over, **SLEEP, dimension=dimension)
            alone = measure(options, over, **SLEEP, dimension=dimension, seconds=0)
            least = SECONDS + with_sleep["bare"]
            rows.append([over, f"{dimension:.0e}".replace("+0", ""), milliseconds(with_sleep["bare"]),
                         milliseconds(with_sleep["tarry"]), f"{with_sleep['tarry'] / least:.2f}",
                         milliseconds(alone["tarry"])])
    header = ["sums over", "d", "MPI_Allreduce alone, ms", f"step with {SECONDS * 1e3:.0f} ms of sleep, ms",
              "of sleep and MPI_Allreduce", "step without sleep, ms"]
    return markdown.table(header, rows)


CLAIMS = {"straggler": straggler, "sleep": sleep}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step_mpi")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--claims", default=",".join(CLAIMS))
    options = parser.parse_args()
    for claim in options.claims.split(","):
        if claim not in CLAIMS:
            parser.error(f"no claim {claim}")
        print("\n".join(CLAIMS[claim](options)), end="\n\n")


if __name__ == "__main__":
    main()
