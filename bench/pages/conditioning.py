# SPDX-License-Identifier: Apache-2.0
"""docs/conditioning.md: what the design of the decode matrix reaches."""

import time

import forms
import registry

page = registry.Page("conditioning")

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
