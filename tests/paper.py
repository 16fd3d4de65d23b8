#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds bench/paper.py to small cases: its graphs, its least squares, and what counts as a missed limit.

    paper.py SOURCE_ROOT   one line per fault, exit status 1 if there is any; 77 without NumPy
"""

import math
import pathlib
import sys


def graphs():
    """Simple, with eight neighbours for each vertex."""
    for name, vertices in paper.VERTICES.items():
        edges = paper.stored_edges(name)
        if len(set(edges)) != len(edges) or any(not 0 <= one < other < vertices for one, other in edges):
            yield f"{name}: an edge twice, or not of two vertices, the smaller one first"
        if any(len(chunks) != paper.DEGREE for chunks in paper.neighbours(name)):
            yield f"{name}: not {paper.DEGREE} neighbours for each vertex"


def least_squares():
    """Three chunks. One worker has the first two; a second one has the last two, or all."""
    cases = [([], 3), ([[1, 1, 0]], 1), ([[1, 1, 0], [0, 1, 1]], 1 / 3), ([[1, 1, 0], [1, 1, 1]], 0),
             ([[1, 1, 0], [1, 1, 0]], 1)]
    for rows, wanted in cases:
        found = paper.residual(numpy.array(rows, dtype=float).reshape(len(rows), 3))
        if not math.isclose(found, wanted, abs_tol=1e-12):
            yield f"workers {rows}: {found} is left, not {wanted}"


def limits():
    def row(what, theirs, ours, difference, strict):
        return paper.Row(what, 1, theirs, ours, 0.01, difference, "", strict)

    for case, full, quick in [
        (row("time, near", 10, 10.19, 0.001, True), True, False),
        (row("time, far, and maybe by chance", 10, 10.21, 0.1, True), False, True),
        (row("norm, near, and not by chance", 2, 2.03, 0.005, True), False, False),
        (row("norm, near", 2, 2.03, 0.02, True), True, True),
        (row("norm, small, maybe by chance", 0.1, 0.13, 0.01, False), True, True),
        (row("norm, small, not by chance", 0.1, 0.15, 0.01, False), False, False),
        (row("time, of ours alone", None, 1, 0, True), True, True),
    ]:
        for trials, wanted in ((paper.FULL, full), (paper.QUICK, quick)):
            if case.holds(trials) != wanted:
                yield f"{case.what}: {'does not hold' if wanted else 'holds'} with {trials}"


def units():
    times = [1.2, 2.0, 2.7]  # 2, 2 and 3 whole seconds
    row = paper.time_row("case", 1, 2.0, times)
    if not math.isclose(row.ours, 7 / 3) or row.other != "1.967 s":
        yield f"times {times}: {row}"
    norm = paper.norm_row("G1", "partial", 2, 9, [4.0, 16.0], 400)
    if norm.ours != 3 or norm.other != "0.0250" or norm.theirs is not None:
        yield f"squares 4 and 16: {norm}"


def main():
    faults = [fault for check in (graphs, least_squares, limits, units) for fault in check()]
    print("\n".join(faults) or "graphs, least squares, limits and units of the paper's experiments: as they should be")
    return 1 if faults else 0


if __name__ == "__main__":
    try:
        import numpy
    except ImportError:
        print("skipped: no NumPy")
        sys.exit(77)
    sys.path.insert(0, str(pathlib.Path(sys.argv[1]) / "bench"))
    import paper
    sys.exit(main())
