# SPDX-License-Identifier: Apache-2.0
"""docs/evolution.md: moves that plans need, and plans that follow what the server learns beside plans that stay."""

import registry

page = registry.Page("evolution")
page.not_measured("an example, whose times are the clock's", "$ tarry train --chunks 8 --pieces 8")

TEST = "tests/unit/test-plan"
SLOWNESS_NAMES = {"pareto 1.5": "Pareto 1.5"}


def printed(tarry, words):
    """The lines of the test's output with so many words, as lists; names that hold blanks count as one."""
    lines = tarry.ended(TEST, "tests", "evolve_slowness").stdout.splitlines()
    for blank in ("fifth slow", "rack slow", "tenth gone", "1 + exp", "pareto 1.5"):
        lines = [line.replace(blank, blank.replace(" ", "_")) for line in lines]
    rows = [line.split() for line in lines if line.strip()[:1].isdigit()]
    return [row for row in rows if len(row) == words]


def ratio(text):
    return "infinite" if text == "inf" else text


@page.table("moves")
def moves(tarry):
    """Jitter alone, for which nothing moves, is left out; of the large plans so is what moves nothing."""
    rows = []
    for workers, chunks, copies, design, slowness, before, after, moved, least, share in printed(tarry, 10):
        slowness = slowness.replace("_", " ")
        if slowness != "jitter" and (moved != "0" or int(workers) < 2000):
            rows.append([workers, chunks, copies, design, SLOWNESS_NAMES.get(slowness, slowness), ratio(before), after,
                         moved, least, share])
    return ["m", "N", "r", "design", "slowness", "before", "after", "moves", "least", "share"], rows


@page.table("weather")
def weather(tarry):
    rows = printed(tarry, 8)
    return ["r", "design", "before: mean", "worst", "after: mean", "worst", "moves", "largest load"], rows


# Over rounds.

FROM = 10  # rounds before are left out: much is still being learned
SCHEMES = "tarry:name=stays,tarry:adapt=1,name=adapts,tarry:adapt=1,0.05,name=adapts more"
CLUSTER = ["--rounds", 40, "--replication", 2]
OTHERS = "uncoded,queue"  # at their best
MIDDLE = "m = 40, P = 8", ["--workers", 40, "--chunks", 40, "--trials", 20, "--pieces", 8]
LARGE = "m = 200, P = 16", ["--workers", 200, "--chunks", 200, "--trials", 5, "--pieces", 16]
FEW = "m = 40, P = 4", [*MIDDLE[1][:-1], 4]
SLOWNESS = [(MIDDLE, "markov:0.05,0.1,8", "random"), (LARGE, "markov:0.05,0.1,8", "random"),
            (LARGE, "markov:0.01,0.04,10", "random"), (MIDDLE, "rack:10,8,0.3", "random"),
            (MIDDLE, "rack:10,8,0.3", "cyclic")]
COSTS = [(FEW, "none", "jitter:0.1"), (MIDDLE, "none", "jitter:0.1"),
         (FEW, "1 + exp", "shifted-exp:1,1/run+jitter:0.1"), (MIDDLE, "1 + exp", "shifted-exp:1,1/run+jitter:0.1")]


def mean(result, key):
    rounds = result["rounds"][FROM:]
    return sum(row[key] for row in rounds) / len(rounds)


def ratios(results):
    return [f"{mean(result, 'ratio_to_balanced'):.2f}" for result in results]


def others(tarry, *options):
    """What has one copy of the data, and what has all of it everywhere, on the same draws."""
    return ratios(tarry.results(*CLUSTER, *options, "--scheme", OTHERS))


@page.table("slowness")
def slowness(tarry):
    rows = []
    for (sizes, options), spec, design in SLOWNESS:
        job = [*options, "--straggler", f"{spec}+jitter:0.1", "--design", design]
        results = tarry.results(*CLUSTER, *job, "--scheme", SCHEMES)
        moved = [f"{mean(result, 'moved'):.1f} ({100 * mean(result, 'moved_share'):.2f}%)" for result in results[1:]]
        rows.append([sizes, f"{spec}, {design}", *ratios(results), *others(tarry, *job), *moved])
    return ["sizes", "slowness, design", "stays", "adapt=1", "adapt=1,0.05", "uncoded", "queue", "moved: adapt=1",
            "adapt=1,0.05"], rows


@page.table("costs")
def costs(tarry):
    rows = []
    for (sizes, options), name, spec in COSTS:
        job = [*options, "--straggler", spec, "--chunk-cost", "lognormal:1.5/run"]
        results = tarry.results(*CLUSTER, *job, "--scheme", SCHEMES)
        changes = [f"{results[1][key]:.1f}" for key in ("split", "merged", "moved")]
        rows.append([sizes, name, *ratios(results), *others(tarry, *job), *changes])
    return ["sizes", "slowness", "stays", "adapt=1", "adapt=1,0.05", "uncoded", "queue", "split", "merged", "moved"], rows
