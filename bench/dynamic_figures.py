#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The figures of docs/dynamic.md: simulates what they show and draws it.

Usage: bench/dynamic_figures.py TARRY OUT

Prints the commands; leaves their JSON reports and dynamic-rounds.svg, dynamic-schemes.svg and dynamic-pieces.svg (by gnuplot)
in the folder OUT.
"""

import json
import os
import shlex
import subprocess
import sys

FIRST = {"mild": "jitter:0.1+slow:10,2-10", "shifted-exp:1,1": "shifted-exp:1,1", "pareto:1,1.5": "pareto:1,1.5"}
LASTING = {
    "mild": "jitter:0.1/run+slow:10,2-10",
    "shifted-exp:1,1": "shifted-exp:1,1/run",
    "pareto:1,1.5": "pareto:1,1.5/run",
    "markov:0.02,0.1,5": "markov:0.02,0.1,5+jitter:0.1",
}
SCHEMES = ["uncoded", "cyclic:replication=8", "partial:replication=3", "partial:replication=8",
           "tarry:replication=3,pieces=16", "tarry:replication=8,pieces=16"]
TITLES = ["uncoded", "original, r = 8", "static, r = 3", "static, r = 8", "dynamic, r = 3", "dynamic, r = 8"]


def simulate(tarry, out, name, *options):
    path = os.path.join(out, f"dynamic-{name}.json".replace(":", "-").replace(",", "-"))
    command = [tarry, "simulate", "--quiet", *options, "--report", path]
    print("$ tarry", shlex.join(command[1:]))
    subprocess.run(command, check=True)
    with open(path) as file:
        return json.load(file)["results"]


def draw(path, size, lines):
    head = [f"set terminal svg size {size} background 'white'", f"set output '{path}'", "set key noenhanced",
            "set grid ytics"]
    subprocess.run(["gnuplot"], input="\n".join(head + lines) + "\n", text=True, check=True)


def block(name, rows):
    return [f"${name} << END", *(" ".join(map(str, row)) for row in rows), "END"]


def draw_rounds(tarry, out):
    """Time over balance in each round, with speeds that last."""
    lines, curves = [], []
    for i, (name, spec) in enumerate(LASTING.items()):
        result = simulate(tarry, out, f"rounds-{name}", "--trials", "20", "--rounds", "20", "--replication", "3",
                          "--pieces", "16", "--scheme", "tarry", "--straggler", spec)[0]
        lines += block(f"d{i}", ((n + 1, row["ratio_to_balanced"]) for n, row in enumerate(result["rounds"])))
        curves.append(f"$d{i} with linespoints pt 7 ps 0.5 lw 1.5 title '{name}'")
    lines += ["set xlabel 'round'", "set ylabel 'time / balanced, median of 20 trials'", "set yrange [1:*]",
              "set key bottom right", "plot " + ", ".join(curves)]
    draw(os.path.join(out, "dynamic-rounds.svg"), "640,400", lines)


def draw_schemes(tarry, out):
    """Times and copies of the schemes, on the same draws."""
    rows = []
    for name, spec in FIRST.items():
        results = [simulate(tarry, out, f"schemes-{name}-{i}", "--trials", "50", "--scheme", scheme, "--straggler", spec)[0]
                   for i, scheme in enumerate(SCHEMES)]
        rows.append((name, results))
    lines = []
    for key in "ratio_to_balanced", "copies":
        lines += block(key, ((f'"{name.split(":")[0]}"', *(result[key] for result in results)) for name, results in rows))
    lines += ["set multiplot layout 1,2", "set style data histograms", "set style histogram clustered gap 1",
              "set style fill solid 0.8 noborder", "set boxwidth 0.9", "set xtics noenhanced"]
    for key, title, extra in (("ratio_to_balanced", "time / balanced", "set logscale y; set key off; set yrange [0.5:100]"),
                              ("copies", "copies computed per chunk or piece",
                               "unset logscale y; set key outside right; set yrange [0:9]")):
        lines += [f"set title '{title}'", extra]
        lines.append("plot " + ", ".join(f"${key} using {i + 2}:xtic(1) title '{label}'"
                                         for i, label in enumerate(TITLES)))
    draw(os.path.join(out, "dynamic-schemes.svg"), "1200,400", lines + ["unset multiplot"])


def draw_pieces(tarry, out):
    """Time over balance by pieces, in the first round."""
    lines, curves = [], []
    for i, replication in enumerate((2, 3, 8)):
        results = simulate(tarry, out, f"pieces-{replication}", "--trials", "50", "--replication", str(replication),
                           "--pieces", "1,2,4,8,16,32,64", "--scheme", "tarry", "--straggler", FIRST["mild"])
        lines += block(f"d{i}", ((row["pieces"], row["ratio_to_balanced"], row["ratio_to_matched"]) for row in results))
        curves.append(f"$d{i} using 1:2 with linespoints pt 7 ps 0.5 lw 1.5 lc {i + 1} title 'r = {replication}'")
        curves.append(f"$d{i} using 1:($2/$3) with lines dt 2 lc {i + 1} title 'r = {replication}, matched'")
    lines += ["set logscale x 2", "set xlabel 'pieces per chunk'", "set ylabel 'time / balanced'", "set yrange [1:*]",
              "plot " + ", ".join(curves)]
    draw(os.path.join(out, "dynamic-pieces.svg"), "640,400", lines)


def main(tarry, out):
    os.makedirs(out, exist_ok=True)
    draw_rounds(tarry, out)
    draw_schemes(tarry, out)
    draw_pieces(tarry, out)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
