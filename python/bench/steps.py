#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Step times of trainings beside each other: Tarry, DDP (Gloo), LocalSGD, torchft and hivemind, as a Markdown table.

Usage: python/bench/steps.py [--cases LIST] [--systems LIST] [--runs R] [--steps N]

8 processes on this machine, 128 pieces of 25 ms of sleep in a step, d = 1e5, the same delays for all systems from the
same seed. Systems take turns, run after run. A cell has the median over runs of a run's mean step, behind it the 95th
percentile of its steps, both as times balanced, and the seconds until the loss over all samples is a hundredth of
the first one. *Balanced* is the work over the speed of all workers: what a step would take if pieces could be split at
will, and nothing else took time. With kills, one of the other processes is killed every two seconds, from the end of
the first step on; whoever is able to take it back gets it back. With a stop, one of them is stopped for good two
seconds after that: whoever goes on with seven takes 1.14 of balanced at least. Without compute cells have milliseconds:
what a step takes besides, which is transport and the frameworks' own work.
"""

import argparse
import contextlib
import dataclasses
import importlib.util
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterable
from typing import IO, Any

import systems
import workload as work
from nuisances import Nuisance, workers_of
from processes import HERE, environment, free_port

from tarry import Straggler

LIMIT_SECONDS = 90  # after which a system hangs
# Delays, and what is done to processes.
CASES: dict[str, tuple[str, dict[str, float]]] = {
    "no compute": ("none", {}),  # and no sleep: milliseconds of a bare step
    "no straggler": ("none", {}),
    "one of 8 five times slower": ("slow:1,5", {}),
    "speeds 1 : 2 : 4": ("slow:3,2+slow:2,4", {}),
    "Markov": ("markov:0.05,0.2,5", {}),
    "exp of 0.3 pieces": ("exp:0.0075", {}),
    "a kill every 2 s": ("none", {"kills": 2.0}),
    "one stopped": ("none", {"stop": 2.0}),
}
COMES_BACK = ("tarry", "torchft", "hivemind")
FEW_STEPS = {"hivemind": 8}  # of seconds each


@dataclasses.dataclass
class Figures:
    """Of a run; mean None: it ended or hung."""

    mean: float | None
    gaps: list[float]
    goal: float | None
    apart: float = 0.0  # largest distance of a step's gradient from one process's, of its length, where it is looked at
    why: str = ""


def balanced(load: work.Workload) -> float:
    """Seconds, the mean over the steps that count."""
    straggler = Straggler(load.straggler, load.workers, seed=load.seed)
    found: list[float] = []
    for step in range(load.skipped, load.steps):
        if not load.seconds:
            return 0.0
        rate = sum(1 / straggler.seconds(step, worker, 0, worker, load.seconds) for worker in range(load.workers))
        found.append(load.pieces / rate)
    return statistics.mean(found)


class Rank:
    """A process of a system other than Tarry, started anew when it dies, if that system takes it back."""

    def __init__(self, system: str, load: work.Workload, rank: int, environment: dict[str, str]) -> None:
        self._command = [sys.executable, str(HERE / "systems.py"), system, load.text()]
        self._environment = environment | {"RANK": str(rank)}
        self.rank = rank
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self._command, env=self._environment, stdout=subprocess.PIPE if self.rank == 0 else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        )  # fmt: skip

    def end(self) -> None:
        """With the processes that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextlib.contextmanager
def _lighthouse(system: str) -> Generator[dict[str, str]]:
    """What torchft's processes meet at, quick in what it does."""
    if system != "torchft":
        yield {}
        return
    os.environ.setdefault("RUST_LOG", "off")  # or it tells of each step
    from torchft._torchft import LighthouseServer

    found = LighthouseServer(
        bind="127.0.0.1:0", min_replicas=1, join_timeout_ms=200, quorum_tick_ms=20, heartbeat_timeout_ms=1000
    )
    try:
        yield {"TORCHFT_LIGHTHOUSE": found.address()}
    finally:
        found.shutdown()


def _await_peer(lines: list[str], process: "subprocess.Popen[str]", until: float) -> str:
    """The address that hivemind's first peer prints."""
    while process.poll() is None and time.monotonic() < until:
        for line in lines:
            if line.startswith("peer "):
                return line.split()[1]
        time.sleep(0.05)
    return ""


def _read(stream: IO[str] | None, lines: list[str], nuisance: Nuisance) -> None:
    for line in stream or ():
        lines.append(line)
        if line == "begun\n":
            nuisance.begin()


def _run_ranks(system: str, load: work.Workload, what: dict[str, float]) -> list[str]:
    """The lines of rank 0, which is spared; those so far where it takes too long."""
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(load.workers)}
    lines: list[str] = []
    until = time.monotonic() + LIMIT_SECONDS
    with _lighthouse(system) as more:
        variables = environment(**common, **more)
        ranks = [Rank(system, load, 0, variables)]
        nuisance = Nuisance(lambda: [one.process.pid for one in ranks[1:] if one.process.poll() is None], **what)
        reader = threading.Thread(target=_read, args=(ranks[0].process.stdout, lines, nuisance), daemon=True)
        reader.start()
        try:
            if system == "hivemind":
                variables["HIVEMIND_PEER"] = _await_peer(lines, ranks[0].process, until)
            ranks += [Rank(system, load, rank, variables) for rank in range(1, load.workers)]
            with nuisance:
                while ranks[0].process.poll() is None and time.monotonic() < until:
                    for one in ranks[1:]:
                        if one.process.poll() not in (None, 0) and system in COMES_BACK:
                            one.start()
                    time.sleep(0.05)
        finally:
            for one in ranks:
                one.end()
        reader.join()
    return lines


