# SPDX-License-Identifier: Apache-2.0
"""docs/plan.md: worst cases, conditioning and doubles of designs, and what is advised."""

import collections
import itertools
import json
import math
import time

import forms
import registry

page = registry.Page("plan")
page.console("advise")


def doubles(tarry, *options):
    """How often two chunks share two workers: cycles of length 4 in the graph of the assignment."""
    shared = collections.Counter()
    for line in tarry.ended_well("plan", "--show", *options).stdout.splitlines():
        if not line.startswith(("#", "-")):
            shared.update(itertools.combinations(sorted(map(int, line.split())), 2))
    return sum(count * (count - 1) // 2 for count in shared.values())


def options_of(design, workers, chunks, replication, pieces=1):
    return ["--design", design, "--workers", workers, "--chunks", chunks, "--replication", replication,
            "--pieces", pieces]


def q_with_bound(tarry, copies, options):
    """Q_l and its bound, of the plan whose order is made for l parts."""
    plan = tarry.plan(*options, "--parts", copies)
    row = plan["q_by_copies"][copies - 1]
    return f"{forms.thousands(row['q'])} ({forms.thousands(row['q_bound'])})"


def worst(tarry, parts, options):
    value = tarry.plan(*options, "--parts", parts)["conditioning"]["worst"]
    return forms.thousands(value) if value >= 1000 else forms.digits(value, 2 if value < 100 else 3)


@page.table("pieces")
def pieces_and_worst_cases(tarry):
    cases = [("random", 1), ("random", 4), ("random", 16), ("cyclic", 16), ("fractional", 16)]
    rows = []
    for design, pieces in cases:
        options = options_of(design, 200, 200, 8, pieces)
        rows.append([design, 8, pieces, *(q_with_bound(tarry, copies, options) for copies in (1, 4)),
                     *(worst(tarry, parts, options) for parts in (2, 4))])
    return ["design", "r", "P", "Q_1", "Q_4", "worst, l = 2", "worst, l = 4"], rows


@page.table("deaths")
def deaths(tarry):
    """How many random deaths are survived on average, beside the closed form of SPARe (arXiv 2603.00357)."""
    rows = []
    for workers, replication in ((200, 3), (200, 9), (600, 8), (600, 20), (1000, 9)):
        figures = [tarry.plan(*options_of(design, workers, workers, replication, pieces), "--order", "as-is")
                   for design, pieces in (("random", 1), ("cyclic", 1), ("fractional", 1), ("random", 16), ("fractional", 16))]
        closed_form = math.gamma(1 / replication) / replication * workers ** (1 - 1 / replication)
        rows.append([workers, replication, forms.digits(closed_form, 3),
                     *(forms.digits(plan["random_deaths_survived"]["mean"], 3) for plan in figures),
                     figures[0]["deaths_survived"]])
    return ["m = N", "r", "SPARe's formula", "`random`, P = 1", "`cyclic`", "`fractional`", "`random`, P = 16",
            "`fractional`, P = 16", "any"], rows


def timed_plan(tarry, *options):
    start = time.monotonic()
    plan = tarry.plan(*options)
    return plan, forms.digits(time.monotonic() - start, 1)


@page.table("orders", clock=["seconds"])
def random_and_optimal_orders(tarry):
    rows = []
    for chunks in (150, 200, 300, 1000):
        options = options_of("random", 200, chunks, 8)
        chance = tarry.plan(*options, "--order", "random")
        plan, seconds = timed_plan(tarry, *options)
        rows.append([200, chunks, 8, *map(forms.thousands, (chance["q"], plan["q"], plan["q_bound"])), seconds])
    return ["m", "N", "r", "random order: Q_1", "optimal: Q_1", "bound", "seconds"], rows


@page.table("large-orders", clock=["seconds"])
def orders_of_large_plans(tarry):
    rows = []
    for workers, chunks, copies in ((5000, 5000, 32), (5000, 4000, 32), (10000, 100000, 4)):
        plan, seconds = timed_plan(tarry, *options_of("random", workers, chunks, copies))
        rows.append([workers, chunks, copies, *map(forms.thousands, (plan["q"], plan["q_bound"])), seconds])
    return ["m", "N", "r", "optimal: Q_1", "bound", "seconds"], rows


@page.table("designs")
def designs_compared(tarry):
    rows = []
    for design in "random", "cyclic":
        options = options_of(design, 200, 200, 8)
        rows.append([design, 200, 200, forms.thousands(doubles(tarry, *options)),
                     *(q_with_bound(tarry, copies, options) for copies in (1, 2, 4)),
                     *(worst(tarry, parts, options) for parts in (2, 4))])
    return ["design", "m", "N", "doubles", "Q_1", "Q_2", "Q_4", "worst, l = 2", "worst, l = 4"], rows


@page.table("overhead")
def advice_by_overhead(tarry):
    rows = []
    for overhead, name in ((0, "0"), (0.005, "5 ms"), (0.02, "20 ms"), (0.1, "100 ms")):
        done = tarry.ended_well("plan", "--advise", "--json", "--workers", 200, "--straggler",
                                "jitter:0.1/run+slow:10,2-10", "--overhead", overhead)
        best = json.loads(done.stdout)["recommended"]
        rows.append([name, best["replication"], best["pieces"], best["keep"], forms.seconds(best["seconds"])])
    return ["overhead of a piece", "recommended: r", "P", "keep", "round"], rows
