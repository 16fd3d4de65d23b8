#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the report of `tarry train`, `tarry serve` or `tarry simulate` with gnuplot.

    tarry train --report run.json
    plot.py run.json run.svg

train, serve   The loss over the time of the rounds; the time and the copies of each round; how much each worker did.
simulate       The completion time of each scheme, with the balanced and the matched bound; with --deadline, the error
               of a sum that ends early.

The picture's name ends in .svg or .png.
"""

import argparse
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

# Colours that stay apart for colour-blind readers (Okabe and Ito 2008).
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#000000", "#CC79A7", "#E69F00", "#56B4E9", "#8C6BB1", "#999933"]
BLUE, ORANGE, GREEN = COLOURS[:3]

Report = dict[str, Any]


def quote(text: str) -> str:
    """In single quotes nothing but a quote means anything to gnuplot; the end of a line needs double ones."""
    return "'" + text.replace("'", "''").replace("\n", "'.\"\\n\".'") + "'"


def block(name: str, rows: Iterable[Iterable[object]]) -> list[str]:
    """A named block of data, with NaN for what is not known."""
    lines = (" ".join("NaN" if cell is None else str(cell) for cell in row) for row in rows)
    return [f"${name} << EOD", *lines, "EOD"]


def decades(values: Iterable[float | None]) -> bool:
    """True if only a logarithmic axis shows the small ones."""
    known = [value for value in values if value is not None]
    return bool(known) and 0 < min(known) * 30 < max(known)


def panel(title: str, x: str, y: str, more: Iterable[str], curves: Iterable[str]) -> list[str]:
    return [
        f"set title {quote(title)}",
        f"set xlabel '{x}'",
        f"set ylabel '{y}'",
        *more,
        "plot " + ", ".join(curves),
        "unset logscale",
        "unset y2tics",
        "unset y2label",
        "set xrange [*:*]",
        "set yrange [*:*]",
        "set ytics mirror autofreq",
    ]


def training(report: Report) -> tuple[int, list[str]]:
    rounds, config = report["rounds"], report["config"]
    clock = itertools.accumulate(row["seconds"] for row in rounds)
    losses = [[0, 0, report["initial"]["loss"], report["initial"]["test_loss"], None, None]]
    losses += [
        [
            row["round"] + 1,
            at,
            row["loss"],
            row["test_loss"],
            row["seconds"] * 1e3,
            row["copies_computed"] / row["chunks"],
        ]
        for row, at in zip(rounds, clock, strict=True)
    ]
    workers = [
        [
            row["worker"],
            row["chunks"],
            row["seconds"] * 1e3 / row["chunks"] if row["chunks"] and row["seconds"] else None,
        ]
        for row in report["workers"]
    ]
    title = (
        f"tarry {report['command']}: {config['model']}, {config['workers']} workers, "
        f"replication {config['replication']}, {config['parts']} part{'s' * (config['parts'] != '1')}\n"
        f"stop {config['stop']}, straggler {report['straggler']}, seed {report['seed']}"
    )
    curves = [f"$rounds using 2:3 with lines lw 2.5 lc rgb '{BLUE}' title 'train'"]
    if any(row[3] is not None for row in losses):
        curves.append(f"$rounds using 2:4 with lines lw 2 dt 2 lc rgb '{ORANGE}' title 'test'")
    lines = block("rounds", losses) + block("workers", workers) + ["set multiplot layout 3,1 title " + quote(title)]
    lines += panel(
        "Loss over time",
        "time of the rounds so far (s)",
        "loss",
        ["set logscale y"] if decades(row[2] for row in losses) else [],
        curves,
    )
    lines += panel(
        "Time and copies of each round",
        "round",
        "round time (ms)",
        ["set ytics nomirror", "set y2tics", "set y2label 'copies per chunk'", "set yrange [0:*]", "set y2range [0:*]"],
        [
            f"$rounds using 1:5 with linespoints pt 0 lw 1.5 lc rgb '{BLUE}' title 'time (left)'",
            f"$rounds using 1:6 axes x1y2 with points pt 7 ps 0.5 lc rgb '{ORANGE}' title 'copies (right)'",
        ],
    )
    lines += panel(
        "Who was slow",
        "worker",
        "chunks finished",
        [
            "set ytics nomirror",
            "set y2tics",
            "set y2label 'time per chunk (ms)'",
            "set yrange [0:*]",
            "set boxwidth 0.7",
            "set style fill solid 0.55 noborder",
        ],
        [
            f"$workers using 1:2 with boxes lc rgb '{GREEN}' title 'chunks (left)'",
            f"$workers using 1:3 axes x1y2 with points pt 7 lc rgb '{ORANGE}' title 'time (right)'",
        ],
    )
    return 1050, lines


def simulation(report: Report) -> tuple[int, list[str]]:
    results, config = report["results"], report["config"]
    names = [f"{row['scheme']}  r={row['replication']} l={row['parts']} P={row['pieces']}" for row in results]
    times: list[list[float | None]] = []
    for place, row in enumerate(reversed(results)):
        known = sorted(second for second in row["seconds"] if second is not None)
        marks = statistics.quantiles(known, n=20, method="inclusive") if len(known) > 1 else known * 19 or [None] * 19
        times.append(
            [place, *(marks[i] for i in (0, 4, 9, 14, 18)), row["balanced"]["median"], row["matched"]["median"]]
        )
    title = (
        f"tarry simulate: {config['workers']} workers, {config['chunks']} chunks, straggler {config['straggler']}\n"
        f"{report['trials']} trials{', the last round of each' if config['rounds'] > 1 else ''}, seed {report['seed']}"
    )
    deadlines = [row["deadline"] for row in results[0]["error"]]
    ticks = ", ".join(f"{quote(name)} {place}" for place, name in enumerate(reversed(names)))
    known = any(value is not None for row in times for value in row[1:])
    lines = [*block("times", times), f"set multiplot layout {2 if deadlines else 1},1 title " + quote(title)]
    lines += panel(
        "Completion time",
        "seconds",
        "",
        [
            f"set ytics ({ticks})",
            f"set yrange [-0.6:{len(names) - 0.4}]",
            "set style fill solid 0.45",
            "set logscale x"
            if decades(value for row in times for value in row[1:7])
            else f"set xrange [0:{'*' if known else 1}]",
        ],
        [
            f"$times using 2:1:($6-$2):(0) with vectors nohead lw 1.5 lc rgb '{BLUE}' title '5 to 95 %'",
            f"$times using 4:1:3:5:($1-0.28):($1+0.28) with boxxyerror lc rgb '{BLUE}' title '25 to 75 %'",
            "$times using 4:($1-0.28):(0):(0.56) with vectors nohead lw 3 lc rgb '#000000' title 'median'",
            f"$times using 7:($1-0.42):(0):(0.84) with vectors nohead lw 2.5 lc rgb '{GREEN}' title 'balanced'",
            f"$times using 8:($1-0.42):(0):(0.84) with vectors nohead lw 2 dt 2 lc rgb '{ORANGE}' title 'matched'",
        ],
    )
    if deadlines:
        errors = [[at, *(row["error"][i]["mean"] or None for row in results)] for i, at in enumerate(deadlines)]
        lines += block("errors", errors)
        lines += panel(
            "Error of a sum that ends at a deadline",
            "deadline (s)",
            "relative squared error, mean",
            ["set logscale y", "set yrange [*:1.2]"],
            [
                f"$errors using 1:{i + 2} with lines lw 2 lc rgb '{COLOURS[i % len(COLOURS)]}' "
                f"dt {i // len(COLOURS) + 1} title {quote(name)}"
                for i, name in enumerate(names)
            ],
        )
    return 160 + 40 * len(names) + (460 if deadlines else 0), lines


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__), formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report")
    parser.add_argument("picture")
    arguments = parser.parse_args()
    ending = pathlib.Path(arguments.picture).suffix
    if ending not in (".svg", ".png"):
        parser.error(f"{arguments.picture} must end in .svg or .png")
    report: Report = json.loads(pathlib.Path(arguments.report).read_text())
    if report.get("command") not in ("train", "serve", "simulate"):
        parser.error(f"{arguments.report} is no report of tarry train, serve or simulate")
    height, lines = simulation(report) if report["command"] == "simulate" else training(report)
    terminal = "svg background 'white'" if ending == ".svg" else "pngcairo"
    head = [
        f"set terminal {terminal} noenhanced size 1000,{height} font 'sans,12'",
        f"set output {quote(arguments.picture)}",
        "set datafile missing 'NaN'",
        "set grid lc rgb '#dddddd' lt 1",
        "set tics out",
        "set key outside bottom center horizontal",
    ]
    return subprocess.run(
        ["gnuplot"], input="\n".join([*head, *lines, "unset multiplot"]) + "\n", text=True, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
