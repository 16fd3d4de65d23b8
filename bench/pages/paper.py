# SPDX-License-Identifier: Apache-2.0
"""docs/paper.md: the paper's experiments, as bench/paper.py repeats them, and two figures of the same numbers."""

import os

import gnuplot
import paper
import registry

page = registry.Page("paper")
page.not_measured("the paper's settings", "| setting | the authors' |")

# Colours that stay apart for colour-blind readers (Okabe and Ito 2008), as examples/plot.py has them.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#666666")


def theirs_in_colour(i):
    """Points of the block theirs{i}; the legend has the first ones."""
    title = "notitle" if i else "title 'stored by the authors'"
    return f"$theirs{i} with points pt 6 ps 1 lw 1.5 lc rgb '{COLOURS[i]}' {title}"


@page.table("results")
def results(tarry):
    return paper.HEADER, [paper.cells(row) for row in paper.rows(tarry, paper.FULL)]


@page.drawing("paper-norm.svg")
def draw_norms(tarry, folder):
    """Ours as lines, the authors' as points; a norm of 0 has no place on a logarithmic scale."""
    lines, curves = [], []
    of_g1 = {key: curve for key, curve in paper.all_norms(tarry, paper.FULL).items() if key[0] == "G1"}
    for i, ((_, scheme, parts), curve) in enumerate(of_g1.items()):
        lines += gnuplot.block(f"ours{i}", ((at, row.ours) for at, row in curve.items() if row.ours > 1e-4))
        theirs = paper.NORMS["G1", scheme, parts]
        lines += gnuplot.block(f"theirs{i}", ((at, norm) for at, norm in theirs.items() if norm > 1e-4))
        title = f"{scheme}, l = {parts}"
        curves.append(f"$ours{i} with lines lw 2 lc rgb '{COLOURS[i]}' title '{title}'")
        curves.append(theirs_in_colour(i))
    lines += ["set title 'G1: error of a sum that ends at T'", "set logscale y", "set format y '%g'", "set yrange [1e-3:10]",
              "set xlabel 'deadline T, in seconds'", "set ylabel 'norm of the error, mean over trials'", "set xtics 3",
              "set key outside right", "plot " + ", ".join(curves)]
    gnuplot.draw(os.path.join(folder, "paper-norm.svg"), "800,400", lines)


@page.drawing("paper-time.svg")
def draw_times(tarry, folder):
    """The mean whole second at which a sum is exact, over l."""
    ours, theirs = {}, {}
    for row in paper.times(tarry, paper.FULL):
        name = row.what.removeprefix("time, ")
        ours.setdefault(name, []).append((row.parts, row.ours))
        theirs.setdefault(name, []).append((row.parts, row.theirs))
    lines, curves = [], []
    for i, name in enumerate(sorted(ours, key=lambda name: -ours[name][0][1])):
        lines += gnuplot.block(f"ours{i}", ours[name]) + gnuplot.block(f"theirs{i}", theirs[name])
        curves.append(f"$ours{i} with lines lw 2 lc rgb '{COLOURS[i]}' title '{name}'")
        curves.append(theirs_in_colour(i))
    lines += ["set title 'Time of an exact sum'", "set xlabel 'parts l'", "set xtics 1", "set xrange [0.9:3.1]",
              "set ylabel 'first whole second, mean over trials'", "set yrange [0:*]", "set key outside right",
              "plot " + ", ".join(curves)]
    gnuplot.draw(os.path.join(folder, "paper-time.svg"), "800,400", lines)
