#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which chunks of a recorded trace a deadline drops: what DropCompute leaves out of its gradient.

Usage: bench/dropped.py TRACE DEADLINE

In each step every worker computes its chunks in their order, once, and what it has not finished DEADLINE seconds after the
step began is dropped. Prints the dropped share of all chunks; by how long they take (quarters of each step's chunks); by
position in the worker's order; and by worker. An unbiased selection would drop the same share of each.
"""

import collections
import csv
import sys

import markdown


def read(path):
    """steps[step][worker] = seconds of its chunks, in order."""
    steps = collections.defaultdict(lambda: collections.defaultdict(list))
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            steps[int(row["step"])][int(row["worker"])].append(float(row["seconds"]))
    return steps


class Shares:
    def __init__(self):
        self.count = collections.Counter()
        self.dropped = collections.Counter()

    def add(self, key, dropped):
        self.count[key] += 1
        self.dropped[key] += dropped

    def items(self):
        return [(key, self.dropped[key] / self.count[key]) for key in sorted(self.count)]


QUARTERS = ("first", "second", "third", "last")
WEIGHTS = ("lightest", "second", "third", "heaviest")


def dropped(path, deadline):
    """The dropped share of all chunks, by weight, by position (a list of four each), and by worker (pairs)."""
    whole, quarter, position, workers = Shares(), Shares(), Shares(), Shares()
    for step in read(path).values():
        rank = {place: i for i, (seconds, place) in enumerate(sorted(
            (seconds, (worker, i)) for worker, chunks in step.items() for i, seconds in enumerate(chunks)))}
        for worker, chunks in step.items():
            now = 0
            for i, seconds in enumerate(chunks):
                now += seconds
                late = now > deadline
                whole.add("all chunks", late)
                quarter.add(4 * rank[worker, i] // len(rank), late)
                position.add(4 * i // len(chunks), late)
                workers.add(worker, late)
    shares = [[share for _, share in of.items()] for of in (whole, quarter, position)]
    return shares[0][0], shares[1], shares[2], workers.items()


def main(path, deadline):
    whole, weights, positions, workers = dropped(path, deadline)
    rows = [("all chunks", whole)]
    rows += [(f"{name} quarter of each step's chunks", share) for name, share in zip(WEIGHTS, weights)]
    rows += [(f"{name} quarter of a worker's order", share) for name, share in zip(QUARTERS, positions)]
    if len(workers) <= 8:
        rows += [(f"worker {worker}", share) for worker, share in workers]
    else:
        rows += [(f"worker {worker}, the {name}", share) for name, (worker, share) in
                 (("least", min(workers, key=lambda row: row[1])), ("most", max(workers, key=lambda row: row[1])))]
    print("\n".join(markdown.table(["chunks", "dropped"], [[name, f"{share:.1%}"] for name, share in rows])))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], float(sys.argv[2]))
