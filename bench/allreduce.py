#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums among processes of this machine: Tarry beside Open MPI and Gloo, as a Markdown table.

Usage: bench/allreduce.py TARRY_BENCH [--gloo PYTHON] [--processes N] [--dimension D] [--runs R]

TARRY_BENCH is the binary (an optimised build). Open MPI's compiler and launcher are looked for in PATH
(apt-get install openmpi-bin libopenmpi-dev); PYTHON is an interpreter that has torch. Who is missing is left out. In each
run all take turns: in the first one in all their forms, then in the KEPT best of each; a form's time is the median over all runs of SUMS sums, from the first process
that begins to the last one that has the sum, and a peer stands in the table with its best form.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import markdown

PEERS = pathlib.Path(__file__).resolve().parent / "peers"
SUMS = 5
KEPT = 2
LIMIT_SECONDS = 300
ALGORITHMS = {"as chosen": 0, "recursive doubling": 3, "ring": 4, "segmented ring": 5, "Rabenseifner": 6}
PIECES = (1, 8)


def seconds_of(command):
    """What a peer prints: the seconds of each sum; None if it fails."""
    # Open MPI runs as root only if it is told twice.
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_NUM_THREADS="1")
    try:
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=True)
        return [float(line) for line in ran.stdout.split()]
    except (subprocess.SubprocessError, ValueError) as failed:
        print(f"{' '.join(map(str, command))}: {failed}", file=sys.stderr)
        return None


def tarry(options, way):
    def run():
        command = [options.tarry_bench, "allreduce", "--over", way, "--json", "--members", options.processes,
                   "--dimension", options.dimension, "--times", SUMS]
        ran = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=LIMIT_SECONDS,
                             check=True)
        return json.loads(ran.stdout)["seconds"]
    return run


def open_mpi(options, program, settings):
    command = ["mpirun", "--oversubscribe", "-np", options.processes, "--mca", "mpi_yield_when_idle", 1]
    for name, value in settings.items():
        command += ["--mca", name, value]
    return lambda: seconds_of([str(word) for word in (*command, program, options.dimension, SUMS)])


def mpi_forms(options, folder):
    """(peer, form, function) for each way that Open MPI sums over each of its transports."""
    if shutil.which("mpicc") is None or shutil.which("mpirun") is None:
        print("Open MPI is not here: left out", file=sys.stderr)
        return
    program = pathlib.Path(folder) / "allreduce_mpi"
    subprocess.run(["mpicc", "-O3", "-o", program, PEERS / "allreduce_mpi.c"], check=True)
    for transport in ("vader", "tcp"):
        peer = f"Open MPI, {transport}"
        base = {"btl": transport + ",self", "pml": "ob1"}
        for form, number in ALGORITHMS.items():
            yield peer, form, open_mpi(options, program, {
                **base, "coll_tuned_use_dynamic_rules": 1, "coll_tuned_allreduce_algorithm": number})
    yield "Open MPI, vader", "collectives in shared memory", open_mpi(
        options, program, {"btl": "vader,self", "pml": "ob1", "coll_sm_priority": 100})
    yield "Open MPI, vader", "ring, without single copy", open_mpi(options, program, {
        "btl": "vader,self", "pml": "ob1", "coll_tuned_use_dynamic_rules": 1, "coll_tuned_allreduce_algorithm": 4,
        "btl_vader_single_copy_mechanism": "none"})


def gloo_forms(options):
    if options.gloo is None:
        return
    for pieces in PIECES:
        command = [options.gloo, PEERS / "allreduce_gloo.py", options.dimension, SUMS, options.processes, pieces]
        yield "Gloo", f"{pieces} piece{'s' * (pieces > 1)}", lambda command=command: seconds_of(
            [str(word) for word in command])


def kept(forms, times):
    """The best forms of each peer, by the first run."""
    def rank(form):
        first = times[form[:2]][0]
        return statistics.median(first) if first is not None else float("inf")

    return [form for form in forms
            if form in sorted((other for other in forms if other[0] == form[0]), key=rank)[:KEPT]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tarry_bench")
    parser.add_argument("--gloo", metavar="PYTHON")
    parser.add_argument("--over", default="shared,tcp,tls", help="Tarry's ways, separated by commas")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--dimension", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        forms = [(f"Tarry, {way}", "", tarry(options, way)) for way in options.over.split(",")]
        forms += [*mpi_forms(options, folder), *gloo_forms(options)]
        times = {(peer, form): [] for peer, form, _ in forms}
        for at in range(options.runs):
            for peer, form, run in forms:
                times[peer, form].append(run())
                print(f"run {at + 1}: {peer}, {form}: {times[peer, form][-1]}", file=sys.stderr)
            if at == 0:
                forms = kept(forms, times)
    best = {}
    for peer, form, _ in forms:
        runs = times[peer, form]
        if None not in runs:
            median = statistics.median(second for run in runs for second in run)
            print(f"{peer}, {form or 'its one form'}: {median * 1e3:.1f} ms", file=sys.stderr)
            best[peer] = min(best.get(peer, (median, form)), (median, form))
    ours, _ = next(iter(best.values()))
    rows = [[peer, form, f"{median * 1e3:.1f}", f"{median / ours:.2f}"] for peer, (median, form) in best.items()]
    first = options.over.split(",")[0]
    print("\n".join(markdown.table(["sums by", "best form", "ms", f"of Tarry, {first}"], rows)))


if __name__ == "__main__":
    main()
