#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs what the documentation claims and prints it beside its limit, as a Markdown table.

Usage: bench/claims.py TARRY [DATA] [--only NAME]

TARRY is the binary (an optimised build), DATA the folder with a9a.t and the digits; claims that need data are skipped where
it is missing. Times are ratios within one run. The exit status is 1 if a limit is missed.
"""

import statistics
import sys
import time

import baselines
import dynamic
import harness
import latency
import level
import racks

claim = harness.Claims()


def median_seconds(report):
    return statistics.median(row["seconds"] for row in report["rounds"])


@claim
def adult(bench):
    """Logistic regression on a9a.t: exact rounds, and the loss of plain gradient descent."""
    data = bench.file("a9a.t")
    if data is None:
        return bench.skip("a9a.t", "no data")
    job = ["--data", data, "--model", "logistic", "--rounds", 200]
    plain = bench.report(*job, "--workers", 1, "--chunks", 1, "--replication", 1)["final"]["loss"]
    coded = [*job, "--workers", 8, "--chunks", 8, "--replication", 3, "--verify"]
    cases = [(parts, spec) for parts in (1, 2, 3) for spec in ("none", "slow:2,5", "exp:0.01")]
    cases += [(1, "dead:2"), (2, "dead:1")]
    for parts, spec in cases:
        for credit in ("chunk", "whole") if spec == "slow:2,5" else ("chunk",):
            report = bench.report(*coded, "--parts", parts, "--straggler", spec, "--credit", credit)
            rounds = report["rounds"]
            what = f"a9a, {parts} part{'s' * (parts > 1)}, {spec}, credit {credit}"
            exact = sum(row["exact"] for row in rounds)
            bench.row(f"{what}: exact rounds", exact, "200", exact == 200)
            worst = max(row["verified_error"] for row in rounds)
            bench.at_most(f"{what}: verified_error", worst, 1e-5 if parts == 1 else 1e-4)
            loss = report["final"]["loss"]
            bench.at_most(f"{what}: final loss against plain, relative", abs(loss - plain) / plain, 1e-5)


@claim
def digits(bench):
    """Softmax and a perceptron on the digits, a fifth held out."""
    data = bench.file("t10k-images-idx3-ubyte.gz")
    if data is None:
        return bench.skip("digits", "no data")
    job = ["--data", data, "--labels", bench.file("t10k-labels-idx1-ubyte.gz"), "--holdout", 0.2]
    softmax = bench.report(*job, "--model", "softmax", "--rounds", 150, "--evaluate", 50)
    bench.at_least("digits, softmax: test accuracy", softmax["final"]["test_accuracy"], 0.88)
    perceptron = bench.report(*job, "--model", "perceptron", "--hidden", 64, "--rounds", 300,
                              "--optimizer", "adam", "--batch", 800, "--evaluate", 100)
    bench.at_least("digits, perceptron: test accuracy", perceptron["final"]["test_accuracy"],
                   softmax["final"]["test_accuracy"] + 1e-9)


@claim
def too_many_dead(bench):
    """More dead workers than the plan can lose."""
    job = ["train", "--quiet", "--rounds", 5, "--replication", 2, "--straggler", "dead:4"]
    done = bench.run(*job)
    named = "chunks" in done.stderr and "--stop" in done.stderr
    bench.row("4 of 8 dead, replication 2, exact: exit status", done.returncode, "1, chunks named",
              done.returncode == 1 and named and done.stderr.count("\n") == 1)
    for rule in ("deadline:0.05", "error:0.1"):
        done = bench.run(*job, "--stop", rule)
        bench.row(f"the same, --stop {rule}: exit status", done.returncode, "0", done.returncode == 0)


@claim
def partial_stragglers(bench):
    """Credit by chunk against whole workers, on the same draws."""
    job = ["--workers", 16, "--chunks", 16, "--replication", 8, "--straggler", "exp:0.02",
           "--rounds", 100, "--evaluate", 100, "--samples", 1600, "--features", 20]
    chunk = median_seconds(bench.report(*job, "--credit", "chunk", "--order", "optimal"))
    whole = median_seconds(bench.report(*job, "--credit", "whole"))
    original = median_seconds(bench.report(*job, "--design", "cyclic", "--order", "as-is",
                                           "--credit", "whole", "--stop", "workers:9"))
    bench.at_most("median round, credit by chunk / whole workers, exp per worker", chunk / whole, 0.6)
    bench.at_most("median round, credit by chunk / the original protocol", chunk / original, 0.3)


@claim
def plans(bench):
    """Q_l of the regular plan, and the time of a large one."""
    small = bench.plan("--workers", 200, "--chunks", 200, "--replication", 8)
    bench.row("m = N = 200, replication 8, optimal order: Q_1", small["q"], "1565", small["q"] == 1565)
    start = time.monotonic()
    done = bench.run("plan", "--workers", 5000, "--chunks", 5000, "--replication", 32, "--json")
    bench.at_most("m = N = 5000, replication 32: seconds", time.monotonic() - start, 5)
    bench.row("the same: exit status", done.returncode, "0", done.returncode == 0)


@claim
def kernels(bench):
    """Encoding and decoding against the machine's read bandwidth and sgemv."""
    report = bench.bench("kernels")
    for row in report["results"]:
        for what in ("encode", "decode"):
            name = f"{what}, d = 1e7, {row['inputs']} inputs"
            bench.at_least(f"{name}: of read bandwidth", row[what] / row["read"], 0.85)
            bench.at_least(f"{name}: of sgemv", row[what] / row["sgemv"], 1.25)


