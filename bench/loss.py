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
import math
import random

import markdown
import runner

PIECES = 16
WORKERS = 32
STEP = 1.0
STRAGGLER = "jitter:0.1+slow:2,2-10"
ROUNDS = 45
SCHEMES = (f"uncoded,ring,cyclic:name=cyclic,replication=3,dropcompute:name=dropcompute auto,"
           f"dropcompute:name=dropcompute 1 s,deadline=1,queue,tarry:name=tarry,replication=3,pieces={PIECES},"
           f"own:name=tarry error:0.1,replication=3,pieces={PIECES},order=dynamic,stop=error:0.1")


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


TITLES = {"cyclic": "cyclic (Tandon et al.)", "dropcompute auto": "DropCompute, its own deadline",
          "dropcompute 1 s": "DropCompute at 1 s", "queue": "shared queue", "tarry": "Tarry",
          "tarry error:0.1": "Tarry, `stop=error:0.1`"}
HEADER = ["scheme", "copies stored", "seconds of a round", "error", "rounds", "seconds to the loss", "/ uncoded"]


def table(tarry, straggler, rounds):
    """The loss, which exact schemes reach in two thirds of the rounds, and the rows."""
    pieces = cut(read(tarry.needed("a9a.t")))
    curves, rows, uncoded, goal = {}, [], None, None
    for row in tarry.results("--workers", WORKERS, "--chunks", WORKERS, "--trials", rounds, "--straggler", straggler,
                             "--scheme", SCHEMES):
        title, error = TITLES.get(row["scheme"], row["scheme"]), round(row["expected_error"], 3)
        if error not in curves:
            curves[error] = train(pieces, rounds, error)
        goal = goal or curves[error][rounds * 2 // 3]  # of the exact ones, which come first
        count = next((i for i, loss in enumerate(curves[error]) if loss <= goal), None)
        if count is None or None in row["seconds"]:
            rows.append([title, row["stored"], "", f"{error:g}", "not reached", "", ""])
            continue
        seconds = sum(row["seconds"][:count])
        uncoded = uncoded or seconds
        rows.append([title, row["stored"], f"{seconds / count:.2f}", f"{error:g}", count, f"{seconds:.1f}",
                     f"{seconds / uncoded:.2f}"])
    return goal, rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tarry")
    parser.add_argument("data", nargs="?", default="../shared/data")
    parser.add_argument("--straggler", default=STRAGGLER)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    goal, rows = table(runner.Runner(options.tarry, options.data), options.straggler, options.rounds)
    print("\n".join(markdown.table(HEADER, rows)))
    print(f"\nloss {goal:.4f}, {options.straggler}, m = {WORKERS}, a chunk takes 1 s")


if __name__ == "__main__":
    main()
