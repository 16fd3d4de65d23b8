#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real compute by two processes, of which one is held to a share of a core, as a Markdown table: Tarry, DDP (Gloo), and
DDP without its overlap, which sums after the last backward.

Usage: python/bench/held.py [--shares S,S..] [--period MS] [--pieces N] [--steps N] [--runs R]     (as root: cgroups)

Times are those of a step over *balanced*: what a step would take if its pieces could be split at will and nothing else
took time. How fast both processes are is measured first, with both at work, one of them held, and nothing sent.
A control group gives the held process so much time in each period, and nothing more until the next one begins; with a
share of 1 nobody is held.
"""

import argparse
import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from typing import Any

import torch
from nuisances import workers_of
from processes import environment, free_port

ROOT = pathlib.Path("/sys/fs/cgroup")
SAMPLES, SIDE = 384, 512  # of a piece, and of each of three layers: d = 8e5
SKIPPED = 5  # steps before the clock runs
HELD = 1  # this worker


@contextlib.contextmanager
def control_group(share: float, period_ms: float) -> Generator[pathlib.Path]:
    """A file: processes whose number is written into it are held. Version 1 or 2, whichever is there."""
    period = round(period_ms * 1000)
    old = (ROOT / "cpu").is_dir()
    folder = (ROOT / "cpu" if old else ROOT) / f"tarry-held-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        sys.exit(f"no control group can be made: {error.strerror}")
    try:
        if old:
            (folder / "cpu.cfs_period_us").write_text(str(period))
            (folder / "cpu.cfs_quota_us").write_text(str(round(share * period)))
        else:
            (folder / "cpu.max").write_text(f"{round(share * period)} {period}")
        yield folder / "cgroup.procs"
    finally:
        until = time.monotonic() + 5
        while folder.exists() and time.monotonic() < until:
            with contextlib.suppress(OSError):  # its last process is ending
                folder.rmdir()
            time.sleep(0.05)


def new_model() -> torch.nn.Sequential:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    layers = [layer for _ in range(3) for layer in (torch.nn.Linear(SIDE, SIDE), torch.nn.GELU())]
    return torch.nn.Sequential(*layers)


def data(pieces: int) -> torch.Tensor:
    return torch.randn(pieces * SAMPLES, SIDE, generator=torch.Generator().manual_seed(1))


def loss_of(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return (model(x) - x).square().sum()


def alone(pieces: int, seconds: float) -> None:
    """Pieces, one after the other, without a sum; waits for a line first. Prints pieces a second."""
    model, x = new_model(), data(pieces)
    for piece in x.split(SAMPLES)[:3]:
        loss_of(model, piece).backward()
    print("ready", flush=True)
    input()
    begun, done = time.monotonic(), 0
    while time.monotonic() < begun + seconds:
        loss_of(model, x[:SAMPLES]).backward()
        done += 1
    print(done / (time.monotonic() - begun))


def tarry(pieces: int, steps: int) -> None:
    import tarry.torch as tt

    model = new_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with tt.join(model, optimizer, data=data(pieces), batch=pieces * SAMPLES, piece=SAMPLES, shuffle=False) as job:
        for step in job.steps(steps):
            for piece in step:
                with piece:
                    x = piece.batch
                    piece.backward(loss_of(model, x), weight=len(x))
            optimizer.step()
            tell(step.number, job.worker)


def ddp(pieces: int, steps: int, *, overlap: bool) -> None:
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    model = new_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    share = data(pieces).split(SAMPLES)[rank::2]
    for step in range(steps):
        optimizer.zero_grad()
        for place, x in enumerate(share):
            with contextlib.nullcontext() if overlap and place + 1 == len(share) else parallel.no_sync():
                (loss_of(parallel, x) / (len(share) * SAMPLES)).backward()
        if not overlap:
            sum_late(model)
        optimizer.step()
        tell(step, rank)


def sum_late(model: torch.nn.Module) -> None:
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    flat = torch.cat([one.reshape(-1) for one in gradients])
    torch.distributed.all_reduce(flat)
    for one, total in zip(gradients, flat.split([one.numel() for one in gradients]), strict=True):
        one.copy_(total.view(one.shape) / 2)


def tell(step: int, worker: int) -> None:
    if worker == 0:
        print("at", step, time.monotonic(), flush=True)


def _command(what: str, options: argparse.Namespace) -> list[str]:
    sizes = ["--pieces", options.pieces, "--steps", options.steps]
    return [str(word) for word in (__file__, "--worker", what, *sizes)]


def hold(group: pathlib.Path | None, pid: int) -> None:
    if group is not None:
        group.write_text(str(pid))


def speeds(group: pathlib.Path | None, options: argparse.Namespace) -> list[float]:
    """Pieces a second of both."""
    both = [
        subprocess.Popen(
            [sys.executable, *_command("alone", options)], env=environment(), text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]  # fmt: skip
    for process in both:
        assert process.stdout is not None
        process.stdout.readline()
    hold(group, both[HELD].pid)
    for process in both:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    return [float(process.communicate()[0]) for process in both]


def _run_tarry(group: pathlib.Path | None, options: argparse.Namespace) -> list[str]:
    command = [sys.executable, "-m", "tarry.run", "-n", "2", "--quiet", "--threads", "1", *_command("tarry", options)]
    process = subprocess.Popen(command, env=environment(), text=True, stdout=subprocess.PIPE)
    held: list[int] = []
    while not held and process.poll() is None:
        held = [pid for number, pid in workers_of(process.pid).items() if number == HELD]
    for pid in held:
        hold(group, pid)
    return [line.partition("] ")[2] for line in process.communicate()[0].splitlines()]


def _run_ddp(group: pathlib.Path | None, options: argparse.Namespace, what: str) -> list[str]:
    common = environment(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), WORLD_SIZE="2")
    both = [
        subprocess.Popen(
            [sys.executable, *_command(what, options)], env=common | {"RANK": str(rank)}, text=True,
            stdout=subprocess.PIPE,
        )
        for rank in range(2)
    ]  # fmt: skip
    hold(group, both[HELD].pid)
    first, _ = [process.communicate()[0] for process in both]
    return first.splitlines()


def step_seconds(lines: list[str]) -> float:
    """The mean."""
    told: list[Any] = [line.split()[1:] for line in lines if line.startswith("at ")]
    times = {int(step): float(at) for step, at in told if int(step) >= SKIPPED}
    first, last = min(times), max(times)
    return (times[last] - times[first]) / (last - first)


SYSTEMS: dict[str, Callable[[pathlib.Path | None, argparse.Namespace], list[str]]] = {
    "Tarry": _run_tarry,
    "DDP": lambda group, options: _run_ddp(group, options, "ddp"),
    "DDP without overlap": lambda group, options: _run_ddp(group, options, "late"),
}


def compare(share: float, options: argparse.Namespace) -> str:
    """A line of the table: medians, and least and most, over runs in which systems take turns."""
    balanced: list[float] = []
    found: dict[str, list[float]] = {name: [] for name in SYSTEMS}
    for _ in range(options.runs):
        with control_group(share, options.period) if share < 1 else contextlib.nullcontext() as group:
            balanced.append(options.pieces / sum(speeds(group, options)))
            for name, run in SYSTEMS.items():
                found[name].append(step_seconds(run(group, options)) / balanced[-1])
    cells = [f"{statistics.median(one):.2f} ({min(one):.2f} to {max(one):.2f})" for one in found.values()]
    return f"| {share:g} | {statistics.median(balanced) * 1e3:.0f} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shares", default="1,0.2", help="of a core, which one of the processes has at most")
    parser.add_argument("--period", type=float, default=10.0, metavar="MS")
    parser.add_argument("--pieces", type=int, default=64, help="of a step")
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker == "alone":
        alone(options.pieces, 4.0)
    elif options.worker == "tarry":
        tarry(options.pieces, options.steps)
    elif options.worker:
        ddp(options.pieces, options.steps, overlap=options.worker == "ddp")
    else:
        print(f"| share of a core | balanced, ms | {' | '.join(SYSTEMS)} |")
        print("| --- " * (2 + len(SYSTEMS)) + "|")
        for share in options.shares.split(","):
            print(compare(float(share), options), flush=True)


if __name__ == "__main__":
    main()
