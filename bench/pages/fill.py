# SPDX-License-Identifier: Apache-2.0
"""docs/fill.md: what stands in for missing chunks, compared: loss over rounds and over time for each --fill, beside exact rounds."""

import json
import os

import gnuplot
import registry

page = registry.Page("fill")
page.not_measured("formulas", "| | `expected_error` |")
page.not_measured("the commands of the table below", "$ tarry train --workers 8 --chunks 16")

FILLS = ["none", "scale", "stale"]
CLUSTER = ["--workers", 8, "--chunks", 16, "--replication", 2, "--rounds", 100, "--intercept", "--verify"]
SHIFTED = ["--straggler", "shifted-exp:0.002,0.004/chunk"]
SLOW = ["--straggler", "slow:3,10+exp:0.002/chunk"]


def sort_by_label(source, target):
    """The same samples, so that most chunks hold one class alone."""
    with open(source) as file:
        lines = sorted(file, key=lambda line: float(line.split(None, 1)[0]))
    with open(target, "w") as file:
        file.writelines(lines)


def settings(tarry):
    """Name, options and stop rule of each case."""
    source, sorted_file = tarry.needed("a9a.t"), os.path.join(tarry.folder.name, "a9a-by-label.libsvm")
    sort_by_label(source, sorted_file)
    a9a, by_label = (["--data", path, "--rate", 0.7] for path in (source, sorted_file))
    digits = ["--data", tarry.needed("t10k-images-idx3-ubyte.gz"), "--model", "softmax", "--rate", 0.5]
    return [("a9a", a9a + SHIFTED, "error:0.2"), ("a9a by label", by_label + SHIFTED, "error:0.2"),
            ("a9a by label, slow workers", by_label + SLOW, "deadline:0.006"), ("digits", digits + SHIFTED, "error:0.2")]


def trainings(tarry):
    """(name, stop rule, reports by fill) of each case; run once, as the figure is of the same runs."""
    path = os.path.join(tarry.folder.name, "fills.json")
    if not os.path.exists(path):
        cases = []
        for name, options, stop in settings(tarry):
            rules = {"exact": [], **{fill: ["--stop", stop, "--fill", fill] for fill in FILLS}}
            cases.append((name, stop, {label: tarry.report(*CLUSTER, *options, *rule) for label, rule in rules.items()}))
        with open(path, "w") as file:
            json.dump(cases, file)
    with open(path) as file:
        return json.load(file)


def mean(report, key):
    return sum(row[key] for row in report["rounds"]) / len(report["rounds"])


@page.table("fills", clock=True)
def fills(tarry):
    rows = []
    for name, _, reports in trainings(tarry):
        for label, report in reports.items():
            final = report["final"]
            rows.append([name, label, f"{final['loss']:.4f}", f"{final['round_seconds']:.2f} s",
                         *(f"{mean(report, key):.3f}" for key in ("expected_error", "filled_share",
                                                                  "verified_squared_error"))])
    return ["data", "", "final loss", "rounds", "expected error", "filled share", "measured error"], rows


def curve(report):
    """Round, seconds until its end, loss."""
    seconds = 0
    for row in report["rounds"]:
        seconds += row["seconds"]
        yield row["round"] + 1, seconds, row["loss"]


@page.drawing("fill.svg", clock=True)
def losses(tarry, folder):
    """A row of panels for each case: loss over rounds, and over the rounds' seconds."""
    cases = trainings(tarry)
    lines = [f"set multiplot layout {len(cases)},2", "set ylabel 'loss'", "unset grid"]
    for name, stop, reports in cases:
        for label, report in reports.items():
            lines += gnuplot.block(label, curve(report))
        exact = [row["loss"] for row in reports["exact"]["rounds"]]
        lines.append(f"set yrange [{0.99 * min(exact)}:{1.05 * exact[5]}]")
        for column, axis in (1, "rounds"), (2, "seconds"):
            lines += [f"set title '{name}, {stop}'", f"set xlabel '{axis}'"]
            lines.append("plot " + ", ".join(f"${label} using {column}:3 with lines lw 1.5 title '{label}'"
                                             for label in reports))
    gnuplot.draw(os.path.join(folder, "fill.svg"), f"1000,{280 * len(cases)}", lines + ["unset multiplot"])
