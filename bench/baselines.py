#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs what the documentation claims of other schemes in their best form and prints it beside its limit.

Usage: bench/baselines.py TARRY [DATA] [--only NAME]

TARRY is the binary (an optimised build), DATA the folder with traces/; claims that need data are skipped where it is missing.
bench/claims.py runs these claims with all others. The exit status is 1 if a limit is missed.
"""

import math
import statistics

import harness
import regimes
import runner
from dynamic import BOUNDLESS, PIECES, SPECS

claim = harness.Claims()

MILD = SPECS[0][1]
EULER = 0.5772156649
MEAN_SECONDS = 1.27247  # of a chunk of sequence_imbalance.csv
CARD = 1.25e9  # 10 Gb/s, in bytes


def median_ratio(rows, others):
    """The median of paired times."""
    return statistics.median(a / b for a, b in zip(rows["seconds"], others["seconds"]))


@claim
def baselines_at_once(bench):
    """Without links it does not matter when a worker uploads; with them the signal costs two latencies."""
    names = ("uncoded", "cyclic", "fractional", "ignore-stragglers")
    schemes = ",".join(f"{name},{name}:upload=coded" for name in names)
    for latency in (0, 0.1):
        rows = bench.results("--trials", 50, "--latency", latency, "--scheme", schemes)
        for name, once, asked in zip(names, rows[::2], rows[1::2]):
            gain = max(abs(b - a - 2 * latency) for a, b in zip(once["seconds"], asked["seconds"]))
            bench.at_most(f"{name}, latency {latency} s: seconds saved by uploading at once, beyond two latencies", gain, 1e-6)


def effective_speedup(tau, deviation, workers):
    """Giladi et al., section 4.2, for Gaussian micro-batches of 1 / 16 s: share finished by tau, and the speedup."""
    normal, mu = statistics.NormalDist(), 1 / PIECES
    share = sum(normal.cdf((tau - m * mu) / (math.sqrt(m) * deviation * mu)) for m in range(1, PIECES + 1)) / PIECES
    spread = (1 - EULER) * normal.inv_cdf(1 - 1 / workers) + EULER * normal.inv_cdf(1 - 1 / (math.e * workers))
    longest = 1 + math.sqrt(PIECES) * deviation * mu * spread
    return share, share * longest / min(tau, longest)


@claim
def baselines_dropcompute(bench):
    """DropCompute at the deadline that it finds, beside its closed form; and what micro-batches are worth."""
    for deviation in (0.1, 0.3):
        drop, waits = bench.results("--trials", 100, "--straggler", f"jitter:{deviation}/chunk", "--scheme",
                                       "dropcompute,dropcompute:deadline=1e6")
        deadline = drop["time"]["median"]
        share, speedup = effective_speedup(deadline, deviation, 200)
        best = max(effective_speedup(0.5 + i / 1000, deviation, 200)[1] for i in range(1500))
        measured = (1 - drop["expected_error"]) * waits["time"]["mean"] / drop["time"]["mean"]
        what = f"DropCompute, m = 200, 16 Gaussian micro-batches, sd {deviation}"
        bench.note(f"{what}: deadline, share finished, effective speedup",
                   f"{deadline:.3f} s, {1 - drop['expected_error']:.4f}, {measured:.4f}")
        bench.at_most(f"{what}: share / that of the closed form, off by", abs((1 - drop["expected_error"]) / share - 1), 0.02)
        bench.at_most(f"{what}: effective speedup / that of the closed form, off by", abs(measured / speedup - 1), 0.02)
        bench.at_most(f"{what}: / the best of the closed form, off by", abs(measured / best - 1), 0.02)
    whole, small = bench.results("--trials", 50, "--straggler", MILD, "--scheme",
                             "dropcompute:deadline=1.05,pieces=1,dropcompute:deadline=1.05")
    bench.note("DropCompute, mild, m = 200, 1.05 s: error with 1 and with 16 pieces per chunk",
               f"{whole['expected_error']:.3f}, {small['expected_error']:.3f}")


def queues(bench):
    """A dynamic order with three copies, the queue, without backups, with smaller pieces, and uncoded: (name, results)."""
    for name, spec in [(name, spec) for name, spec, _, _ in (*SPECS, BOUNDLESS)]:
        yield name, bench.results("--trials", 50, "--replication", 3, "--pieces", PIECES, "--straggler", spec, "--scheme",
                                  "tarry,queue,queue:name=alone,backup=no,queue:name=small,pieces=64,uncoded")


@claim
def baselines_queue(bench):
    """All data everywhere, and the next piece to whoever is free, beside three copies in a dynamic order."""
    for name, rows in queues(bench):
        tarry, queue, _, small, uncoded = rows
        bench.note(f"{name}, m = 200: time / balanced of Tarry (3 copies stored, P = 16), of the queue (200 copies, P = 16), "
                   "without backups, with P = 64", ", ".join(f"{row['ratio_to_balanced']:.3f}" for row in rows[:4]))
        bench.at_most(f"{name}: time / balanced of the queue", queue["ratio_to_balanced"], 1.035, digits=4)
        bench.note(f"{name}: Tarry / queue with P = 64, Tarry / uncoded",
                   ", ".join(f"{median_ratio(tarry, row):.3f}" for row in (small, uncoded)))
        ratio = median_ratio(tarry, queue)
        if name == BOUNDLESS[0]:
            bench.note(f"{name}: Tarry / queue (Tarry loses)", f"{ratio:.3f}")
        else:
            bench.at_most(f"{name}: Tarry / queue (Tarry is behind)", ratio, 1.01, digits=4)


def links(tarry):
    """No stragglers, d = 1e7, m = 33, 10 Gb/s for each link and for the server's card, parameters too: results by column."""
    job = ["--workers", 33, "--chunks", 33, "--replication", 3, "--trials", 3, "--straggler", "none", "--dimension", 10**7,
           "--bandwidth", CARD, "--silence", 1000]
    schemes = f"uncoded,ring,queue,queue:name=alone,backup=no,tarry:pieces={PIECES},tarry,cyclic"
    return {what: tarry.results(*job, *card, "--scheme", schemes)
            for what, card in (("the card counted", ["--server-bandwidth", CARD]), ("links alone", []))}


