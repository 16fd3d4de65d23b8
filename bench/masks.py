#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Masks per number of Tarry and of Flower's SecAgg+, in the same run, as a Markdown table.

Usage: bench/masks.py TARRY-BENCH [--dimension D] [--repeat TIMES] [--neighbours NEIGHBOURS]
           [--paillier PROGRAM]

TARRY-BENCH is the binary (an optimised build). Flower is its package `flwr`, if the Python that runs this has it. Measured is
what a member does for its neighbours, one of them and NEIGHBOURS of them: each one's mask is made and added to the same vector;
of Flower by the functions that its client calls for each, pseudo_rand_gen and parameters_addition of
flwr.common.secure_aggregation, mod 2^32. Figures are per number and neighbour. Both have one thread and take turns; the best of the
repeats counts. AES-128 by OpenSSL in a near cache is the limit of Tarry's. The exit status is 1 if Tarry isn't at least ten
times as fast for NEIGHBOURS. PROGRAM is the program of bench/paillier.c in a build with -Dbench=true: its figures are printed below.
"""

import argparse
import json
import os
import subprocess
import sys
import time

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[threads] = "1"

import markdown

LEAST = 10  # times as fast as Flower
BITS = 32
INNER = 5  # measurements of Tarry in its turn, which takes less time than one of Flower all the same


def of_tarry(options):
    """Words per second of one mask, of one of several masks, and of AES-128 alone."""
    report = json.loads(subprocess.run(
        [options.bench, "masks", "--dimension", str(options.dimension), "--neighbours", str(options.neighbours), "--repeat",
         str(INNER), "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout)
    row = next(row for row in report["results"] if row["bits"] == BITS)
    return {"one": row["mask"] * 1e9, "several": row["member"] * 1e9, "AES": report["aes"] * 1e9 / (BITS / 8)}


def flower():
    """What gives back Flower's masks per second, or None."""
    try:
        import numpy
        from flwr.common.secure_aggregation import ndarrays_arithmetic, secaggplus_utils
    except ImportError as error:
        print(f"Flower skipped: {error} (pip install flwr)")
        return None

    def rate(options, neighbours):
        vector = [numpy.arange(options.dimension, dtype=numpy.int64)]
        start = time.perf_counter()
        for neighbour in range(neighbours):
            mask = secaggplus_utils.pseudo_rand_gen(bytes(range(neighbour, neighbour + 44)), 1 << BITS, [vector[0].shape])
            vector = ndarrays_arithmetic.parameters_addition(vector, mask)
        return options.dimension * neighbours / (time.perf_counter() - start)

    return lambda options: {"one": rate(options, 1), "several": rate(options, options.neighbours)}


def best_of(measured):
    return {name: max(rates[name] for rates in measured) for name in (measured[0] if measured else ())}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("bench", metavar="TARRY-BENCH")
    parser.add_argument("--dimension", type=int, default=10_000_000)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--neighbours", type=int, default=7)
    parser.add_argument("--paillier", metavar="PROGRAM")
    options = parser.parse_args()
    measured = {"Tarry": [], "Flower": []}
    peer = flower()
    for _ in range(options.repeat):
        measured["Tarry"].append(of_tarry(options))
        if peer is not None:
            measured["Flower"].append(peer(options))
    tarry, rival = best_of(measured["Tarry"]), best_of(measured["Flower"])
    print(markdown.line_of(["ns a number and neighbour", "one neighbour", f"{options.neighbours} neighbours"]))
    print(markdown.line_of(["---"] * 3))
    rows = {"Tarry": tarry, "AES-128 alone": {"one": tarry["AES"], "several": tarry["AES"]}, "Flower": rival}
    for name, rates in rows.items():
        if rates:
            print(markdown.line_of([name, f"{1e9 / rates['one']:.2f}", f"{1e9 / rates['several']:.2f}"]))
    if options.paillier is not None:
        print(subprocess.run([options.paillier], check=True, stdout=subprocess.PIPE, text=True).stdout, end="")
    if peer is None:
        return 0
    times = {name: tarry[name] / rival[name] for name in rival}
    print(f"{times['one']:.1f} and {times['several']:.1f} times as fast per number (of {options.neighbours} neighbours at least "
          f"{LEAST} are asked for)")
    return 0 if times["several"] >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
