# SPDX-License-Identifier: Apache-2.0
"""docs/conditioning.md: what the design of the decode matrix reaches."""

import re
import time

import forms
import registry

page = registry.Page("conditioning")
page.not_measured("kernels of BLAS chosen by hand, which depend on the machine", "| model, data | kernels | parts |")

CASES = [("random", 8, 3, 2), ("random", 8, 3, 3), ("cyclic", 8, 3, 2), ("cyclic", 8, 3, 3), ("fractional", 9, 3, 2),
         ("fractional", 9, 3, 3), ("random", 16, 8, 4), ("random", 200, 8, 2), ("random", 200, 8, 3), ("random", 200, 8, 4),
         ("random", 200, 8, 8), ("random", 200, 16, 2), ("random", 200, 16, 4), ("random", 1000, 8, 4),
         ("random", 1000, 32, 32), ("random", 5000, 32, 2)]


def plan_seconds(tarry, *options):
    start = time.monotonic()
    plan = tarry.plan(*options)
    return plan, time.monotonic() - start


@page.table("reached", clock=["time"])
def reached(tarry):
    """The time is of a plan with its decode matrix, less that of the same plan with one part."""
    rows = []
    for design, workers, copies, parts in CASES:
        options = ["--design", design, "--workers", workers, "--chunks", workers, "--replication", copies, "--order", "as-is"]
        bare = plan_seconds(tarry, *options)[1]
        plan, seconds = plan_seconds(tarry, *options, "--parts", parts)
        chance = float(tarry.ended("bench/random-columns", "bench", design, workers, copies, parts).stdout)
        found = plan["conditioning"]
        rows.append([design, f"{workers:,}", copies, parts, forms.short(chance), forms.short(found["worst"]),
                     forms.digits(found["median"], 2), forms.thousands(found["subsets"]),
                     forms.seconds(max(seconds - bare, 1e-3))])
    return ["design", "m = N", "copies", "l", "worst, random", "worst", "median", "sets", "time"], rows


TEST = "tests/integration/test-integration-conditioning"
DESIGNED = 10  # beyond it the test has set the columns itself


@page.table("bound", clock=["error"])
def bound(tarry):
    """The worst of each case's rounds; errors depend on the order in which parts come to be summed."""
    worst = {}
    for found in re.findall(r"(\d) parts, 1/sigma_min (\S+): error (\S+), bound (\S+)", tarry.ended(TEST, "tests").stdout):
        parts, (inverse, error, most) = found[0], map(float, found[1:])
        before = worst.get((parts, inverse), (0, 0))
        worst[parts, inverse] = max(before[0], error), max(before[1], most)
    rows = [[parts + ", random design" * (inverse < DESIGNED), *map(forms.short, (inverse, error, most))]
            for (parts, inverse), (error, most) in worst.items()]
    return ["parts", "1/sigma_min", "error", "bound"], rows
