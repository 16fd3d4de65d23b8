#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs what docs/protocol.md and docs/dynamic.md claim of latency and prints it beside its limit, as a Markdown table.

Usage: bench/latency.py TARRY [--only NAME]

TARRY is the binary (an optimised build). bench/claims.py runs these claims with all others, and
bench/pages makes the pages' tables of the same measurements. Latencies are one way, in units
of what a chunk takes; links are as fast as one likes. The exit status is 1 if a limit is missed.
"""

import fractions
import types

import harness

claim = harness.Claims()

WORKERS = (8, 33)
PIECES = (1, 16)
REPLICATION = 3
LATENCIES = (0, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)
SPECS = (  # name, SPEC, the SPEC with speeds that last
    ("none", "none", "none"),
    ("jitter, 2 of m 3 times slower", "jitter:0.1+slow:2,3", "jitter:0.1/run+slow:2,3"),
    ("shifted-exp:1,1", "shifted-exp:1,1", "shifted-exp:1,1/run"),
)
ROUNDS = 10
MOST = 1.05


def simulated(tarry, workers, pieces, latency, spec, schemes, *more):
    """The results of all schemes on the same draws."""
    return tarry.results(
        "--workers", workers, "--chunks", workers, "--replication", REPLICATION, "--pieces", pieces, "--trials", 20,
        "--latency", latency, "--silence", 1000, "--straggler", spec, "--scheme", ",".join(schemes), *more)


def of_all_rounds(result):
    """The median times of a variant's rounds, one after the other."""
    return [row["seconds"] for row in result.get("rounds") or [{"seconds": result["time"]["median"]}]]


def fraction(latency):
    """As pages write it: 0, 1/16, 1."""
    return str(fractions.Fraction(latency))


@claim
def latency_credited(bench):
    """A running sum against all gradients, in the first round and in those after it."""
    schemes = ("tarry:name=all", "tarry:name=credited,keep=credited")
    for workers in WORKERS:
        for pieces in PIECES:
            for name, spec, lasting in SPECS:
                what = f"m = {workers}, P = {pieces}, {name}: credited / all"
                first, later = [], []
                for latency in LATENCIES:
                    every, folded = simulated(bench, workers, pieces, latency, spec, schemes)
                    first.append(folded["time"]["median"] / every["time"]["median"])
                    every, folded = simulated(bench, workers, pieces, latency, lasting, schemes, "--rounds", ROUNDS)
                    later += [b / a for a, b in zip(of_all_rounds(every), of_all_rounds(folded))]
                bench.at_most(f"{what}, first round, the worst latency", max(first), MOST, digits=4)
                bench.at_most(f"{what}, {ROUNDS} rounds, the worst of each", max(later), MOST, digits=4)


def ahead(tarry):
    """How far ahead a running sum is let, its vectors and those of all gradients, and seconds: cases by latency."""
    shape = ("--workers", 33, "--chunks", 33, "--replication", REPLICATION, "--pieces", 16, "--dimension", 1)
    vector = 4
    every = tarry.plan(*shape)["memory_bytes"] // vector
    schemes = ("tarry:name=all", "tarry:name=credited,keep=credited", "tarry:name=usual,keep=credited,ahead=3",
               "tarry:name=two,keep=credited,ahead=1", "uncoded")
    for latency in LATENCIES:
        results = simulated(tarry, 33, 16, latency, SPECS[1][1], schemes)
        most = results[1]["settings"]["ahead"]
        plan = tarry.plan(*shape, "--keep", "credited", "--ahead", most)
        yield types.SimpleNamespace(latency=latency, ahead=most, vectors=plan["memory_bytes"] // vector, every=every,
                                    seconds=[result["time"]["median"] for result in results])


@claim
def latency_ahead(bench):
    """How far ahead that is, what it takes in memory, and what a worker pays that may not run as far."""
    for of in ahead(bench):
        bench.note(f"m = 33, P = 16, jitter, slow, latency {of.latency:g}: ahead; vectors, of {of.every}; time of all, credited, "
                   "ahead 3, ahead 1, uncoded",
                   f"{of.ahead}; {of.vectors}; " + ", ".join(f"{seconds:.3g}" for seconds in of.seconds))


def dynamic_order(tarry, workers):
    """What a dynamic order loses by latency, in the first round and in the last: (name, latency, figures of both).

    The server's view is one way old, and its orders are when they are heard. The four latencies that every round has are
    left out of the time over balanced.
    """
    for name, _, lasting in SPECS:
        for latency in LATENCIES:
            ours, uncoded = (row["rounds"] for row in
                             simulated(tarry, workers, 16, latency, lasting, ("tarry", "uncoded"), "--rounds", ROUNDS))
            figures = []
            for row, plain in (ours[0], uncoded[0]), (ours[-1], uncoded[-1]):
                balanced = row["seconds"] / row["ratio_to_balanced"]
                figures.append(((row["seconds"] - 4 * latency) / balanced, row["copies"], row["seconds"] / plain["seconds"]))
            yield name, latency, figures


@claim
def latency_dynamic(bench):
    """What a dynamic order loses by latency."""
    for workers in WORKERS:
        for name, latency, rounds in dynamic_order(bench, workers):
            bench.note(f"m = {workers}, P = 16, {name}, latency {latency:g}: (time - 4 latencies) / balanced, copies, "
                       f"time / uncoded; in round 1; in round {ROUNDS}",
                       "; ".join(", ".join(f"{figure:.2f}" for figure in figures) for figures in rounds))


if __name__ == "__main__":
    harness.main(claim, __doc__.split("\n")[0])
