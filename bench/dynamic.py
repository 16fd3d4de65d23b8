#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs what docs/dynamic.md claims of dynamic orders and prints it beside its limit, as a Markdown table.

Usage: bench/dynamic.py TARRY [DATA] [--only NAME]

TARRY is the binary (an optimised build), DATA the folder with traces/; claims that need data are skipped where it is missing.
bench/claims.py runs these claims with all others. The exit status is 1 if a limit is missed.
"""

import os
import random
import statistics

import harness

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


def ratio_row(bench, what, ratio, limit):
    bench.at_most(f"{what}: time / balanced", ratio, limit, digits=4)


@claim
def dynamic_balance(bench):
    """Time over balance in the first round and from the tenth on, and the static order at replication 8."""
    for name, spec, lasting, limits in SPECS:
        job = ["--trials", 50, "--replication", "3,8", "--pieces", PIECES, "--scheme", "tarry"]
        firsts = bench.results(*job, "--straggler", spec)
        learned = bench.results(*job, "--straggler", lasting, "--rounds", ROUNDS)
        static = bench.results("--trials", 50, "--scheme", "partial", "--straggler", spec)[0]
        for first, last in zip(firsts, learned):
            what = f"{name}, r = {first['replication']}"
            limit_first, limit_learned = limits[first["replication"]]
            rounds = last["rounds"][LEARNED:]
            ratio_row(bench, f"{what}, first", first["ratio_to_balanced"], limit_first)
            ratio_row(bench, f"{what}, learned", max(row["ratio_to_balanced"] for row in rounds), limit_learned)
            bench.note(f"{what}, first, learned: time / matched",
                       f"{first['ratio_to_matched']:.3f}, {max(row['ratio_to_matched'] for row in rounds):.3f}")
            bench.at_most(f"{what}: copies per piece", max(first["copies"], *(row["copies"] for row in rounds)), 1.02)
        gain = statistics.median(slow / fast for slow, fast in zip(static["seconds"], firsts[0]["seconds"]))
        bench.note(f"{name}, static order, r = 8: time / balanced", f"{static['ratio_to_balanced']:.3g}")
        bench.at_least(f"{name}: time of the static order, r = 8 / dynamic, r = 3, first", gain, 2)


@claim
def dynamic_rules(bench):
    """The pick rules, on the same draws."""
    rules = ",".join(f"tarry:name={rule},order=dynamic:{rule}" for rule in ("share", "capacity", "fewest"))
    for name, spec, _, _ in SPECS:
        rows = bench.results("--trials", 50, "--replication", "3,8", "--pieces", PIECES, "--scheme", rules,
                         "--straggler", spec)
        for row in rows:
            bench.note(f"{name}, rule {row['scheme']}, r = {row['replication']}: time / balanced, messages",
                       f"{row['ratio_to_balanced']:.3f}, {row['control_messages']:.0f}")


@claim
def dynamic_traces(bench):
    """Recorded clusters."""
    uneven, slow = bench.file("traces/sequence_imbalance.csv"), bench.file("traces/slow_worker.csv")
    if uneven is None or slow is None:
        return bench.skip("recorded traces, dynamic order", "no data")
    job = ["--workers", 32, "--chunks", 256, "--trials", 45]
    costs = ["--straggler", "none", "--chunk-cost", f"trace:{uneven}"]
    uncoded = bench.results(*job, *costs, "--scheme", "uncoded")[0]
    bench.note("sequence_imbalance, uncoded: time / balanced", f"{uncoded['ratio_to_balanced']:.3f}")
    for known, limit in (("equal", 1.12), ("known", 1.06)):
        rows = bench.results(*job, *costs, "--replication", 3, "--pieces", "1,2,4", "--scheme", f"tarry:costs={known}")
        for row in rows:
            what = f"sequence_imbalance, r = 3, P = {row['pieces']}, costs {'known' if known == 'known' else 'unknown'}"
            if row["pieces"] == 1 and known == "equal":
                bench.note(f"{what}: time / balanced", f"{row['ratio_to_balanced']:.3f}")
            else:
                ratio_row(bench, what, row["ratio_to_balanced"], limit)
    row = bench.results("--workers", 4, "--chunks", 128, "--trials", 44, "--replication", 2, "--scheme", "tarry",
                    "--straggler", f"trace:{slow}")[0]
    ratio_row(bench, "slow_worker, r = 2, P = 1", row["ratio_to_balanced"], 1.06)


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


@claim
def dynamic_traffic(bench):
    """Control messages of a round, without probes: those of any order, and what the dynamic one adds."""
    for workers, trials in ((200, 50), (10000, 1)):
        job = ["--workers", workers, "--chunks", workers, "--trials", trials, "--replication", 3,
               "--straggler", f"jitter:0.1+slow:{workers // 20},2-10"]
        row, probed = (bench.results(*job, "--pieces", PIECES, "--scheme", "tarry", "--silence", silence)[0]
                       for silence in (LARGE, 2))
        pieces = workers * PIECES
        messages = row["control_messages"] - 3 * workers - row["copies"] * pieces
        size = row["control_bytes"] - static_bytes(workers, pieces, 3, row["copies"])
        what = f"mild, r = 3, m = {workers:,}"
        bench.note(f"{what}: control messages, bytes of a round",
                   f"{row['control_messages']:,.0f}, {row['control_bytes']:,.0f}")
        bench.note(f"{what}: of these for the dynamic order", f"{messages:,.0f}, {size:,.0f}")
        bench.note(f"{what}: probes and answers on top", f"{probed['control_messages'] - row['control_messages']:,.0f}")
        bench.note(f"{what}: time / balanced", f"{row['ratio_to_balanced']:.3f}")


@claim
def dynamic_alike(bench):
    """Workers that are all alike, in the simulator."""
    job = ["--trials", 3, "--straggler", "none"]
    uncoded = bench.results(*job, "--scheme", "uncoded")[0]["time"]["median"]
    for row in bench.results(*job, "--replication", "3,8", "--pieces", f"1,{PIECES}", "--scheme", "tarry"):
        what = f"simulated, no stragglers, r = {row['replication']}, P = {row['pieces']}: time / uncoded"
        bench.at_most(what, row["time"]["median"] / uncoded, 1.03, digits=4)


LOCAL = ["--workers", 16, "--chunks", 16, "--samples", 4096, "--features", 20]
DYNAMIC = ["--replication", 3, "--pieces", PIECES, "--order", "dynamic"]
UNCODED = ["--design", "cyclic", "--order", "as-is", "--replication", 1]


def write_trace(bench, name, steps, seconds):
    """A trace of 16 workers whose three chunks take seconds(step, worker) each; its path."""
    path = os.path.join(bench.folder.name, f"{name}.csv")
    with open(path, "w") as file:
        print("step,worker,chunk,seconds", file=file)
        for step in range(steps):
            for worker in range(16):
                time = seconds(step, worker)
                for chunk in range(3):
                    print(f"{step},{worker},{chunk},{time:.6f}", file=file)
    return path


@claim
def dynamic_local(bench):
    """Sleeping workers in the local runtime against the simulator, with the same plan and the same draws."""
    rounds = 20
    cases = (("shifted-exp", lambda draw: 0.3 * (1 + draw.expovariate(1))),
             ("mild", lambda draw: 0.4 * draw.gauss(1, 0.1) * (draw.uniform(2, 10) if draw.random() < 0.05 else 1)))
    for name, seconds in cases:
        draw = random.Random(4)
        trace = write_trace(bench, name, rounds, lambda step, worker: max(seconds(draw), 0.01))
        job = [*LOCAL[:4], "--replication", 3, "--pieces", PIECES, "--rounds", rounds, "--straggler", f"trace:{trace}"]
        expected = bench.results(*job, "--trials", 1, "--scheme", "tarry")[0]["rounds"]
        report = bench.report(*job, *LOCAL[4:], "--order", "dynamic", "--verify")["rounds"]
        what = f"local, sleeping, m = 16, {name}"
        exact = sum(row["exact"] for row in report)
        bench.row(f"{what}: exact rounds", exact, rounds, exact == rounds)
        bench.at_most(f"{what}: verified_error", max(row["verified_error"] for row in report), 1e-5)
        balanced = [row["seconds"] / row["ratio_to_balanced"] for row in expected]
        ratio = statistics.median(row["seconds"] / bound for row, bound in zip(report, balanced))
        ideal = statistics.median(row["ratio_to_balanced"] for row in expected)
        bench.note(f"{what}: time / balanced, the simulator's", f"{ratio:.3f}, {ideal:.3f}")
        bench.at_most(f"{what}: difference of the two", abs(ratio - ideal), 0.05)


def round_seconds(bench, *arguments):
    return statistics.median(row["seconds"] for row in bench.report(*arguments, "--evaluate", 1000)["rounds"])


@claim
def dynamic_local_alike(bench):
    """Workers that are all alike, in the local runtime. What computing takes is only known on cores of its own."""
    trace = write_trace(bench, "alike", 1, lambda step, worker: 0.4)
    sleeping = [*LOCAL, "--rounds", 10, "--straggler", f"trace:{trace}"]
    ratio = round_seconds(bench, *sleeping, *DYNAMIC) / round_seconds(bench, *sleeping, *UNCODED)
    bench.at_most("local, no stragglers, sleeping, m = 16: time / uncoded", ratio, 1.03, digits=4)
    job = ["--workers", 2, "--chunks", 2, "--samples", 40000, "--features", 500, "--model", "perceptron", "--rounds", 12]
    dynamic = [*job, "--replication", 2, *DYNAMIC[2:]]
    ratio = statistics.median(round_seconds(bench, *dynamic) / round_seconds(bench, *job, *UNCODED) for _ in range(5))
    bench.note("local, no stragglers, computing, m = 2: time / uncoded (needs two idle cores)", f"{ratio:.3f}")


@claim
def dynamic_precision(bench):
    """Rounding errors and conditioning in parts, over 1,000 rounds."""
    for replication, pieces in ((4, PIECES), (8, 4), (8, PIECES)):
        job = ["--workers", 16, "--chunks", 16, "--replication", replication, "--pieces", pieces]
        rows = bench.results(*job, "--parts", "1,2,3,4", "--trials", 1000, "--vectors", 1000,
                         "--scheme", "tarry,partial", "--straggler", "exp:1")
        for row in rows:
            parts = row["parts"]
            plan = bench.plan(*job, "--parts", parts)
            order = "dynamic" if row["scheme"] == "tarry" else "static"
            what = f"1,000 rounds, m = N = 16, r = {replication}, P = {pieces}, l = {parts}, {order}"
            exact = round(row["exact"] * row["trials"])
            bench.row(f"{what}: exact", exact, "1000", exact == 1000)
            bench.note(f"{what}: worst conditioning of the plan", f"{plan['conditioning']['worst']:.3g}")
            bench.at_most(f"{what}: worst verified_error", row["verified_error"], 1e-5)


if __name__ == "__main__":
    harness.main(claim, __doc__.split("\n")[0])