@claim
def forms(bench):
    """Coded parts in int8 against the machine's read bandwidth and sums of float32."""
    report = bench.bench("forms")
    plain, byte = (next(row for row in report["results"] if row["form"] == form) for form in ("float32", "int8"))
    bench.at_least("int8, d = 1e8: encode, of read bandwidth", byte["encode"] / report["read"], 0.85)
    bench.at_least("int8, d = 1e8: sum of 4 parts, numbers per second over those of float32", byte["sum"] / plain["sum"], 1.5)


@claim
def round_cost(bench):
    """A round with trivial chunk functions against the memory traffic that it needs."""
    report = bench.bench("round")
    for row in report["results"]:
        bench.at_most(f"round, 8 workers, d = 1e6, {row['parts']} parts, {row['copies']:.0f} copies: "
                      "time over that of its traffic", row["ratio"], 1.3)


# m = N = 200, replication 8 and the random regular design are what simulate takes by itself.
WHOLE = "own:name=whole,credit=whole"
RANDOM_ORDER = "partial:name=random,order=random"


@claim
def simulation_times(bench):
    """Completion times with one part, as medians of paired trials."""
    dead = bench.simulate("--trials", 1000, "--straggler", "exp:1+dead:10", "--plan-per-trial",
                          "--scheme", f"partial,{RANDOM_ORDER},{WHOLE},cyclic")
    median = {name: row["time"]["median"] for (name, _), row in dead.items()}
    bench.at_most("simulated, exp:1, 5% dead: time of partial / whole workers", median["partial"] / median["whole"],
                  0.5)
    bench.at_most("the same: optimal / random order", median["partial"] / median["random"], 0.9)
    failed = dead["cyclic", 1]["failed"]
    bench.row("the same: trials of 1000 that the original protocol can't end", failed, "1000", failed == 1000)
    alive = bench.simulate("--trials", 1000, "--straggler", "exp:1", "--scheme", "partial,cyclic")
    ratio = alive["partial", 1]["time"]["median"] / alive["cyclic", 1]["time"]["median"]
    bench.at_most("none dead: time of partial / the original protocol, workers:193", ratio, 0.2)


@claim
def simulation_errors(bench):
    """Errors at the deadline where that of whole workers' credit is 0.1."""
    cases = (("exp:1", "0.1:8:80", (30, 20, 13)), ("shifted-exp:1,1", "9:16:71", (1000, 500, 60)))
    for straggler, deadlines, limits in cases:
        results = bench.simulate("--trials", 1000, "--straggler", f"{straggler}+dead:10", "--parts", "1,2,4",
                                 "--deadline", deadlines, "--scheme", f"partial,{WHOLE}")
        for parts, limit in zip((1, 2, 4), limits):
            error = level.where(results["whole", parts]["error"], results["partial", parts]["error"], 0.1)[1]
            ratio = 0.1 / error if error > 0 else float("inf")
            bench.at_least(f"simulated, {straggler}, 5% dead, {parts} part{'s' * (parts > 1)}: error of whole workers "
                           "/ partial", ratio, limit)


@claim
def simulation_speed(bench):
    """Reports per second, a large round, and all schemes of static order."""
    report = bench.bench("simulate")
    for row in report["results"]:
        bench.at_least(f"simulated, m = N = {row['workers']}: reports per second", row["reports_per_second"], 1e6)
    bench.at_most("the same: seconds of the longest round", row["longest_round_seconds"], 2)
    bench.at_most("the same: memory in GiB", row["memory_bytes"] / 2**30, 2)
    start = time.monotonic()
    bench.ended_well("simulate", "--quiet", "--trials", 100, "--jobs", 2, "--deadline", "0.1:6:60", "--scheme",
                     "uncoded,ignore-stragglers,dropcompute,cyclic,fractional,multi-message,partial")
    bench.at_most("m = N = 200, the seven schemes of static order, 100 trials, 2 threads: seconds",
                  time.monotonic() - start, 60)


if __name__ == "__main__":
    harness.main(claim + dynamic.claim + baselines.claim + latency.claim + racks.claim,
                 __doc__.split("\n")[0])
