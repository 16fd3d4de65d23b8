#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans that follow what the server learns, beside plans that stay: the tables of docs/evolution.md, "Over rounds".

Usage: bench/adapt.py TARRY OUT

Leaves JSON reports in the folder OUT, and prints the commands and the tables.
"""

import json
import os
import shlex
import subprocess
import sys

FROM = 10  # rounds before are left out: much is still being learned
SCHEMES = "tarry:name=stays,tarry:adapt=1,name=adapts,tarry:adapt=1,0.05,name=adapts more"
CLUSTER = ["--rounds", "40", "--replication", "2", "--vectors", "10"]
MIDDLE = ["--workers", "40", "--chunks", "40", "--trials", "20"]
LARGE = ["--workers", "200", "--chunks", "200", "--trials", "5"]
UNEVEN = ["--chunk-cost", "lognormal:1.5/run"]

SLOWNESS = [
    ("m = 40, P = 8", "random", MIDDLE + ["--pieces", "8", "--straggler", "markov:0.05,0.1,8+jitter:0.1"]),
    ("m = 200, P = 16", "random", LARGE + ["--pieces", "16", "--straggler", "markov:0.05,0.1,8+jitter:0.1"]),
    ("m = 200, P = 16", "random", LARGE + ["--pieces", "16", "--straggler", "markov:0.01,0.04,10+jitter:0.1"]),
    ("m = 40, P = 8", "random", MIDDLE + ["--pieces", "8", "--straggler", "rack:10,8,0.3+jitter:0.1"]),
    ("m = 40, P = 8", "cyclic", MIDDLE + ["--pieces", "8", "--straggler", "rack:10,8,0.3+jitter:0.1"]),
]
COSTS = [
    ("m = 40, P = 4", "none", MIDDLE + ["--pieces", "4", "--straggler", "jitter:0.1"] + UNEVEN),
    ("m = 40, P = 8", "none", MIDDLE + ["--pieces", "8", "--straggler", "jitter:0.1"] + UNEVEN),
    ("m = 40, P = 4", "1 + exp", MIDDLE + ["--pieces", "4", "--straggler", "shifted-exp:1,1/run+jitter:0.1"] + UNEVEN),
    ("m = 40, P = 8", "1 + exp", MIDDLE + ["--pieces", "8", "--straggler", "shifted-exp:1,1/run+jitter:0.1"] + UNEVEN),
]


def simulate(tarry, options, report):
    command = [tarry, "simulate", *CLUSTER, *options, "--scheme", SCHEMES, "--quiet", "--report", report]
    print("$ tarry", shlex.join(command[1:]))
    subprocess.run(command, check=True)
    with open(report) as file:
        return json.load(file)["results"]


def mean(result, key):
    rounds = result["rounds"][FROM:]
    return sum(round[key] for round in rounds) / len(rounds)


def main(tarry, out):
    os.makedirs(out, exist_ok=True)
    tables = [], []
    for kind, settings in enumerate((SLOWNESS, COSTS)):
        for index, (sizes, name, options) in enumerate(settings):
            if kind == 0:
                options = options + ["--design", name]
                name = f"{options[options.index('--straggler') + 1].split('+')[0]}, {name}"
            results = simulate(tarry, options, os.path.join(out, f"adapt-{kind}-{index}.json"))
            cells = [sizes, name, *(f"{mean(result, 'ratio_to_balanced'):.2f}" for result in results)]
            if kind == 0:
                cells += [f"{mean(result, 'moved'):.1f} ({100 * mean(result, 'moved_share'):.2f}%)"
                          for result in results[1:]]
            else:
                cells += [f"{results[1][key]:.1f}" for key in ("split", "merged", "moved")]
            cells.append(f"{max(result['verified_error'] for result in results):.0e}")
            tables[kind].append("| " + " | ".join(cells) + " |")
    for table in tables:
        print("\n" + "\n".join(table))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
