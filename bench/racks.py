#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs what docs/plan.md and docs/stragglers.md claim of racks and prints it beside its limit, as a Markdown table.

Usage: bench/racks.py TARRY [DATA] [--only NAME]

TARRY is the binary (an optimised build). bench/claims.py runs these claims with all others. The exit status is 1 if a
limit is missed.
"""

import json
import statistics

import harness

claim = harness.Claims()

REPLICATION, PIECES = 3, 16
CASES = (  # workers, workers of a rack, probability that a rack is slow, trials
    (40, 10, 0.25, 100),
    (40, 20, 0.5, 100),
    (200, 10, 0.05, 20),
    (200, 20, 0.1, 20),
    (200, 40, 0.2, 20),
)
DEATHS = ((40, 10, 0.1, 100), (40, 20, 0.1, 100), (200, 20, 0.05, 20))


def plan_arguments(workers):
    return ["--workers", workers, "--chunks", workers, "--replication", REPLICATION, "--pieces", PIECES]


def copies_by_rack(assignment, chunks, size):
    """Per chunk: how many copies each rack has, from the lists of chunks by worker."""
    copies = [{} for _ in range(chunks)]
    for worker, held in enumerate(assignment):
        for chunk in held:
            copies[chunk][worker // size] = copies[chunk].get(worker // size, 0) + 1
    return copies


@claim
def racks_spread(bench):
    """Where the copies lie, counted from the lists that `tarry plan --show` prints; each rack is taken away in turn."""
    for workers, size, _, _ in CASES:
        shown = bench.run("plan", *plan_arguments(workers), "--racks", size, "--json", "--show")
        plan = json.loads(shown.stdout)
        copies = copies_by_rack(plan["assignment"], plan["chunks"], size)
        racks = workers // size
        what = f"m = {workers}, racks of {size}, r = {REPLICATION}, P = {PIECES}"
        together = max(max(chunk.values()) for chunk in copies)
        bench.at_most(f"{what}: copies of a chunk in one rack", together, -(-REPLICATION // racks))
        bench.at_most(f"{what}: difference of loads", max(plan["loads"]) - min(plan["loads"]), 1)
        left = min(REPLICATION - chunk.get(rack, 0) for chunk in copies for rack in range(racks))
        bench.at_least(f"{what}: copies left when any one rack dies", left, 2 if racks >= REPLICATION else 1)
        said = plan["racks"]["any_may_die"] and plan["racks"]["copies_left"] == left
        bench.row(f"{what}: tarry plan says so", "yes" if said else "no", "yes", said)


def simulated(bench, workers, spec, trials, *more):
    return bench.report(*plan_arguments(workers), "--scheme", "tarry", "--straggler", spec, "--trials", trials, *more,
                        command="simulate")["results"][0]


@claim
def racks_slow(bench):
    """Racks that are ten times slower in a round."""
    for workers, size, probability, trials in CASES:
        spec = f"rack:{size},10,{probability}"
        known = simulated(bench, workers, spec, trials, "--racks", size)
        unknown = simulated(bench, workers, spec, trials)
        bench.at_most(f"m = {workers}, {spec}, racks known: time / balanced", known["ratio_to_balanced"], 1.05, digits=4)
        gain = statistics.mean(unknown["seconds"]) / statistics.mean(known["seconds"])
        bench.note(f"m = {workers}, {spec}, racks not known: time / balanced; mean time / that with known racks",
                   f"{unknown['ratio_to_balanced']:.3f}; {gain:.2f}")


@claim
def racks_dead(bench):
    """Racks that die within a round: rounds that can't end."""
    for workers, size, probability, trials in DEATHS:
        spec = f"rack:{size},inf,{probability}"
        known = simulated(bench, workers, spec, trials, "--racks", size)["failed"]
        unknown = simulated(bench, workers, spec, trials)["failed"]
        bench.row(f"m = {workers}, {spec}: failed trials of {trials}, racks known and not", f"{known}, {unknown}",
                  "fewer", known < unknown)


if __name__ == "__main__":
    harness.main(claim, __doc__.split("\n")[0])
