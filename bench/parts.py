#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Repeats the tables of docs/parts.md: seconds per round with 1 to 4 parts and with parts that are chosen anew in each round.

Usage: bench/parts.py TARRY [--table static|dynamic] [--no-way-down]

TARRY is the binary (an optimised build). Prints each row in Markdown, behind its command. The parameters' way to the
workers counts; with --no-way-down it takes no time, as if they were there already.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import tempfile

DIMENSION = 10**7
MODEL = ["--workers", "24", "--chunks", "24", "--replication", "6", "--dimension", str(DIMENSION), "--rounds", "30",
         "--silence", "1000"]
WAY_DOWN = ["--parameter-bytes", str(4 * DIMENSION)]
STEADY = 5  # rounds that are left out: links are learned by then
SHIFTED = "shifted-exp:0.2,0.2"
STATIC = (  # SPEC, links as the table says them, links' and chunks' flags
    (SHIFTED, "1 GB/s", ["--bandwidth", "1e9"]),
    (SHIFTED, "100 MB/s", ["--bandwidth", "1e8"]),
    (SHIFTED, "30 MB/s", ["--bandwidth", "3e7"]),
    (SHIFTED, "10 MB/s", ["--bandwidth", "1e7"]),
    (SHIFTED + "/chunk", "100 MB/s", ["--bandwidth", "1e8"]),
    (SHIFTED + "/chunk", "30 MB/s", ["--bandwidth", "3e7"]),
    (SHIFTED + "/chunk", "10 MB/s", ["--bandwidth", "1e7"]),
    ("exp:0.5", "100 MB/s", ["--bandwidth", "1e8"]),
    ("exp:0.5", "30 MB/s", ["--bandwidth", "3e7"]),
    ("exp:0.5", "10 MB/s", ["--bandwidth", "1e7"]),
    ("pareto:0.2,1.5", "30 MB/s", ["--bandwidth", "3e7"]),
    ("pareto:0.2,1.5", "10 MB/s", ["--bandwidth", "1e7"]),
    ("slow:3,5", "30 MB/s", ["--bandwidth", "3e7", "--chunk-time", "0.2"]),
    ("slow:3,5", "10 MB/s", ["--bandwidth", "1e7", "--chunk-time", "0.2"]),
    ("markov:0.1,0.3,5", "30 MB/s", ["--bandwidth", "3e7", "--chunk-time", "0.2"]),
    ("markov:0.1,0.3,5", "10 MB/s", ["--bandwidth", "1e7", "--chunk-time", "0.2"]),
    (SHIFTED, "1 GB/s, shared at the server", ["--server-bandwidth", "1e9"]),
    (SHIFTED, "300 MB/s, shared at the server", ["--server-bandwidth", "3e8"]),
    (SHIFTED, "30 MB/s, latency 0.3 s", ["--bandwidth", "3e7", "--latency", "0.3"]),
)
TABLES = {  # rows, scheme, its flags
    "static": (STATIC, "partial", ["--trials", "50"]),
    "dynamic": (STATIC[:4], "tarry", ["--pieces", "4", "--trials", "10"]),
}


def results(tarry, arguments):
    """Of each scheme: mean over the steady rounds of the median time, and of the parts."""
    print("$ tarry simulate " + shlex.join(arguments), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "parts.json")
        subprocess.run([tarry, "simulate", "--quiet", "--report", path, *arguments], check=True)
        with open(path) as file:
            rows = json.load(file)["results"]
    return [tuple(statistics.mean(round[key] for round in row["rounds"][STEADY:]) for key in ("seconds", "parts"))
            for row in rows]


def row_of(tarry, spec, name, links, scheme, more):
    schemes = f"{scheme}:parts=1,2,3,4,{scheme}:parts=auto"
    *fixed, (auto, parts) = results(tarry, [*MODEL, *more, "--straggler", spec, *links, "--scheme", schemes])
    seconds = [time for time, _ in fixed]
    cells = [spec, name, *(f"{time:.3f}" for time in seconds), f"{auto:.3f}", f"{parts:.2f}",
             f"{auto / min(seconds):.3f}", f"{seconds[0] / auto:.2f}"]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tarry")
    parser.add_argument("--table", choices=TABLES)
    parser.add_argument("--no-way-down", action="store_true")
    options = parser.parse_args()
    way_down = [] if options.no_way_down else WAY_DOWN
    for name, (rows, scheme, more) in TABLES.items():
        if options.table not in (None, name):
            continue
        print("| slowness | link | l = 1 | l = 2 | l = 3 | l = 4 | auto | mean l | auto / best | l = 1 / auto |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
        for row in rows:
            print(row_of(options.tarry, *row, scheme, more + way_down), flush=True)


if __name__ == "__main__":
    main()
