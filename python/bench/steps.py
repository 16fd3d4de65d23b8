#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Step times of trainings beside each other: Tarry, DDP (Gloo) and LocalSGD, as a Markdown table.

Usage: python/bench/steps.py [--cases LIST] [--systems LIST] [--runs R] [--steps N]

8 processes on this machine, 64 pieces of 8 ms of sleep in a step, d = 1e5, the same delays for all systems from the
same seed. Systems take turns, run after run. A figure is the median over runs of a run's mean step; behind it the 95th
percentile of its steps. *Balanced* is the work over the speed of all workers: what a step would take if pieces could be
split at will, and nothing else took time.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys

import systems
import workload as work

from tarry import Straggler

HERE = pathlib.Path(__file__).resolve().parent
LIMIT_SECONDS = 600
CASES = {
    "no straggler": "none",
    "one of 8 five times slower": "slow:1,5",
    "speeds 1 : 2 : 4": "slow:3,2+slow:2,4",
    "Markov": "markov:0.05,0.2,5",
    "exp, 0.3 of a piece": "exp:0.0024",
}


def balanced(load: work.Workload) -> float:
    """Seconds, the mean over the steps that count."""
    straggler = Straggler(load.straggler, load.workers, seed=load.seed)
    found: list[float] = []
    for step in range(load.skipped, load.steps):
        rate = sum(1 / straggler.seconds(step, worker, 0, worker, load.seconds) for worker in range(load.workers))
        found.append(load.pieces / rate)
    return statistics.mean(found)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def _environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{HERE}:{os.environ.get('PYTHONPATH', '')}"}


def _run_tarry(load: work.Workload) -> list[str]:
    options = ["-n", load.workers, "--quiet", "--threads", 1, "--straggler", load.straggler]
    options += ["--straggler-seed", load.seed]
    command = [sys.executable, "-m", "tarry.run", *options, HERE / "systems.py", "tarry", load.text()]
    words = [str(word) for word in command]
    ended = subprocess.run(
        words, env=_environment(), capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
    )  # fmt: skip
    if ended.returncode != 0:
        sys.exit(ended.stderr)
    return [line.partition("] ")[2] for line in ended.stdout.splitlines()]


def _run_gloo(system: str, load: work.Workload) -> list[str]:
    """A process for each rank."""
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": str(load.workers)}
    processes = [
        subprocess.Popen(
            [sys.executable, str(HERE / "systems.py"), system, load.text()],
            env=_environment() | common | {"RANK": str(rank)}, stdout=subprocess.PIPE, text=True,
        )
        for rank in range(load.workers)
    ]  # fmt: skip
    return [line for process in processes for line in process.communicate(timeout=LIMIT_SECONDS)[0].splitlines()]


def measure(system: str, load: work.Workload) -> tuple[float, list[float]]:
    """The mean step, of the worker in the middle; and its steps."""
    lines = _run_tarry(load) if system == "tarry" else _run_gloo(system, load)
    found = [json.loads(line.partition(" ")[2]) for line in lines if line.startswith("figures ")]
    if len(found) < load.workers:
        sys.exit(f"{system}: {len(found)} of {load.workers} workers came to the end")
    middle = sorted(found, key=lambda one: one["mean"])[len(found) // 2]
    return middle["mean"], middle["gaps"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES), help=f"of {', '.join(CASES)}")
    parser.add_argument("--systems", default=",".join(systems.SYSTEMS), help=f"of {', '.join(systems.SYSTEMS)}")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=work.Workload.steps)
    options = parser.parse_args()
    chosen = options.systems.split(",")
    print("| delays | balanced, ms | " + " | ".join(f"{system}, ms (p95) | of balanced" for system in chosen) + " |")
    print("| --- | --- | " + " | ".join("--- | ---" for _ in chosen) + " |")
    for case in options.cases.split(","):
        load = dataclasses.replace(work.Workload(), straggler=CASES[case.strip()], steps=options.steps)
        runs: dict[str, list[tuple[float, list[float]]]] = {system: [] for system in chosen}
        for _ in range(options.runs):
            for system in chosen:
                runs[system].append(measure(system, load))
        least = balanced(load)
        cells = []
        for system in chosen:
            mean = statistics.median(mean for mean, _ in runs[system])
            gaps = sorted(gap for _, steps in runs[system] for gap in steps)
            cells.append(f"{mean * 1e3:.1f} ({gaps[int(0.95 * len(gaps))] * 1e3:.0f}) | {mean / least:.2f}")
        print(f"| {case.strip()} | {least * 1e3:.1f} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
