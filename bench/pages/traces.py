# SPDX-License-Identifier: Apache-2.0
"""docs/traces.md: schemes on recorded traces, where coding begins to pay, and what a deadline drops."""

import dropped
import forms
import registry
from pages import experiments

page = registry.Page("traces")

NAMES = {"cyclic": "original, cyclic", "fractional": "original, fractional", "partial": "**partial**"}


def row_of(result, uncoded, best):
    """Replication, and the figures of one scheme; the best time of an exact sum is bold."""
    time = result["time"]
    median, ratio = f"{time['median']:.1f}", f"{time['median'] / uncoded:.2f}"
    if result is best:
        median, ratio = f"**{median}**", f"**{ratio}**"
    sd = time["sd"]
    return [result["replication"], median, f"{sd:.1f}" if sd > 1e-9 else "0", "1" if result["scheme"] == "uncoded" else ratio,
            f"{result['copies']:.2f}", forms.short(result["expected_error"])]


def times(tarry, name):
    results = experiments.results(tarry, "traces", f"trace-{name}")
    uncoded = next(row for row in results if row["scheme"] == "uncoded")["time"]["median"]
    best = min((row for row in results if row["expected_error"] == 0), key=lambda row: row["time"]["median"])
    schemes = {}
    for result in results:
        scheme = result["scheme"].split(":")[0]
        if result["replication"] > 1 or scheme in ("uncoded", "dropcompute"):
            schemes.setdefault(scheme, []).append(row_of(result, uncoded, best))
    titles = dict(NAMES, dropcompute=f"DropCompute, {schemes['dropcompute'][0][1]} s")
    if schemes["cyclic"] == schemes["fractional"]:
        del schemes["fractional"]
        titles["cyclic"] = "original, cyclic and fractional alike"
    rows = [[titles.get(scheme, scheme) * (number == 0), *cells] for scheme, group in schemes.items()
            for number, cells in enumerate(group)]
    return ["scheme", "r", "median", "sd", "/ uncoded", "copies", "error"], rows


@page.table("slow-worker")
def slow_worker(tarry):
    return times(tarry, "slow_worker")


@page.table("sequence-imbalance")
def sequence_imbalance(tarry):
    return times(tarry, "sequence_imbalance")


FACTORS = (1, 1.25, 1.5, 2, 3, 5, 10)


@page.table("factors")
def factors(tarry):
    """Time over uncoded, medians, where two of 32 workers are so much slower."""
    ratios = {}
    for factor in FACTORS:
        results = tarry.results("--workers", 32, "--chunks", 256, "--straggler", f"jitter:0.1+slow:2,{factor}",
                                "--replication", "1,2,3,4", "--trials", 200, "--scheme", "uncoded,cyclic,partial")
        uncoded = next(row for row in results if row["scheme"] == "uncoded")["time"]["median"]
        for row in results:
            ratios.setdefault((row["scheme"], row["replication"]), []).append(row["time"]["median"] / uncoded)
    rows = [[f"{name}, r = {copies}", *(f"{ratio:.2f}" for ratio in ratios[scheme, copies])]
            for scheme, name in (("partial", "partial"), ("cyclic", "original, cyclic")) for copies in (2, 3, 4)]
    return ["F", *FACTORS], rows


@page.table("dropped")
def what_is_dropped(tarry):
    """Shares of the chunks that a deadline drops: of all, by weight, by position and by worker."""
    cases = [("slow_worker", 80), ("slow_worker", 89.7), ("sequence_imbalance", 9), ("sequence_imbalance", 10.2),
             ("sequence_imbalance", 12.1)]
    columns, before = [], None
    for trace, deadline in cases:
        whole, weights, positions, workers = dropped.dropped(tarry.needed(f"traces/{trace}.csv"), deadline)
        shares = [share for _, share in workers]
        first_half = (positions[0] + positions[1]) / 2
        cells = [whole, *weights, first_half, *positions[2:], min(shares), max(shares)]
        title = f"{deadline} s" if trace == before else f"{trace}, {deadline} s"
        columns.append([title, *("0%" if share == 0 else f"{share:.1%}" for share in cells)])
        before = trace
    names = ["", "all chunks", "lightest quarter of each step's chunks", "second", "third", "heaviest quarter",
             "first half of a worker's order", "third quarter", "last quarter", "worker with the least",
             "worker with the most"]
    header, *rows = [list(row) for row in zip(names, *columns)]
    return header, rows
