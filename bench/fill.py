#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What stands in for missing chunks, compared: loss over rounds and over time for each --fill, beside exact rounds.

Usage: bench/fill.py TARRY DATA OUT

DATA is the folder with a9a.t and the t10k files of MNIST. Leaves JSON reports and fill.svg (by gnuplot) in the folder OUT,
and prints the commands and a table of their last rounds.
"""

import json
import os
import shlex
import subprocess
import sys

FILLS = ["none", "scale", "stale"]
CLUSTER = ["--workers", "8", "--chunks", "16", "--replication", "2", "--rounds", "100", "--intercept"]
SHIFTED = ["--straggler", "shifted-exp:0.002,0.004/chunk"]


def sort_by_label(source, target):
    """The same samples, so that most chunks hold one class alone."""
    with open(source) as file:
        lines = sorted(file, key=lambda line: float(line.split(None, 1)[0]))
    with open(target, "w") as file:
        file.writelines(lines)


def settings(data, out):
    sorted_file = os.path.join(out, "a9a-by-label.libsvm")
    sort_by_label(os.path.join(data, "a9a.t"), sorted_file)
    a9a = ["--data", os.path.join(data, "a9a.t"), "--rate", "0.7"]
    by_label = ["--data", sorted_file, "--rate", "0.7"]
    digits = ["--data", os.path.join(data, "t10k-images-idx3-ubyte.gz"), "--model", "softmax", "--rate", "0.5"]
    slow = ["--straggler", "slow:3,10+exp:0.002/chunk"]
    return [
        ("a9a", a9a + SHIFTED, "error:0.2"),
        ("a9a by label", by_label + SHIFTED, "error:0.2"),
        ("a9a by label, slow workers", by_label + slow, "deadline:0.006"),
        ("digits", digits + SHIFTED, "error:0.2"),
    ]


def train(tarry, options, report):
    command = [tarry, "train", *CLUSTER, *options, "--verify", "--quiet", "--report", report]
    print("$ tarry", shlex.join(command[1:]))
    subprocess.run(command, check=True)
    with open(report) as file:
        return json.load(file)


def mean(report, key):
    return sum(round[key] for round in report["rounds"]) / len(report["rounds"])


def row(name, rule, report):
    cells = [name, rule, f"{report['final']['loss']:.4f}", f"{report['final']['round_seconds']:.2f} s",
             *(f"{mean(report, key):.3f}" for key in ("expected_error", "filled_share", "verified_squared_error"))]
    return "| " + " | ".join(cells) + " |"


def draw(curves, path):
    """A row of panels for each setting: loss over rounds, and over the rounds' seconds."""
    lines = [f"set terminal svg size 1000,{280 * len(curves)} background 'white'", f"set output '{path}'",
             f"set multiplot layout {len(curves)},2", "set ylabel 'loss'", "set key noenhanced"]
    for name, reports in curves:
        blocks = []
        for label, report in reports:
            blocks.append(f"${label} << END")
            seconds = 0
            for round in report["rounds"]:
                seconds += round["seconds"]
                blocks.append(f"{round['round'] + 1} {seconds} {round['loss']}")
            blocks.append("END")
        lines += blocks
        exact = [round["loss"] for round in reports[0][1]["rounds"]]
        lines.append(f"set yrange [{0.99 * min(exact)}:{1.05 * exact[5]}]")
        for column, axis in (1, "rounds"), (2, "seconds"):
            lines += [f"set title '{name}'", f"set xlabel '{axis}'"]
            lines.append("plot " + ", ".join(f"${label} using {column}:3 with lines lw 1.5 title '{label}'"
                                             for label, _ in reports))
    lines.append("unset multiplot")
    subprocess.run(["gnuplot"], input="\n".join(lines) + "\n", text=True, check=True)


def main(tarry, data, out):
    os.makedirs(out, exist_ok=True)
    table, curves = [], []
    for name, options, stop in settings(data, out):
        jobs = [("exact", [])] + [(fill, ["--stop", stop, "--fill", fill]) for fill in FILLS]
        reports = []
        for label, rule in jobs:
            report = train(tarry, options + rule, os.path.join(out, f"{name}-{label}.json".replace(" ", "-")))
            reports.append((label, report))
            table.append(row(name, label, report))
        curves.append((f"{name}, {stop}", reports))
    print("\n| data | | final loss | rounds | expected error | filled share | measured error |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    print("\n".join(table))
    draw(curves, os.path.join(out, "fill.svg"))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
