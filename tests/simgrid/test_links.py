# SPDX-License-Identifier: Apache-2.0
"""Holds the simulator's links to SimGrid's: test_links.py [OURS EXCHANGES]; docs/simulator.md has the figures."""

import os
import subprocess
import sys

SKIPPED = 77
ROWS = {64: 8, 256: 16}
BYTES = 4 * 10**7
EVEN = ["star", "ring", "direct", "grid"]
# A card of half the bandwidth. Not grids: messages of two stages meet at that card.
THIN = ["star", "ring", "direct"]


def seconds(program, way, members, thin):
    done = subprocess.run([program, way, str(members), str(BYTES), str(ROWS[members]), str(thin)], capture_output=True,
                          text=True, check=True, timeout=120)
    return float(done.stdout.split()[-1])


def compare(ours, theirs, members, ways, thin, share):
    """The times of both by way; who differ by more than `share`."""
    times = {way: (seconds(ours, way, members, thin), seconds(theirs, way, members, thin)) for way in ways}
    for way, (own, other) in times.items():
        print(f"{members} members, {way}, a card of 1/{thin}: {own:.6f} s, SimGrid {other:.6f} s")
    return times, [way for way, (own, other) in times.items() if abs(own / other - 1) > share]


def in_order(times):
    """Whether all that differ by more than 1 % in both come in the same order."""
    pairs = [(a, b) for a in times for b in times]
    return all((times[a][0] < times[b][0]) == (times[a][1] < times[b][1]) for a, b in pairs
               if min(abs(times[a][i] / times[b][i] - 1) for i in (0, 1)) > 0.01)


def main():
    if len(sys.argv) != 3:
        print("skipped: SimGrid (libsimgrid-dev) or a C++ compiler is missing")
        return SKIPPED
    ours, theirs = sys.argv[1:]
    failed = []
    times, wrong = compare(ours, theirs, 64, EVEN, 1, 0.02)
    failed += wrong
    trees, wrong = compare(ours, theirs, 64, ["tree"], 1, 0.25)
    failed += wrong
    if not in_order(times | trees):
        failed.append("order")
    failed += compare(ours, theirs, 64, THIN, 2, 0.1)[1]
    if os.environ.get("TARRY_TEST_LONG"):
        failed += compare(ours, theirs, 256, EVEN, 1, 0.02)[1]
    if failed:
        print("too far from SimGrid:", ", ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