def _run_tarry(load: work.Workload, what: dict[str, float]) -> list[str]:
    options = ["-n", load.workers, "--quiet", "--threads", 1, "--straggler", load.straggler]
    options += ["--straggler-seed", load.seed, "--restarts", 1000, "--preload", "torch"]
    command = [sys.executable, "-m", "tarry.run", *options, HERE / "systems.py", "tarry", load.text()]
    lines: list[str] = []
    process = subprocess.Popen(
        [str(word) for word in command],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    def victims() -> list[int]:
        return [pid for number, pid in sorted(workers_of(process.pid).items()) if number > 0]

    with Nuisance(victims, **what) as nuisance:
        timer = threading.Timer(LIMIT_SECONDS, process.terminate)
        timer.start()
        for line in process.stdout or ():
            number, _, text = line.partition("] ")
            if number.strip("[ ") == "0":
                lines.append(text)
                if text == "begun\n":
                    nuisance.begin()
                if text.startswith("figures ") and what:  # who was stopped never ends
                    break
        timer.cancel()
    process.terminate()
    process.wait()
    return lines


def measure(system: str, load: work.Workload, nuisance: dict[str, float]) -> Figures:
    """Of worker 0."""
    begun = time.monotonic()
    lines = _run_tarry(load, nuisance) if system == "tarry" else _run_ranks(system, load, nuisance)
    told: list[dict[str, Any]] = [json.loads(line.partition(" ")[2]) for line in lines if line.startswith("figures ")]
    if not told:
        return Figures(None, [], None, why="hangs" if time.monotonic() - begun >= LIMIT_SECONDS else "ends")
    return Figures(told[0]["mean"], told[0]["gaps"], told[0]["goal"], told[0]["apart"])


def cell(runs: list[Figures], least: float) -> str:
    means = [one.mean for one in runs if one.mean is not None]
    if not means:
        return " and ".join(sorted({one.why for one in runs}))
    gaps = sorted(gap for one in runs for gap in one.gaps)
    goals = [one.goal for one in runs if one.goal is not None]
    goal = f"{statistics.median(goals):.1f} s" if goals else "not reached"
    mean = statistics.median(means)
    late = gaps[int(0.95 * len(gaps))] if gaps else mean
    text = f"{mean / least:.2f} ({late / least:.2f}), {goal}" if least else f"{mean * 1e3:.1f} ms ({late * 1e3:.1f})"
    lost = len(runs) - len(means)
    return text + (f"; {lost} of {len(runs)} runs ended or hung" if lost else "")


def _few(system: str, load: work.Workload) -> work.Workload:
    """Fewer steps for those of which each takes seconds."""
    return dataclasses.replace(load, steps=FEW_STEPS[system], skipped=2) if system in FEW_STEPS else load


def installed(system: str) -> bool:
    return system not in ("torchft", "hivemind") or importlib.util.find_spec(system) is not None


def _names(parser: argparse.ArgumentParser, text: str, what: str, known: Iterable[str]) -> list[str]:
    names = [one.strip() for one in text.split(",")]
    for name in names:
        if name not in known:
            parser.error(f"no {what} {name!r}; known: {', '.join(known)}")
    return names


def main(out: IO[str] = sys.stdout) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES), help=f"of {', '.join(CASES)}")
    parser.add_argument("--systems", default=",".join(systems.SYSTEMS), help=f"of {', '.join(systems.SYSTEMS)}")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=work.Workload.steps)
    options = parser.parse_args()
    wanted = _names(parser, options.systems, "system", systems.SYSTEMS)
    cases = _names(parser, options.cases, "case", CASES)
    for system in wanted:
        if not installed(system):
            print(f"{system} is not installed, and is left out", file=sys.stderr)
    chosen = [system for system in wanted if installed(system)]
    print("| delays | balanced, ms | " + " | ".join(chosen) + " |", file=out)
    print("| --- | --- | " + " | ".join("---" for _ in chosen) + " |", file=out)
    worst = 0.0
    for case in cases:
        straggler, nuisance = CASES[case]
        load = dataclasses.replace(work.Workload(), straggler=straggler, steps=options.steps)
        if case == "no compute":
            load = dataclasses.replace(load, seconds=0.0)
        if nuisance:
            load = dataclasses.replace(load, steps=3 * options.steps)  # what happens needs its time
        loads = {system: _few(system, load) for system in chosen}
        runs: dict[str, list[Figures]] = {system: [] for system in chosen}
        for _ in range(options.runs):
            for system in chosen:
                runs[system].append(measure(system, loads[system], nuisance))
        worst = max([worst, *(one.apart for found in runs.values() for one in found)])
        cells = [cell(runs[system], balanced(loads[system])) for system in chosen]
        print(f"| {case} | {balanced(load) * 1e3:.1f} | " + " | ".join(cells) + " |", file=out, flush=True)
    if "tarry" in chosen:
        print(
            f"Tarry's sums of {work.COMPARED} more steps: at most {worst:.1e} of their length from one process's",
            file=out,
        )


if __name__ == "__main__":
    main()
