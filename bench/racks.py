#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs what docs/plan.md and docs/stragglers.md claim of racks and prints it beside its limit, as a Markdown table.

Usage: bench/racks.py TARRY [DATA] [--only NAME]

TARRY is the binary (an optimised build). bench/claims.py runs these claims with all others, and
bench/pages/stragglers.py makes the page's table of the same measurement. The exit status is 1 if a limit is missed.
"""

import json
import statistics
import types

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


def known_and_not(tarry, workers, size, slowness, trials):
    """Simulations with racks that the plan knows and with racks that it does not, on the same draws."""
    job = [*plan_arguments(workers), "--scheme", "tarry", "--straggler", slowness, "--trials", trials]
    return tarry.results(*job, "--racks", size)[0], tarry.results(*job)[0]


def slow(tarry):
    """Racks that are ten times slower in a round: cases."""
    for workers, size, probability, trials in CASES:
        spec = f"rack:{size},10,{probability}"
        known, unknown = known_and_not(tarry, workers, size, spec, trials)
        yield types.SimpleNamespace(workers=workers, spec=spec, trials=trials, known=known["ratio_to_balanced"],
                                    unknown=unknown["ratio_to_balanced"],
                                    gain=statistics.mean(unknown["seconds"]) / statistics.mean(known["seconds"]))


@claim
def racks_slow(bench):
    """Racks that are ten times slower in a round."""
    for of in slow(bench):
        bench.at_most(f"m = {of.workers}, {of.spec}, racks known: time / balanced", of.known, 1.05, digits=4)
        bench.note(f"m = {of.workers}, {of.spec}, racks not known: time / balanced; mean time / that with known racks",
                   f"{of.unknown:.3f}; {of.gain:.2f}")


@claim
def racks_dead(bench):
    """Racks that die within a round: rounds that can't end."""
    for workers, size, probability, trials in DEATHS:
        spec = f"rack:{size},inf,{probability}"
        known, unknown = (row["failed"] for row in known_and_not(bench, workers, size, spec, trials))
        bench.row(f"m = {workers}, {spec}: failed trials of {trials}, racks known and not", f"{known}, {unknown}",
                  "fewer", known < unknown)


if __name__ == "__main__":
    harness.main(claim, __doc__.split("\n")[0])
