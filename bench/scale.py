#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what docs/scale.md says of 1,000 to 1,000,000 simulated workers.

Usage: bench/scale.py TARRY [--workers M]... [--rounds N] [--pieces P] [--sum KEY]... [--jitter SECONDS,SD]

Each run has one trial of `tarry simulate`, of N rounds; those after the first count if there are any. Its time is compared with
a second run on the same links, with equal workers that are all alive. Prints the tables' rows: of a run
all figures that any of them has.
"""

import argparse
import json
import resource
import statistics
import subprocess
import tempfile
import time

LINKS = ["--latency", "25e-6", "--bandwidth", "1.25e9", "--server-bandwidth", "1.25e9", "--message-time", "3e-6"]
DIMENSION = 10**7
CARD = 4 * DIMENSION  # bytes of a gradient
PIECES = {1000: 16, 10_000: 16, 100_000: 16, 1_000_000: 1}
SUMS = ["sum=everywhere"]


def run(tarry, options, workers, key, straggler):
    """The result of one trial, and the processor and clock seconds and MiB that the process took."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime, time.monotonic()
        command = [tarry, "simulate", "--workers", str(workers), "--chunks", str(workers), "--replication", "4",
                   "--pieces", str(options.pieces or PIECES[workers]), "--scheme", f"tarry:{key}", "--straggler", straggler,
                   "--costs", "equal", "--trials", "1", "--rounds", str(options.rounds), "--dimension", str(DIMENSION), *LINKS,
                   "--quiet", "--report", report.name]
        if options.jitter:
            command += ["--link-jitter", options.jitter]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: {done.stderr}")
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = json.load(open(report.name))["results"][0]
        return result, used.ru_utime - before, time.monotonic() - begun, used.ru_maxrss / 1024


def steady(result):
    """The rounds after the first, if there are any."""
    return result["rounds"][1:] or result["rounds"]


def uneven(workers):
    return f"slow:{workers // 20},10+dead:{workers // 100}"


def spread(times):
    return f"{times['p50']:.4f} / {times['p99']:.4f}" if times["rounds"] else ""


def row(tarry, options, workers, key):
    level, *_ = run(tarry, options, workers, key, "none")
    result, seconds, clock, mebibytes = run(tarry, options, workers, key, uneven(workers))
    took = statistics.median(r["seconds"] for r in steady(result))
    base = statistics.median(r["seconds"] for r in steady(level))
    # total work over total speed: the dead do nothing, the slow a tenth
    ideal = 1 / (0.94 + 0.005) + base - 1 if (options.pieces or PIECES[workers]) > 1 else float("nan")
    last = result["rounds"][-1]
    cards = {name: count / CARD for name, count in last["cards"].items()}
    return [f"{workers:,}", key, f"{base:.3f}", f"{took:.3f}", f"{took / base:.3f}", f"{took / ideal:.3f}",
            spread(result["sum_times"]),
            f"{cards['root_in']:.2f} / {cards['root_out']:.2f}", f"{cards['leaf_in']:.2f} / {cards['leaf_out']:.2f}",
            f"{last['control_messages'] / workers:.0f}", f"{last['control_bytes'] / 1e6:.1f}",
            f"{last['root_messages']:.0f} / {last['root_control_bytes'] / 1e6:.2f}",
            f"{seconds / options.rounds:.1f} / {clock / options.rounds:.1f}", f"{mebibytes:.0f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tarry")
    parser.add_argument("--workers", type=int, action="append", choices=sorted(PIECES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pieces", type=int, help="of a chunk, other than usual")
    parser.add_argument("--sum", action="append", help="keys of the scheme, as in sum=everywhere,keep=all")
    parser.add_argument("--jitter", metavar="SECONDS,SD", help="what each message waits")
    options = parser.parse_args()
    for workers in options.workers or sorted(PIECES):
        for key in options.sum or SUMS:
            print("| " + " | ".join(row(options.tarry, options, workers, key)) + " |", flush=True)


if __name__ == "__main__":
    main()
