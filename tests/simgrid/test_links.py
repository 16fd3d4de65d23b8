# SPDX-License-Identifier: Apache-2.0
"""Holds the simulator's links to SimGrid's: test_links.py [OURS EXCHANGES [MEMBERS ...]]; prints a table.

Members: 64 without any; also 256 with TARRY_TEST_LONG; 1024 takes half an hour. docs/simulator.md has the figures."""

import os
import subprocess
import sys

SKIPPED = 77
WAYS = ["star", "ring", "direct"]
THIN = 2  # a card of half the bandwidth, of the star's center, anybody else
MOST = {1: 0.02, THIN: 0.1}  # by which the two may differ
BYTES = 4 * 10**7
MOST_SECONDS = 3600


def exchange(way, members):
    """The bytes of a gradient, and over how many connections a member sends at a time."""
    if members < 1024 or way != "direct":
        return BYTES, members
    # SimGrid takes hours over a million connections at a time. With 16 at a time a latency in 16 slices shows, unless
    # slices are as long as those of 64 members.
    return BYTES * members // 64, 16


def seconds(program, way, members, thin, connections=()):
    size, _ = exchange(way, members)
    arguments = [program, way, members, size, thin, *connections]
    done = subprocess.run([str(one) for one in arguments], capture_output=True, text=True, check=True,
                          timeout=MOST_SECONDS)
    return float(done.stdout.split()[-1])


def tried(way, members, thin):
    """Not the direct exchange of 1,024 with a thin card: each of two million messages ends at its own time then."""
    return not (way == "direct" and members == 1024 and thin != 1)


def compare(ours, theirs, members, thin):
    """The times of both by way, of a gradient of BYTES."""
    times = {}
    for way in WAYS:
        if not tried(way, members, thin):
            print(f"| {members} | {way} | {thin} | not tried | | |")
            continue
        size, connections = exchange(way, members)
        own = seconds(ours, way, members, thin)
        other = seconds(theirs, way, members, thin, [connections])
        print(f"| {members} | {way} | {thin} | {own:.5f} | {other:.5f} | {own / other:.3f} |", flush=True)
        times[way] = (own * BYTES / size, other * BYTES / size)
    return times


def too_far(times, most):
    return [way for way, (own, other) in times.items() if abs(own / other - 1) > most]


def in_order(times):
    """Whether all that differ by more than 1 % in both come in the same order."""
    pairs = [(a, b) for a in times for b in times]
    return all((times[a][0] < times[b][0]) == (times[a][1] < times[b][1]) for a, b in pairs
               if min(abs(times[a][i] / times[b][i] - 1) for i in (0, 1)) > 0.01)


def main():
    if len(sys.argv) < 3:
        print("skipped: SimGrid (libsimgrid-dev) or a C++ compiler is missing")
        return SKIPPED
    ours, theirs, *told = sys.argv[1:]
    usual = [64, 256] if os.environ.get("TARRY_TEST_LONG") else [64]
    wrong = []
    print("| members | way | thin | ours, s | SimGrid, s | ratio |")
    for members in [int(one) for one in told] or usual:
        for thin, most in MOST.items():
            times = compare(ours, theirs, members, thin)
            wrong += [f"{way} of {members}, a card of 1/{thin}" for way in too_far(times, most)]
            if not in_order(times):
                wrong.append(f"the order of {members}, a card of 1/{thin}")
    if wrong:
        print("too far from SimGrid:", ", ".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
