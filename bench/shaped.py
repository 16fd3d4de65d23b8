#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the simulator to the network runtime over shaped links: 8 workers and a server in network namespaces.

Usage: bench/shaped.py TARRY [--rounds N] [--mode server|early|everywhere]...

Each namespace sends and gets at one rate (tc's token buckets); workers sleep for what their chunks take. Prints the median
round of each mode and rate beside that of `tarry simulate` with the same options. Needs the rights to make namespaces, and a
machine with little else to do: gradients, TCP and the optimizer's step take processor time that the simulator does not count.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKERS = 8
FEATURES = 10**6
SLEEP = "shifted-exp:0.4,0.000001"
SIMULATED = {"server": "", "early": ",early=yes", "everywhere": ",sum=everywhere"}
RUN = {"server": [], "early": ["--early", "yes"], "everywhere": ["--sum", "everywhere"]}
BURST = 65536  # bytes of a token bucket


def shape(machines, index, rate, namespaces):
    """Both ways of a namespace's only link carry `rate` bytes per second."""
    bucket = ["tbf", "rate", f"{rate * 8:.0f}bit", "burst", str(BURST), "limit", "4194304"]
    namespaces.ip("netns", "exec", machines.names[index], "tc", "qdisc", "replace", "dev", "eth0", "root", *bucket)
    namespaces.ip("netns", "exec", machines._hub, "tc", "qdisc", "replace", "dev", namespaces.port(index), "root", *bucket)


def run(mode, rate, rounds, cluster, namespaces):
    """Seconds of each round but the first two, over TCP."""
    job = ["--workers", str(WORKERS), "--chunks", str(WORKERS), "--pieces", "4", "--replication", "3", "--order", "dynamic",
           "--rounds", str(rounds), "--evaluate", str(rounds), "--rate", "1e-4", "--holdout", "0", "--samples", str(4 * WORKERS),
           "--features", str(FEATURES), *RUN[mode]]
    with namespaces.Namespaces(WORKERS + 1) as machines, tempfile.TemporaryDirectory() as folder:
        for index in range(WORKERS + 1):
            shape(machines, index, rate, namespaces)
        around = {f"worker-{worker}": lambda arguments, place=worker + 1: machines.command(place, arguments)
                  for worker in range(WORKERS)}
        around["server"] = lambda arguments: machines.command(0, arguments)
        training = cluster.Cluster(folder, job, around=around)
        try:
            address = training.serve("--force", listen=f"{machines.address(0)}:0")
            for worker in range(WORKERS):
                training.work(worker, address, "--force", "--straggler", SLEEP)
            training.finish(600)
            return training.round_seconds()[2:]
        finally:
            training.close()


def simulate(tarry, mode, rate, rounds):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        scheme = f"tarry:replication=3,pieces=4{SIMULATED[mode]}"
        subprocess.run([tarry, "simulate", "--workers", str(WORKERS), "--chunks", str(WORKERS), "--trials", "1", "--rounds",
                        str(rounds), "--straggler", SLEEP, "--dimension", str(FEATURES), "--bandwidth", str(rate),
                        "--server-bandwidth", str(rate), "--scheme", scheme, "--quiet", "--report", report], check=True)
        with open(report) as file:
            rows = json.load(file)["results"][0]["rounds"]
        return statistics.median(row["seconds"] for row in rows[2:])


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("tarry")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--mode", action="append", choices=list(RUN))
    options = parser.parse_args()
    os.environ["TARRY"] = os.path.abspath(options.tarry)
    sys.path.insert(0, str(ROOT / "tests" / "network"))
    import cluster
    import namespaces
    for mode in options.mode or RUN:
        for rate in 31_250_000, 125_000_000:
            network = statistics.median(run(mode, rate, options.rounds, cluster, namespaces))
            simulated = simulate(options.tarry, mode, rate, options.rounds)
            print(f"{mode}, {rate * 8 / 1e6:.0f} Mb/s: TCP {network:.3f} s, simulated {simulated:.3f} s, {network / simulated:.3f}",
                  flush=True)


if __name__ == "__main__":
    main()
