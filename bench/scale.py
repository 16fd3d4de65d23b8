#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what docs/scale.md says of 1,000 to 1,000,000 simulated workers.

Usage: bench/scale.py TARRY [--workers M]... [--rounds N] [--sum KEY]...

Each run has one trial of `tarry simulate`, of N rounds; those after the first count, where there are any. A second run of equal
workers of which none is dead, on the same links and in the same shape, is what its time is held to. Prints the table's rows.
"""

import argparse
import json
import resource
import statistics
import subprocess
import tempfile

LINKS = ["--latency", "25e-6", "--bandwidth", "1.25e9", "--server-bandwidth", "1.25e9", "--message-time", "3e-6"]
DIMENSION = 10**7
CARD = 4 * DIMENSION  # bytes of a gradient
PIECES = {1000: 16, 10_000: 16, 100_000: 16, 1_000_000: 1}
SUMS = ["sum=auto", "relays=8"]


def run(tarry, workers, rounds, key, straggler):
    """The rounds of one trial, and what the process took."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        command = [tarry, "simulate", "--workers", str(workers), "--chunks", str(workers), "--replication", "4",
                   "--pieces", str(PIECES[workers]), "--scheme", f"tarry:{key}", "--straggler", straggler, "--costs", "equal",
                   "--trials", "1", "--rounds", str(rounds), "--dimension", str(DIMENSION), *LINKS, "--quiet",
                   "--report", report.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: {done.stderr}")
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = json.load(open(report.name))["results"][0]
        return result["rounds"], used.ru_utime - before, used.ru_maxrss / 1024


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def row(tarry, workers, rounds, key):
    slow = f"slow:{workers // 20},10+dead:{workers // 100}"
    steady = slice(1, None) if rounds > 1 else slice(0, None)
    level, _, _ = run(tarry, workers, rounds, key, "none")
    uneven, seconds, mebibytes = run(tarry, workers, rounds, key, slow)
    seconds_of = [r["seconds"] for r in uneven[steady]]
    base = statistics.median(r["seconds"] for r in level[steady])
    sums = [r["sum_seconds"] for r in uneven[steady]]
    bare = statistics.median(r["sum_seconds"] for r in level[steady])
    # total work over total speed: the dead do nothing, the slow a tenth
    ideal = 1 / (0.94 + 0.005) + base - 1 if PIECES[workers] > 1 else float("nan")
    last = uneven[-1]
    cards = {name: count / CARD for name, count in last["cards"].items()}
    return [f"{workers:,}", key, f"{base:.3f}", f"{statistics.median(seconds_of):.3f}",
            f"{statistics.median(seconds_of) / base:.3f}", f"{statistics.median(seconds_of) / ideal:.3f}",
            f"{percentile(sums, 0.5):.4f} / {percentile(sums, 0.99):.4f}", f"{bare:.4f}",
            f"{cards['root_in']:.2f} / {cards['root_out']:.2f}", f"{cards['inner_in']:.2f} / {cards['inner_out']:.2f}",
            f"{cards['leaf_in']:.2f} / {cards['leaf_out']:.2f}",
            f"{last['control_messages'] / workers:.0f}", f"{last['control_bytes'] / 1e6:.1f}",
            f"{seconds / rounds:.1f}", f"{mebibytes:.0f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tarry")
    parser.add_argument("--workers", type=int, action="append", choices=sorted(PIECES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sum", action="append", choices=SUMS)
    options = parser.parse_args()
    for workers in options.workers or sorted(PIECES):
        for key in options.sum or SUMS:
            print("| " + " | ".join(row(options.tarry, workers, options.rounds, key)) + " |", flush=True)


if __name__ == "__main__":
    main()
