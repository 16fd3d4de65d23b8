#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs what docs/dynamic.md claims of dynamic orders and prints it beside its limit, as a Markdown table.

Usage: bench/dynamic.py TARRY [DATA] [--only NAME]

TARRY is the binary (an optimised build), DATA the folder with traces/; claims that need data are skipped where it is missing.
bench/claims.py runs these claims with all others, and bench/pages/dynamic.py makes the page's tables of the same
measurements. The exit status is 1 if a limit is missed.
"""

import os
import random
import statistics
import types

import harness
import runner

claim = harness.Claims()

PIECES = 16
ROUNDS = 12
LEARNED = 9  # the tenth round
LARGE = 1000  # seconds of silence: no probes
SPECS = (  # name, SPEC, the SPEC with speeds that last, limits of first and learned by replication
    ("mild", "jitter:0.1+slow:10,2-10", "jitter:0.1/run+slow:10,2-10", {3: (1.12, 1.05), 8: (1.06, 1.04)}),
    ("shifted-exp:1,1", "shifted-exp:1,1", "shifted-exp:1,1/run", {3: (1.10, 1.05), 8: (1.05, 1.04)}),
    ("pareto:1,1.5", "pareto:1,1.5", "pareto:1,1.5/run", {3: (1.12, 1.05), 8: (1.06, 1.04)}),
)
MILD = SPECS[0][1]
# A few workers are many times quicker than all others: no limits, as matched is beyond 3 times balanced there.
BOUNDLESS = ("exp:1", "exp:1", "exp:1/run", None)


def case(**values):
    return types.SimpleNamespace(**values)


def ratio_row(bench, what, ratio, limit):
    bench.at_most(f"{what}: time / balanced", ratio, limit, digits=4)


def balance(tarry):
    """Time over balance in the first round and the worst from the tenth on: (name, cases by replication)."""
    for name, spec, lasting, limits in (*SPECS, BOUNDLESS):
        job = ["--trials", 50, "--replication", "3,8", "--pieces", PIECES, "--scheme", "tarry"]
        firsts = tarry.results(*job, "--straggler", spec)
        learned = [row["rounds"][LEARNED:] for row in tarry.results(*job, "--straggler", lasting, "--rounds", ROUNDS)]
        yield name, [case(replication=first["replication"], limits=limits and limits[first["replication"]],
                          first=first["ratio_to_balanced"], learned=max(row["ratio_to_balanced"] for row in rounds),
                          matched=(first["ratio_to_matched"], max(row["ratio_to_matched"] for row in rounds)),
                          copies=max(first["copies"], *(row["copies"] for row in rounds)), seconds=first["seconds"])
                     for first, rounds in zip(firsts, learned)]


@claim
def dynamic_balance(bench):
    """Time over balance in the first round and from the tenth on, and the static order at replication 8."""
    specs = {name: spec for name, spec, _, _ in SPECS}
    for name, cases in balance(bench):
        for of in cases:
            what = f"{name}, r = {of.replication}"
            for when, ratio, at in ("first", of.first, 0), ("learned", of.learned, 1):
                if of.limits:
                    ratio_row(bench, f"{what}, {when}", ratio, of.limits[at])
                else:
                    bench.note(f"{what}, {when}: time / balanced", f"{ratio:.4g}")
            bench.note(f"{what}, first, learned: time / matched", f"{of.matched[0]:.3f}, {of.matched[1]:.3f}")
            bench.at_most(f"{what}: copies per piece", of.copies, 1.02)
        if name not in specs:
            continue
        static = bench.results("--trials", 50, "--scheme", "partial", "--straggler", specs[name])[0]
        gain = statistics.median(slow / fast for slow, fast in zip(static["seconds"], cases[0].seconds))
        bench.note(f"{name}, static order, r = 8: time / balanced", f"{static['ratio_to_balanced']:.3g}")
        bench.at_least(f"{name}: time of the static order, r = 8 / dynamic, r = 3, first", gain, 2)


def recorded(tarry):
    """Recorded clusters: cases with the time over balanced and its limit (None: what it is compared with)."""
    uneven, slow = tarry.needed("traces/sequence_imbalance.csv"), tarry.needed("traces/slow_worker.csv")
    job = ["--workers", 32, "--chunks", 256, "--trials", 45]
    costs = ["--straggler", "none", "--chunk-cost", f"trace:{uneven}"]
    uncoded = tarry.results(*job, *costs, "--scheme", "uncoded")[0]
    yield case(trace="sequence_imbalance", what="uncoded", ratio=uncoded["ratio_to_balanced"], limit=None)
    for known, limit in (("equal", 1.12), ("known", 1.06)):
        for row in tarry.results(*job, *costs, "--replication", 3, "--pieces", "1,2,4", "--scheme", f"tarry:costs={known}"):
            what = f"r = 3, P = {row['pieces']}, costs {'known' if known == 'known' else 'unknown'}"
            held = limit if row["pieces"] > 1 or known == "known" else None
            yield case(trace="sequence_imbalance", what=what, ratio=row["ratio_to_balanced"], limit=held)
    row = tarry.results("--workers", 4, "--chunks", 128, "--trials", 44, "--replication", 2, "--scheme", "tarry",
                        "--straggler", f"trace:{slow}")[0]
    yield case(trace="slow_worker", what="r = 2, P = 1", ratio=row["ratio_to_balanced"], limit=1.06)


@claim
def dynamic_traces(bench):
    """Recorded clusters."""
    try:
        cases = list(recorded(bench))
    except runner.Missing:
        return bench.skip("recorded traces, dynamic order", "no data")
    for of in cases:
        what = f"{of.trace}, {of.what}"
        if of.limit is None:
            bench.note(f"{what}: time / balanced", f"{of.ratio:.3f}")
        else:
            ratio_row(bench, what, of.ratio, of.limit)


@claim
def dynamic_delay(bench):
    """Reports that take 1 % of a piece's time, and of a chunk's."""
    job = ["--trials", 50, "--replication", 3, "--pieces", PIECES, "--scheme", "tarry", "--straggler", MILD]
    none, piece, chunk = (bench.results(*job, "--latency", latency)[0]["ratio_to_balanced"]
                          for latency in (0, 0.01 / PIECES, 0.01))
    bench.at_most("mild, r = 3: messages take 1 % of a piece's time, change of time / balanced", abs(piece - none), 0.02)
    bench.note("the same, 1 % of a chunk's time (16 % of a piece's)", f"{chunk - none:.2g}")


def static_bytes(workers, pieces, replication, copies):
    """ROUND, SIGNAL and FINISH to each worker and a REPORT per copy: 24 bytes each, and psi and stripes in SIGNAL."""
    load = pieces * replication // workers
    return 24 * (3 * workers + copies * pieces) + workers * ((load * replication + 7) // 8 + 1)


def traffic(tarry):
    """Control messages and bytes of a round, without probes; those that the dynamic order adds; and the probes."""
    for workers, trials in ((200, 50), (10000, 1)):
        job = ["--workers", workers, "--chunks", workers, "--trials", trials, "--replication", 3,
               "--straggler", f"jitter:0.1+slow:{workers // 20},2-10"]
        row, probed = (tarry.results(*job, "--pieces", PIECES, "--scheme", "tarry", "--silence", silence)[0]
                       for silence in (LARGE, 2))
        pieces = workers * PIECES
        yield case(workers=workers, messages=row["control_messages"], bytes=row["control_bytes"],
                   added_messages=row["control_messages"] - 3 * workers - row["copies"] * pieces,
                   added_bytes=row["control_bytes"] - static_bytes(workers, pieces, 3, row["copies"]),
                   probes=probed["control_messages"] - row["control_messages"], ratio=row["ratio_to_balanced"])


@claim
def dynamic_traffic(bench):
    """Control messages of a round, without probes: those of any order, and what the dynamic one adds."""
    for of in traffic(bench):
        what = f"mild, r = 3, m = {of.workers:,}"
        bench.note(f"{what}: control messages, bytes of a round", f"{of.messages:,.0f}, {of.bytes:,.0f}")
        bench.note(f"{what}: of these for the dynamic order", f"{of.added_messages:,.0f}, {of.added_bytes:,.0f}")
        bench.note(f"{what}: probes and answers on top", f"{of.probes:,.0f}")
        bench.note(f"{what}: time / balanced", f"{of.ratio:.3f}")


def alike(tarry):
    """Workers that are all alike, in the simulator: (result, time over uncoded)."""
    job = ["--trials", 3, "--straggler", "none"]
    uncoded = tarry.results(*job, "--scheme", "uncoded")[0]["time"]["median"]
    for row in tarry.results(*job, "--replication", "3,8", "--pieces", f"1,{PIECES}", "--scheme", "tarry"):
        yield row, row["time"]["median"] / uncoded


@claim
def dynamic_alike(bench):
    """Workers that are all alike, in the simulator."""
    for row, ratio in alike(bench):
        what = f"simulated, no stragglers, r = {row['replication']}, P = {row['pieces']}: time / uncoded"
        bench.at_most(what, ratio, 1.03, digits=4)


LOCAL = ["--workers", 16, "--chunks", 16, "--samples", 4096, "--features", 20]
DYNAMIC = ["--replication", 3, "--pieces", PIECES, "--order", "dynamic"]
UNCODED = ["--design", "cyclic", "--order", "as-is", "--replication", 1]


def write_trace(tarry, name, steps, seconds):
    """A trace of 16 workers whose three chunks take seconds(step, worker) each; its path."""
    path = os.path.join(tarry.folder.name, f"{name}.csv")
    with open(path, "w") as file:
        print("step,worker,chunk,seconds", file=file)
        for step in range(steps):
            for worker in range(16):
                time = seconds(step, worker)
                for chunk in range(3):
                    print(f"{step},{worker},{chunk},{time:.6f}", file=file)
    return path


def local(tarry):
    """Sleeping workers in the local runtime and in the simulator, with the same plan and the same draws."""
    rounds = 20
    draws = (("shifted-exp", lambda draw: 0.3 * (1 + draw.expovariate(1))),
             ("mild", lambda draw: 0.4 * draw.gauss(1, 0.1) * (draw.uniform(2, 10) if draw.random() < 0.05 else 1)))
    for name, seconds in draws:
        draw = random.Random(4)
        trace = write_trace(tarry, name, rounds, lambda step, worker: max(seconds(draw), 0.01))
        job = [*LOCAL[:4], "--replication", 3, "--pieces", PIECES, "--rounds", rounds, "--straggler", f"trace:{trace}"]
        expected = tarry.report(*job, "--trials", 1, "--scheme", "tarry", command="simulate")["results"][0]["rounds"]
        report = tarry.report(*job, *LOCAL[4:], "--order", "dynamic", "--verify")["rounds"]
        balanced = [row["seconds"] / row["ratio_to_balanced"] for row in expected]
        yield case(name=name, rounds=rounds, exact=sum(row["exact"] for row in report),
                   error=max(row["verified_error"] for row in report),
                   ratio=statistics.median(row["seconds"] / bound for row, bound in zip(report, balanced)),
                   simulated=statistics.median(row["ratio_to_balanced"] for row in expected))


@claim
def dynamic_local(bench):
    """Sleeping workers in the local runtime against the simulator, with the same plan and the same draws."""
    for of in local(bench):
        what = f"local, sleeping, m = 16, {of.name}"
        bench.row(f"{what}: exact rounds", of.exact, of.rounds, of.exact == of.rounds)
        bench.at_most(f"{what}: verified_error", of.error, 1e-5)
        bench.note(f"{what}: time / balanced, the simulator's", f"{of.ratio:.3f}, {of.simulated:.3f}")
        bench.at_most(f"{what}: difference of the two", abs(of.ratio - of.simulated), 0.05)


def round_seconds(tarry, *arguments):
    return statistics.median(row["seconds"] for row in tarry.report(*arguments, "--evaluate", 1000)["rounds"])


def alike_local(tarry):
    """Workers that are all alike, in the local runtime: time over uncoded where they sleep, and where they compute."""
    trace = write_trace(tarry, "alike", 1, lambda step, worker: 0.4)
    sleeping = [*LOCAL, "--rounds", 10, "--straggler", f"trace:{trace}"]
    asleep = round_seconds(tarry, *sleeping, *DYNAMIC) / round_seconds(tarry, *sleeping, *UNCODED)
    job = ["--workers", 2, "--chunks", 2, "--samples", 40000, "--features", 500, "--model", "perceptron", "--rounds", 12]
    dynamic = [*job, "--replication", 2, *DYNAMIC[2:]]
    return asleep, statistics.median(round_seconds(tarry, *dynamic) / round_seconds(tarry, *job, *UNCODED)
                                     for _ in range(5))


@claim
def dynamic_local_alike(bench):
    """Workers that are all alike, in the local runtime. What computing takes is only known on cores of its own."""
    asleep, computing = alike_local(bench)
    bench.at_most("local, no stragglers, sleeping, m = 16: time / uncoded", asleep, 1.03, digits=4)
    bench.note("local, no stragglers, computing, m = 2: time / uncoded (needs two idle cores)", f"{computing:.3f}")


if __name__ == "__main__":
    harness.main(claim, __doc__.split("\n")[0])