@claim
def baselines_links(bench):
    """What links cost where nobody is slow."""
    for what, rows in links(bench).items():
        for row in rows:
            bench.note(f"links, {what}: {row['scheme']}, r = {row['stored']}, P = {row['pieces']}: seconds",
                       f"{row['time']['median']:.2f}")
        expected = 1 + 2 * 32 * 4 * math.ceil(1e7 / 33) / CARD
        ring = rows[1]["time"]["median"]
        bench.at_most(f"links, {what}: ring - its formula, seconds", abs(ring - expected), 1e-6)
    bench.note("of the ring's time for links", f"{ring - 1:.3f} s")


@claim
def baselines_sums(bench):
    """With links counted: Tarry everywhere against an uncoded ring."""
    for case in regimes.sum_cases(bench):
        for when, (_, _, _, ring, _, everywhere) in ("first", case.first), ("third", case.third):
            what = f"{case.what}, {when} round"
            bench.at_most(f"{what}: everywhere / uncoded ring", everywhere / ring, 1 if case.slow else 1.05, digits=4)


def recorded(tarry):
    """Recorded clusters, with DropCompute given the time of partial with r = 2: (trace, deadline, results)."""
    uneven, slow = tarry.needed("traces/sequence_imbalance.csv"), tarry.needed("traces/slow_worker.csv")
    cases = (("slow_worker", ["--workers", 4, "--chunks", 128, "--trials", 44, "--straggler", f"trace:{slow}"], 89.7),
             ("sequence_imbalance", ["--workers", 32, "--chunks", 256, "--trials", 45, "--straggler", "none",
                                     "--chunk-cost", f"trace:{uneven}", "--chunk-time", MEAN_SECONDS], 12.1))
    for name, job, deadline in cases:
        schemes = (f"uncoded,ring,dropcompute:name=dropcompute,deadline={deadline},queue:pieces=4,"
                   "partial:replication=2,tarry:replication=2,tarry:replication=3,pieces=4,"
                   "tarry:replication=3,pieces=4,costs=known")
        yield name, deadline, tarry.results(*job, "--scheme", schemes)


@claim
def baselines_traces(bench):
    """Recorded clusters, with baselines at their best."""
    try:
        cases = list(recorded(bench))
    except runner.Missing:
        return bench.skip("recorded traces, baselines at their best", "no data")
    for name, _, rows in cases:
        for row in rows:
            bench.note(f"{name}: {row['scheme']}, {row['stored']} stored, P = {row['pieces']}: seconds, / uncoded, / balanced, "
                       "copies computed, error",
                       f"{row['time']['median']:.1f}, {median_ratio(row, rows[0]):.3f}, {row['ratio_to_balanced']:.3f}, "
                       f"{row['copies']:.2f}, {row['expected_error']:.3f}")


if __name__ == "__main__":
    harness.main(claim, __doc__.split("\n")[0])
