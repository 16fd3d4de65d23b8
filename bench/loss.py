#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seconds to a given loss under different schemes, as a Markdown table.

Usage: bench/loss.py TARRY [DATA] [--straggler SPEC] [--rounds R]

The seconds of each round, and the share of the pieces that its sum lacks, come from tarry simulate: R paired trials, one
per round. The loss comes from gradient descent on a9a.t (logistic regression of 16,281 samples, without noise of batches)
that is computed here: exact schemes all take the same steps, and one with an error leaves out that share of its pieces,
drawn anew in each round, and divides by the samples that are left, as DropCompute does. So what is dropped is chance; a
worker that is slow for the whole run would drop its own data every time, which no figure here shows (docs/traces.md).
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile

PIECES = 16
WORKERS = 32
STEP = 1.0
SCHEMES = (f"uncoded,ring,cyclic:name=cyclic,replication=3,dropcompute:name=dropcompute auto,"
           f"dropcompute:name=dropcompute 1 s,deadline=1,queue,tarry:name=tarry,replication=3,pieces={PIECES},"
           f"own:name=tarry error:0.1,replication=3,pieces={PIECES},order=dynamic,stop=error:0.1")


def simulate(tarry, straggler, rounds):
    """By scheme: the seconds of each round, the mean error, and the copies that are stored."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        done = subprocess.run([tarry, "simulate", "--quiet", "--workers", str(WORKERS), "--chunks", str(WORKERS), "--trials",
                               str(rounds), "--straggler", straggler, "--scheme", SCHEMES, "--report", path],
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr.strip())
        with open(path) as file:
            return json.load(file)["results"]


def read(path):
    """Samples of a LIBSVM file with values of 1: label in -1, 1 and the features that are there."""
    with open(path) as file:
        rows = (line.split() for line in file)
        return [(float(row[0]), [int(entry.split(":")[0]) for entry in row[1:]]) for row in rows]


def cut(samples):
    """The samples of each piece, shuffled."""
    order = list(samples)
    random.Random(1).shuffle(order)
    count = WORKERS * PIECES
    return [order[i * len(order) // count:(i + 1) * len(order) // count] for i in range(count)]


def gradient(pieces, weights):
    """The mean gradient and loss over the samples of the pieces."""
    total, loss, count = [0.0] * len(weights), 0.0, 0
    for piece in pieces:
        for label, features in piece:
            margin = label * sum(weights[i] for i in features)
            loss += math.log1p(math.exp(-margin)) if margin > -30 else -margin
            slope = -label / (1 + math.exp(min(margin, 30)))
            for i in features:
                total[i] += slope
        count += len(piece)
    return [value / count for value in total], loss / count


def train(pieces, rounds, error):
    """The loss over all samples before each round."""
    draw, weights, losses = random.Random(2), [0.0] * 124, []
    for _ in range(rounds):
        exact, loss = gradient(pieces, weights)
        losses.append(loss)
        kept = round(len(pieces) * (1 - error))
        step = exact if kept == len(pieces) else gradient(draw.sample(pieces, kept), weights)[0]
        weights = [weight - STEP * value for weight, value in zip(weights, step)]
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tarry")
    parser.add_argument("data", nargs="?", default="../shared/data")
    parser.add_argument("--straggler", default="jitter:0.1+slow:2,2-10")
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    pieces = cut(read(os.path.join(options.data, "a9a.t")))
    curves = {}
    results = simulate(options.tarry, options.straggler, options.rounds)
    goal = None
    print("| scheme | copies stored | seconds of a round | error | rounds to the loss | seconds to the loss | / uncoded |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    uncoded = None
    for row in results:
        error = round(row["expected_error"], 3)
        if error not in curves:
            curves[error] = train(pieces, options.rounds, error)
        goal = goal or curves[error][options.rounds * 2 // 3]  # of the exact ones, which come first
        rounds = next((i for i, loss in enumerate(curves[error]) if loss <= goal), None)
        if rounds is None or None in row["seconds"]:
            print(f"| {row['scheme']} | {row['stored']} | | {error} | not reached | | |")
            continue
        seconds = sum(row["seconds"][:rounds])
        uncoded = uncoded or seconds
        cells = (row["scheme"], row["stored"], f"{seconds / rounds:.2f}", f"{error:g}", rounds, f"{seconds:.1f}",
                 f"{seconds / uncoded:.2f}")
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    print(f"\nloss {goal:.4f}, {options.straggler}, m = {WORKERS}, a chunk takes 1 s")


if __name__ == "__main__":
    main()
