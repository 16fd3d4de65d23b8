#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps of workers that all get the sum, beside Gloo's, as Markdown tables: what stragglers and waiting cost.

Usage: bench/everywhere.py TARRY_BENCH [--gloo PYTHON] [--runs R] [--claims LIST]

TARRY_BENCH is the binary (an optimised build); PYTHON is an interpreter that has torch, and without one Gloo is left out.
Claims are `straggler` (8 workers, replication 3, 16 pieces; one 10 times slower, and one that is stopped), `sleep` (300 ms
of sleep as compute, d = 1e6 and 1e7, beside sums alone) and `waiting` (processor time of who waits, and what a step
takes after the last gradient is there). In each run all take turns; a figure is the median over all runs.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

import markdown

PEER = pathlib.Path(__file__).resolve().parent / "peers" / "step_gloo.py"
LIMIT_SECONDS = 300
WORKERS = 8
SECONDS = 0.3
SLOW = 10
SILENCE_SECONDS = 2
STRAGGLER_DIMENSION = 1_000_000
SLEEP_DIMENSIONS = (1_000_000, 10_000_000)
WAYS = ("tcp", "tls")


def output(command):
    ran = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=LIMIT_SECONDS)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {ran.stderr.strip() or ran.stdout.strip()}")
    return ran.stdout


def bench(options, what, **flags):
    words = [word for name, value in flags.items() for word in (f"--{name}", value)]
    return json.loads(output([options.tarry_bench, what, "--json", *words]))


def steps(options, times, **flags):
    return bench(options, "step", workers=WORKERS, times=times, **flags)


def gloo(options, times, *factors):
    command = [options.gloo, PEER, STRAGGLER_DIMENSION, times, WORKERS, SECONDS, *factors]
    return [line.split() for line in output(command).splitlines()]


class Samples:
    """Figures by name, of all runs."""

    def __init__(self):
        self.figures = {}

    def add(self, name, values):
        self.figures.setdefault(tuple(name), []).extend(float(value) for value in values)

    def median(self, *name):
        return statistics.median(self.figures[name])


def milliseconds(seconds):
    return f"{seconds * 1e3:.1f}"


def straggler(options):
    taken = Samples()
    for _ in range(options.runs):
        for way in WAYS:
            common = {"over": way, "dimension": STRAGGLER_DIMENSION, "seconds": SECONDS, "pieces": 16}
            taken.add((way, "balanced"), steps(options, 4, **common)["seconds"])
            taken.add((way, "slow"), steps(options, 4, slow=SLOW, **common)["seconds"])
            stop = steps(options, 2, stop=1, silence=SILENCE_SECONDS, **common)
            taken.add((way, "stopped"), stop["seconds"][:1])
        if options.gloo is not None:
            for name, seconds in zip(("balanced", "slow"), gloo(options, 1, 1, SLOW)):
                taken.add(("Gloo", name), seconds)
    names = [f"Tarry, {way}" for way in WAYS] + ["Gloo"] * (options.gloo is not None)
    ended = {} if options.gloo is None else {"Gloo": " ".join(gloo(options, 0, "stop")[0])}
    rows = []
    for name in names:
        way = name.split()[-1]
        balanced, slow = taken.median(way, "balanced"), taken.median(way, "slow")
        stopped = ended[name] if name in ended else milliseconds(taken.median(way, "stopped"))
        rows.append([name, milliseconds(balanced), milliseconds(slow), f"{slow / balanced:.2f}",
                     f"{slow / taken.median(WAYS[0], 'slow'):.2f}", stopped])
    return markdown.table(["steps of", "balanced, ms", "one slow, ms", "of balanced", f"of Tarry, {WAYS[0]}",
                           f"one stopped, ms (silence {SILENCE_SECONDS} s)"], rows)


def sleep(options):
    taken = Samples()
    for _ in range(options.runs):
        for way in WAYS:
            for dimension in SLEEP_DIMENSIONS:
                common = {"over": way, "dimension": dimension}
                for seconds in (SECONDS, 0):
                    taken.add((way, dimension, seconds),
                              steps(options, 4, seconds=seconds, pieces=1, **common)["seconds"])
                taken.add((way, dimension), bench(options, "allreduce", members=WORKERS, times=5, **common)["seconds"])
    rows = []
    for way in WAYS:
        for dimension in SLEEP_DIMENSIONS:
            bare, slept, awake = (taken.median(way, dimension, *rest) for rest in ((), (SECONDS,), (0,)))
            rows.append([way, f"{dimension:.0e}".replace("+0", ""), milliseconds(bare), milliseconds(slept),
                         f"{slept / (SECONDS + bare):.2f}", milliseconds(awake)])
    return markdown.table(["over", "d", "sum alone, ms", f"step with {milliseconds(SECONDS)} ms of sleep, ms",
                           "of sleep and sum", "step without sleep, ms"], rows)


def waiting(options):
    taken = Samples()
    for _ in range(options.runs):
        for way in WAYS:
            ran = steps(options, 10, over=way, dimension=10, pieces=1, replication=1, slow=SLOW, seconds=0.05)
            taken.add((way, "busy"), [ran["busy"]])
            taken.add((way, "added"), ran["added_seconds"])
    rows = [[way, f"{taken.median(way, 'busy') * 100:.2f}", f"{taken.median(way, 'added') * 1e3:.2f}"] for way in WAYS]
    return markdown.table(["over", "a waiting process, % of a core", "after the last gradient, ms"], rows)


CLAIMS = {"straggler": straggler, "sleep": sleep, "waiting": waiting}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tarry_bench")
    parser.add_argument("--gloo", metavar="PYTHON")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--claims", metavar="LIST", default=",".join(CLAIMS), help="separated by commas (default: all)")
    options = parser.parse_args()
    for claim in options.claims.split(","):
        if claim not in CLAIMS:
            parser.error(f"no such claim: {claim}")
        print("\n".join(CLAIMS[claim](options)) + "\n", flush=True)


if __name__ == "__main__":
    main()
