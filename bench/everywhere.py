#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps of workers that all get the sum, beside Gloo's, as Markdown tables: what stragglers and waiting cost.

Usage: bench/everywhere.py TARRY_BENCH [--gloo PYTHON] [--runs R] [--claims LIST]

TARRY_BENCH is the binary (an optimised build); PYTHON is an interpreter that has torch, and without one Gloo is left out.
Claims are `straggler` (8 workers, replication 3, 16 pieces; one 10 times slower, and one that is stopped), `sleep` (300 ms
of sleep as compute, d = 1e6 and 1e7, beside sums alone), `waiting` (processor time of who waits, and what a step
takes after the last gradient is there), `joining` (a worker joins the other seven and loads a state of several vectors) and
`repair` (a worker is killed in the middle of a sum). In each run all take turns; a figure is the median over all runs.
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
JOIN_AT = 5
JOIN_STEPS = 12
JOIN_VECTORS = 3  # parameters, and the two of Adam
KILL_AT = 4
WAYS = ("tcp", "tls")
ALL_WAYS = ("shared", *WAYS)


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


def exponent(dimension):
    return f"{dimension:.0e}".replace("+0", "")


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
            rows.append([way, exponent(dimension), milliseconds(bare), milliseconds(slept),
                         f"{slept / (SECONDS + bare):.2f}", milliseconds(awake)])
    return markdown.table(["over", "d", "sum alone, ms", f"step with {milliseconds(SECONDS)} ms of sleep, ms",
                           "of sleep and sum", "step without sleep, ms"], rows)


def waiting(options):
    taken = Samples()
    for _ in range(options.runs):
        for way in ALL_WAYS:
            ran = steps(options, 10, over=way, dimension=10, pieces=1, replication=1, slow=SLOW, seconds=0.05)
            taken.add((way, "busy"), [ran["busy"]])
            taken.add((way, "added"), ran["added_seconds"])
    rows = [[way, f"{taken.median(way, 'busy') * 100:.2f}", f"{taken.median(way, 'added') * 1e3:.2f}"]
            for way in ALL_WAYS]
    return markdown.table(["over", "a waiting process, % of a core", "after the last gradient, ms"], rows)


def joining(options):
    taken = Samples()
    cases = [(way, dimension, seconds) for way in WAYS for dimension in SLEEP_DIMENSIONS for seconds in (SECONDS, 0)]
    for _ in range(options.runs):
        for case in cases:
            way, dimension, seconds = case
            ran = steps(options, JOIN_STEPS, over=way, dimension=dimension, vectors=JOIN_VECTORS, seconds=seconds,
                        pieces=1, join=JOIN_AT)
            upset, took = ran["upset"], ran["seconds"]
            first = upset["first"] or JOIN_STEPS + 1  # of a joiner that never took part: a bound
            rounds = took[JOIN_AT - 1:first]
            before = statistics.median(took[:JOIN_AT - 1])
            joined = upset["joined_seconds"] or sum(rounds)
            taken.add((*case, "alone"), [upset["alone_seconds"]])
            taken.add((*case, "joined"), [joined])
            taken.add((*case, "over"), [(joined - upset["alone_seconds"]) / before])
            taken.add((*case, "rounds"), [first - JOIN_AT])
            taken.add((*case, "before"), [before])
            taken.add((*case, "meanwhile"), [each / before for each in rounds])
            taken.add((*case, "longest"), [max(rounds) / before])
    rows = []
    for case in cases:
        way, dimension, seconds = case
        alone, joined, over, rounds, before, meanwhile, longest = (
            taken.median(*case, name)
            for name in ("alone", "joined", "over", "rounds", "before", "meanwhile", "longest"))
        rows.append([way, exponent(dimension), milliseconds(seconds), milliseconds(alone), milliseconds(joined),
                     milliseconds(before), f"{over:.2f}", f"{rounds:.0f}", f"{meanwhile:.2f}", f"{longest:.2f}"])
    return markdown.table(["over", "d", "sleep, ms", "state alone, ms", "joined after, ms", "round before, ms",
                           "rounds past the state", "rounds without it", "rounds meanwhile, of before", "the longest"],
                          rows)


def repair(options):
    taken = Samples()
    for _ in range(options.runs):
        for way in WAYS:
            for dimension in SLEEP_DIMENSIONS:
                ran = steps(options, KILL_AT + 2, over=way, dimension=dimension, seconds=0, pieces=1, kill=KILL_AT)
                trip = steps(options, 6, over=way, dimension=1, seconds=0, pieces=1)["added_seconds"]
                upset, case = ran["upset"], (way, dimension)
                taken.add((*case, "trips"), trip)
                taken.add((*case, "in a sum"), [upset["attempts"] == 2])
                if upset["attempts"] != 2:
                    continue
                known = upset["known_seconds"]
                taken.add((*case, "known"), [known])
                taken.add((*case, "again"), [upset["again_seconds"] - known])
                taken.add((*case, "repaired"), [upset["repaired_seconds"] - known])
                taken.add((*case, "bare"), ran["added_seconds"][:KILL_AT - 1])
    rows = []
    for way in WAYS:
        for dimension in SLEEP_DIMENSIONS:
            known, again, repaired, bare, trips = (
                taken.median(way, dimension, name) for name in ("known", "again", "repaired", "bare", "trips"))
            hit = taken.figures[way, dimension, "in a sum"]
            rows.append([way, exponent(dimension), f"{sum(hit):.0f} of {len(hit)}", milliseconds(known), milliseconds(again),
                         milliseconds(repaired), milliseconds(bare), f"{repaired / bare:.2f}", milliseconds(trips)])
    return markdown.table(["over", "d", "killed in a sum", "known after, ms", "next attempt, ms", "repaired, ms",
                           "a sum and its vote, ms", "of that", "the same of 1 number, ms"], rows)


CLAIMS = {"straggler": straggler, "sleep": sleep, "waiting": waiting, "joining": joining, "repair": repair}


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
