#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs what the documentation claims and prints it beside its limit, as a Markdown table.

Usage: bench/claims.py TARRY [DATA] [--only NAME]

TARRY is the binary (an optimised build), DATA the folder with a9a.t and the digits; claims that need data are skipped where
it is missing. Times are ratios within one run. The exit status is 1 if a limit is missed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

CLAIMS = []


def claim(function):
    CLAIMS.append(function)
    return function


class Bench:
    def __init__(self, tarry, data):
        self.tarry = tarry
        self.data = data
        self.missed = 0
        self.folder = tempfile.TemporaryDirectory()

    def run(self, *arguments):
        return subprocess.run([self.tarry, *map(str, arguments)], capture_output=True, text=True)

    def report(self, *arguments):
        """The JSON report of a training run that must end well."""
        path = os.path.join(self.folder.name, "report.json")
        done = self.run("train", "--quiet", "--report", path, *arguments)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, arguments))}: {done.stderr.strip()}")
        with open(path) as file:
            return json.load(file)

    def row(self, what, value, limit, good):
        self.missed += not good
        print(f"| {what} | {value} | {limit} | {'yes' if good else '**no**'} |", flush=True)

    def at_most(self, what, value, limit):
        self.row(what, f"{value:.3g}", f"<= {limit:g}", value <= limit)

    def at_least(self, what, value, limit):
        self.row(what, f"{value:.4g}", f">= {limit:g}", value >= limit)

    def skip(self, what, why):
        print(f"| {what} | skipped: {why} | | |", flush=True)

    def file(self, name):
        path = os.path.join(self.data, name)
        return path if os.path.exists(path) else None


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
    small = json.loads(bench.run("plan", "--workers", 200, "--chunks", 200, "--replication", 8,
                                 "--json").stdout)
    bench.row("m = N = 200, replication 8, optimal order: Q_1", small["q"], "1565", small["q"] == 1565)
    start = time.monotonic()
    done = bench.run("plan", "--workers", 5000, "--chunks", 5000, "--replication", 32, "--json")
    bench.at_most("m = N = 5000, replication 32: seconds", time.monotonic() - start, 5)
    bench.row("the same: exit status", done.returncode, "0", done.returncode == 0)


@claim
def kernels(bench):
    """Encoding and decoding against the machine's read bandwidth and sgemv."""
    report = json.loads(bench.run("bench", "kernels", "--json").stdout)
    for row in report["results"]:
        for what in ("encode", "decode"):
            name = f"{what}, d = 1e7, {row['inputs']} inputs"
            bench.at_least(f"{name}: of read bandwidth", row[what] / row["read"], 0.85)
            bench.at_least(f"{name}: of sgemv", row[what] / row["sgemv"], 1.25)


@claim
def round_cost(bench):
    """A round with trivial chunk functions against the memory traffic that it needs."""
    report = json.loads(bench.run("bench", "round", "--json").stdout)
    for row in report["results"]:
        bench.at_most(f"round, 8 workers, d = 1e6, {row['parts']} parts, {row['copies']:.0f} copies: "
                      "time over that of its traffic", row["ratio"], 1.3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tarry")
    parser.add_argument("data", nargs="?", default="../shared/data")
    parser.add_argument("--only", help="run this claim alone: " + ", ".join(c.__name__ for c in CLAIMS))
    options = parser.parse_args()
    bench = Bench(options.tarry, options.data)
    print("| claim | measured | limit | holds |\n| --- | --- | --- | --- |")
    for function in CLAIMS:
        if options.only in (None, function.__name__):
            function(bench)
    sys.exit(1 if bench.missed else 0)


if __name__ == "__main__":
    main()
