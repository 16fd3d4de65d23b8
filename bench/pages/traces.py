# SPDX-License-Identifier: Apache-2.0
"""docs/traces.md: schemes on recorded traces, where coding begins to pay, and what a deadline drops."""

import dropped
import registry
from pages import experiments

page = registry.Page("traces")

GROUPS = {  # scheme: title, replications that are shown (None: all)
    "uncoded": ("uncoded", None), "ring": ("ring all-reduce", None),
    "dropcompute": ("DropCompute, {seconds} s, {pieces} micro-batches", None),
    "queue": ("shared queue, {pieces} pieces", None), "cyclic": ("original, cyclic", (2, 3, 4)),
    "fractional": ("original, fractional", (2, 3, 4)), "partial": ("partial", (2, 3, 4)),
    "tarry": ("[dynamic order](dynamic.md)", (2, 3)), "tarry in pieces": ("the same, 4 pieces", (2, 3)),
}


def row_of(result, uncoded, best):
    """Copies stored, and the figures of one scheme; the best times of an exact sum are bold."""
    time = result["time"]
    ratio, sd = f"{time['median'] / uncoded:.2f}", time["sd"]
    shown = "1" if result["scheme"] == "uncoded" else f"**{ratio}**" if ratio == best and not result["expected_error"] else ratio
    return [result["stored"], f"{time['median']:.1f}", f"{sd:.1f}" if sd > 1e-9 else "0", shown, f"{result['copies']:.2f}",
            f"{result['expected_error']:.3f}" if result["expected_error"] else "0"]


def times(tarry, name):
    results = experiments.results(tarry, "traces", f"trace-{name}")
    uncoded = next(row for row in results if row["scheme"] == "uncoded")["time"]["median"]
    best = min(row["time"]["median"] for row in results if row["expected_error"] == 0)
    groups = {}
    for result in results:
        scheme = result["scheme"].split(":")[0]
        title, copies = GROUPS[scheme]
        if copies is None or result["replication"] in copies:
            title = title.format(seconds=f"{result['time']['median']:.1f}", pieces=result["pieces"])
            groups.setdefault(title, []).append(row_of(result, uncoded, f"{best / uncoded:.2f}"))
    if groups["original, cyclic"] == groups["original, fractional"]:
        del groups["original, fractional"]
        groups = {title + " and fractional alike" * (title == "original, cyclic"): rows for title, rows in groups.items()}
    rows = [[title * (number == 0), *cells] for title, group in groups.items() for number, cells in enumerate(group)]
    return ["scheme", "r", "median", "sd", "/ uncoded", "copies", "error"], rows


@page.table("slow-worker")
def slow_worker(tarry):
    return times(tarry, "slow_worker")


@page.table("sequence-imbalance")
def sequence_imbalance(tarry):
    return times(tarry, "sequence_imbalance")


FACTORS = (1, 1.25, 1.5, 2, 3, 5, 10)
CODED = "replication=2,3,4"
ROWS = [  # title, name of the scheme, replication
    *((f"partial, r = {r}", "partial", r) for r in (2, 3, 4)), ("dynamic order, r = 2, P = 4", "dynamic", 2),
    ("shared queue, {stored} copies stored, P = {pieces}", "queue", 1),
    ("DropCompute, its own deadline, P = {pieces}", "drop", 1),
    *((f"original, cyclic, r = {r}", "cyclic", r) for r in (2, 3, 4)),
]


@page.table("factors")
def factors(tarry):
    """Time over uncoded, medians, where two of 32 workers are so much slower; and the error of what is not exact."""
    schemes = (f"uncoded,cyclic:name=cyclic,{CODED},partial:name=partial,{CODED},queue:name=queue,pieces=4,"
               "tarry:name=dynamic,replication=2,pieces=4,dropcompute:name=drop")
    columns = [{(row["scheme"], row["replication"]): row for row in
                tarry.results("--workers", 32, "--chunks", 256, "--straggler", f"jitter:0.1+slow:2,{factor}", "--trials", 200,
                              "--scheme", schemes)} for factor in FACTORS]
    rows = []
    for title, *key in ROWS:
        results = [column[tuple(key)] for column in columns]
        rows.append([title.format(**results[0]), *(f"{row['time']['median'] / column['uncoded', 1]['time']['median']:.2f}"
                                                   for row, column in zip(results, columns))])
        if results[0]["expected_error"]:
            rows.append(["its error", *(f"{row['expected_error']:.2f}" for row in results)])
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
