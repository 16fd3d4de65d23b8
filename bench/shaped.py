#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the simulator to the network runtime over shaped links: 8 workers and a server in network namespaces, d = 1e6.

Usage: bench/shaped.py TARRY [--rounds N] [--mode MODE]... [--rate BYTES]... [--dimension D]

Each namespace sends and gets at one rate (tc's token buckets, which count the frames' heads; the simulator's links carry what
TCP has left of it). Workers sleep for what their chunks take, 0.4 s, and their gradients are of samples with few features, so
that they take next to nothing; sums go by TCP without TLS, with Linux's usual windows (cubic) whatever this machine has.
Prints the mean round of each mode and rate, but for the first two (in some a worker computes one piece more, over TCP as in
the simulator), beside that of `tarry simulate` with the same options, where parameters that go out together share the
server's card, as connections do (--card share). Then it says what each mode takes of the time of float32, where the sum is made
at the same place, if that was run. Needs the rights to make namespaces, and a
machine with little else to do: encoding, TCP, the optimizer's step and waiting for a processor take time that the simulator
does not count.
"""

import argparse
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKERS = 8
PIECES = 4
CARRIED = 1448 / 1514  # of what a link carries: TCP's bytes of a full frame with Ethernet's, IP's and TCP's heads
LEARNING = 2  # rounds that don't count: nothing is known of workers and links yet
SLEEP = "shifted-exp:0.4,0.000001"
RATES = [12_500_000, 125_000_000]
# By name: the settings besides, as keys of a scheme and by flags.
AT_SERVER = {"server": {}, "int8": {"compress": "int8"},
             "both": {"compress": "int8", "compress-down": "int8"}}
AMONG_WORKERS = {"everywhere": {}, "everywhere-int8": {"compress": "int8"},
                 "everywhere-both": {"compress": "int8", "compress-down": "int8"}}
MODES = AT_SERVER | {name: {"sum": "everywhere", **more} for name, more in AMONG_WORKERS.items()}


def make_samples(path, dimension):
    """One per piece, each with a few of the features."""
    with open(path, "w") as file:
        for sample in range(PIECES * WORKERS):
            file.write(f"{sample % 2} {1 + sample}:1 {dimension // 2 + sample}:1 {dimension}:1\n")


def run(mode, rate, options, cluster, namespaces):
    """Seconds of each round over TCP that counts."""
    with namespaces.Namespaces(WORKERS + 1) as machines, tempfile.TemporaryDirectory() as folder:
        data = ["--data", os.path.join(folder, "samples")]
        make_samples(data[1], options.dimension)
        rounds = str(options.rounds)
        job = ["--workers", str(WORKERS), "--chunks", str(WORKERS), "--pieces", str(PIECES), "--replication", "3", "--order",
               "dynamic", "--rounds", rounds, "--evaluate", rounds, "--rate", "1e-4", *data, "--wait", "600",
               *(word for name, value in MODES[mode].items() for word in (f"--{name}", value))]
        for index in range(WORKERS + 1):
            machines.narrow(index, rate)
            machines.congestion(index, "cubic")
        around = {f"worker-{worker}": lambda arguments, place=worker + 1: machines.command(place, arguments)
                  for worker in range(WORKERS)}
        around["server"] = lambda arguments: machines.command(0, arguments)
        training = cluster.Cluster(folder, job, around=around)
        try:
            address = training.serve("--force", listen=f"{machines.address(0)}:0")
            for worker in range(WORKERS):
                training.work(worker, address, "--force", "--straggler", SLEEP, *data)
            training.finish(600)
            return training.round_seconds()[LEARNING:]
        finally:
            training.close()


def simulate(tarry, mode, rate, options):
    carried = str(CARRIED * rate)
    scheme = "".join(f",{name}={value}" for name, value in MODES[mode].items())
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        subprocess.run([tarry, "simulate", "--workers", str(WORKERS), "--chunks", str(WORKERS), "--trials", "1", "--rounds",
                        str(options.rounds), "--straggler", SLEEP, "--dimension", str(options.dimension),
                        "--bandwidth", carried,
                        "--server-bandwidth", carried, "--card", "share", "--silence", "1000", "--scheme",
                        f"tarry:replication=3,pieces={PIECES}{scheme}", "--quiet", "--report", report], check=True)
        with open(report) as file:
            return [row["seconds"] for row in json.load(file)["results"][0]["rounds"]][LEARNING:]


def tell_shares(rate, seconds):
    """What each mode takes of those that it is to be compared with."""
    for modes in AT_SERVER, AMONG_WORKERS:
        whole, parts, *others = modes
        for mode, other in itertools.product(others, (whole, parts)):
            if mode in seconds and other in seconds:
                print(f"{rate * 8 / 1e6:.0f} Mb/s: {mode} takes {seconds[mode] / seconds[other]:.2f} of {other}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tarry", metavar="TARRY")
    parser.add_argument("--rounds", type=int, default=LEARNING + 8)
    parser.add_argument("--mode", action="append", choices=list(MODES))
    parser.add_argument("--rate", action="append", type=int, help="of each link, in bytes per second")
    parser.add_argument("--dimension", type=int, default=10**6, help="numbers of a gradient")
    options = parser.parse_args()
    os.environ["TARRY"] = os.path.abspath(options.tarry)
    sys.path.insert(0, str(ROOT / "tests" / "network"))
    import cluster
    import namespaces
    print("| link | sums | TCP | simulated | ratio | rounds over TCP |\n| --- | --- | --- | --- | --- | --- |")
    found = {}
    for rate in options.rate or RATES:
        for mode in options.mode or MODES:
            seconds = run(mode, rate, options, cluster, namespaces)
            network = found[rate, mode] = statistics.fmean(seconds)
            simulated = statistics.fmean(simulate(options.tarry, mode, rate, options))
            print(f"| {rate * 8 / 1e6:.0f} Mb/s | {mode} | {network:.3f} s | {simulated:.3f} s | {network / simulated:.2f} | "
                  f"{min(seconds):.3f} to {max(seconds):.3f} s |", flush=True)
    for rate in options.rate or RATES:
        tell_shares(rate, {mode: seconds for (at, mode), seconds in found.items() if at == rate})


if __name__ == "__main__":
    main()
