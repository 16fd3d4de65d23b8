# SPDX-License-Identifier: Apache-2.0
"""docs/conditioning.md: what the design of the decode matrix reaches, and how large errors come to be."""

import json
import os
import subprocess
import time

import forms
import registry
import runner

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


KINDS = {"logistic, 100 features": ["--model", "logistic", "--rounds", 6],
         "perceptron 100-64-10": ["--model", "perceptron", "--rounds", 6],
         "softmax, 100 features, 40 rounds": ["--model", "softmax", "--rounds", 40]}


def run_on_kinds(tarry, kinds, options):
    """The report of a server with four workers, on OpenBLAS's kernels for these processors in turn."""
    socket, path = (os.path.join(tarry.folder.name, name) for name in ("socket", "kinds.json"))
    server = [tarry.tarry, "serve", "--listen", f"unix:{socket}", "--quiet", "--workers", 4, "--chunks", 8, "--replication", 3,
              "--samples", 2000, "--verify", "--report", path, *options]
    workers = [[tarry.tarry, "work", "--connect", f"unix:{socket}", "--worker", number] for number in range(4)]
    running = [subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                env=dict(os.environ, OPENBLAS_CORETYPE=kinds[number % len(kinds)]))
               for number, command in enumerate([*workers, server])]
    if any([process.wait() for process in running]):
        raise runner.Failed(f"serve {' '.join(map(str, options))}: failed")
    with open(path) as file:
        return json.load(file)


def worst_error(report):
    return forms.short(max(round["verified_squared_error"] for round in report["rounds"]) ** 0.5)


@page.table("kinds", clock=["one kind", "two kinds"])
def kinds_that_meet(tarry):
    """|estimate - sum| over |sum|, the largest of the rounds; it depends on the order in which parts come to be summed."""
    rows = []
    for name, options in KINDS.items():
        for parts in (1, 2, 3):
            alone = run_on_kinds(tarry, ["Haswell"], [*options, "--parts", parts])
            mixed = run_on_kinds(tarry, ["Haswell", "Prescott"], [*options, "--parts", parts])
            rows.append([name, parts, worst_error(alone), worst_error(mixed)])
    return ["model", "parts", "one kind", "two kinds"], rows
