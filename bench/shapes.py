#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times sums among workers in each shape, and in the one that the server chooses, over links with a rate and a latency.

Usage: bench/shapes.py TARRY LINKS [--case WORKERS,DIMENSION,BYTES_PER_SECOND,LATENCY_US]... [--rounds N]

A server and workers in network namespaces, connected by LINKS (bench/links.c; build-release/bench/tarry-links). Workers compute
next to nothing: their gradients are of samples with few features. A sum's time is that from the round's signal to its end, with
the vote; medians of the rounds after the first ones, in which connections are made and shapes are tried. Prints a line for each
case: the time of each shape, what was chosen most in the end, its time beside the best one's, and what the server knew of the
links. Needs the rights to make namespaces, and a machine with little else to do.
"""

import argparse
import collections
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
NETWORK = "10.78.0"
MTU = "9000"
LEARNING = 16  # rounds that don't count
SHAPES = ["direct", "grid", "tree", "auto"]
CASES = ["8,1000,12500000,5000", "8,1000,12500000,50000", "8,100000,12500000,5000", "8,1000000,12500000,5000",
         "8,1000000,12500000,25000", "6,1000000,125000000,5000", "12,1000,125000000,500", "12,100000,125000000,500"]


def make_samples(path, workers, dimension):
    """One per worker, each with a few of the features."""
    with open(path, "w") as file:
        for sample in range(workers):
            columns = sorted({1 + sample, dimension // 2 + sample, dimension})
            file.write(f"{sample % 2} " + " ".join(f"{column}:1" for column in columns) + "\n")


class Links:
    """The switch; its devices are up while it runs."""

    def __init__(self, program, names, rate, latency_us):
        self._process = subprocess.Popen([program, str(rate), str(latency_us), *names], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True)
        self._names = names

    def __enter__(self):
        if self._process.stdout.readline() != "ready\n":
            raise SystemExit("the links can't be made")
        for index, name in enumerate(self._names):
            for arguments in (["address", "add", f"{address(index)}/24", "dev", "tarry"],
                              ["link", "set", "tarry", "mtu", MTU, "up"]):
                subprocess.run(["ip", "-n", name, *arguments], check=True)
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait(20)


def address(index):
    return f"{NETWORK}.{index + 1}"


def run(program, shape, case, rounds, cluster, namespaces):
    """The last rounds of a training, as its log tells them."""
    workers, dimension, rate, latency_us = case
    with namespaces.Namespaces(workers + 1) as machines, tempfile.TemporaryDirectory() as folder, \
            Links(program, machines.names, rate, latency_us):
        data = ["--data", os.path.join(folder, "samples"), "--format", "libsvm"]
        make_samples(data[1], workers, dimension)
        job = ["--workers", str(workers), "--chunks", str(workers), "--replication", "2", "--rounds", str(rounds), "--evaluate",
               str(rounds), "--rate", "1e-4", "--sum", "everywhere", "--shape", shape, "--silence", "30", "--wait", "600", *data]
        around = {f"worker-{worker}": lambda arguments, place=worker + 1: machines.command(place, arguments)
                  for worker in range(workers)}
        around["server"] = lambda arguments: machines.command(0, arguments)
        training = cluster.Cluster(folder, job, around=around)
        try:
            to = training.serve("--force", listen=f"{address(0)}:0")
            for worker in range(workers):
                training.work(worker, to, "--force", *data)
            training.finish(600)
            return training.server.log("round")[LEARNING:]
        finally:
            training.close()


def power(number):
    """1e5 for 100,000."""
    return f"{number:.0e}".replace("e+0", "e")


def milliseconds(rounds):
    return statistics.median(each["took_ms"] - each["signal_ms"] for each in rounds)


def known(rounds):
    last = rounds[-1]["sum"]
    rate = f", {last['bytes_per_second'] * 8e-6:.0f} Mb/s" if "bytes_per_second" in last else ""
    return f"{last['latency_ms']:.2f} ms{rate}" if "latency_ms" in last else "nothing"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tarry", metavar="TARRY")
    parser.add_argument("links", metavar="LINKS")
    parser.add_argument("--case", action="append")
    parser.add_argument("--rounds", type=int, default=LEARNING + 14)
    options = parser.parse_args()
    os.environ["TARRY"] = os.path.abspath(options.tarry)
    sys.path.insert(0, str(ROOT / "tests" / "network"))
    import cluster
    import namespaces
    print("| workers | d | Mb/s | one way, ms | direct, ms | grid, ms | tree, ms | chosen | ms | of the best | known |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for text in options.case or CASES:
        case = [int(number) for number in text.split(",")]
        told = {shape: run(options.links, shape, case, options.rounds, cluster, namespaces) for shape in SHAPES}
        times = {shape: milliseconds(rounds) for shape, rounds in told.items()}
        chosen = collections.Counter(each["sum"]["shape"] for each in told["auto"]).most_common(1)[0][0]
        best = min(times[shape] for shape in SHAPES[:-1])
        workers, dimension, rate, latency_us = case
        print(f"| {workers} | {power(dimension)} | {rate * 8e-6:.0f} | {latency_us / 1e3:g} | {times['direct']:.1f} | "
              f"{times['grid']:.1f} | {times['tree']:.1f} | {chosen} | {times['auto']:.1f} | {times['auto'] / best:.2f} | "
              f"{known(told['auto'])} |", flush=True)


if __name__ == "__main__":
    main()
