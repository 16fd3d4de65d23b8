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


def main(path, deadline):
    whole, quarter, position, workers = Shares(), Shares(), Shares(), Shares()
    for step in read(path).values():
        rank = {place: i for i, (seconds, place) in enumerate(sorted(
            (seconds, (worker, i)) for worker, chunks in step.items() for i, seconds in enumerate(chunks)))}
        for worker, chunks in step.items():
            now = 0
            for i, seconds in enumerate(chunks):
                now += seconds
                dropped = now > deadline
                whole.add("all chunks", dropped)
                quarter.add(4 * rank[worker, i] // len(rank), dropped)
                position.add(4 * i // len(chunks), dropped)
                workers.add(worker, dropped)
    print("| chunks | dropped |\n| --- | --- |")
    rows = whole.items()
    rows += zip(("lightest quarter", "second", "third", "heaviest quarter"), (share for _, share in quarter.items()))
    rows += zip(("first quarter of a worker's order", "second", "third", "last quarter"),
                (share for _, share in position.items()))
    for name, share in rows:
        print(f"| {name} | {share:.1%} |")
    shares = workers.items()
    if len(shares) <= 8:
        for worker, share in shares:
            print(f"| worker {worker} | {share:.1%} |")
    else:
        least, most = min(shares, key=lambda row: row[1]), max(shares, key=lambda row: row[1])
        print(f"| worker {least[0]}, the least | {least[1]:.1%} |\n| worker {most[0]}, the most | {most[1]:.1%} |")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], float(sys.argv[2]))
