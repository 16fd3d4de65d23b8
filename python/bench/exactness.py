#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far a training by several workers is from one process, on the small GPT of python/examples/gpt.py.

    python/bench/exactness.py [--steps N] [--kills SECONDS] [--sum WHERE]

Runs 4 workers with delays of exp:0.02 under `tarry run`, one of which is killed every so many seconds and comes back.
In each step worker 0, which is spared, works out the gradient of the whole batch by itself, with the same parameters,
and compares. Then the parameters at the end are compared with those of a serial training, and these with another serial
one, which goes through the pieces of each step in the opposite order. The exit status is 1 where a limit is not kept.
"""

import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "examples"))
import gpt  # noqa: E402
from nuisances import workers_of  # noqa: E402

import tarry.torch as tt  # noqa: E402
from tarry.torch.permutation import Permutation  # noqa: E402
from tarry.torch.seeding import seed_all  # noqa: E402

GRADIENT_LIMIT = 1e-6  # of its length
PARAMETER_LIMIT = 3  # times what two serial orders are apart
WORKERS, BATCH, PIECE, SEED = 4, 64, 4, 1


def training() -> tuple[torch.nn.Module, torch.optim.Optimizer, gpt.Text]:
    torch.manual_seed(1)
    model = gpt.GPT()
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3), gpt.Text(gpt.read_pages())


def add_serial(model: torch.nn.Module, data: gpt.Text, order: Permutation, step: int, *, backwards: bool) -> None:
    """The mean gradient of the batch is in `.grad`."""
    model.zero_grad()
    weight = 0
    units = range(order.units)
    for unit in reversed(units) if backwards else units:
        indices = order.indices(step, unit)
        if len(indices) == 0:
            continue
        seed_all(SEED, step, unit)
        text = torch.stack([data[int(index)] for index in indices])
        gpt.loss_of(model, text).backward()
        weight += text[:, 1:].numel()
    for parameter in model.parameters():
        parameter.grad /= weight


def serial(steps: int, *, backwards: bool) -> torch.Tensor:
    model, optimizer, data = training()
    order = Permutation(len(data), BATCH, PIECE, seed=SEED, shuffle=True, drop_last=False)
    for step in range(steps):
        add_serial(model, data, order, step, backwards=backwards)
        optimizer.step()
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach()


def work(steps: int, where: str, into: str) -> None:
    """One worker."""
    model, optimizer, data = training()
    with tt.join(model, optimizer, data=data, batch=BATCH, piece=PIECE, seed=SEED, sum=where) as job:
        with open(f"{into}/joins", "a") as joins:
            print(job.worker, job.done, file=joins)
        worst, lost = 0.0, 0
        for step in job.steps(steps):
            mine = None
            if job.worker == 0:
                add_serial(model, data, job.permutation, step.number, backwards=False)
                mine = torch.cat([parameter.grad.reshape(-1) for parameter in model.parameters()]).clone()
            for piece in step:
                with piece:
                    text = piece.batch
                    piece.backward(gpt.loss_of(model, text), weight=text[:, 1:].numel())
            lost += step.lost
            if mine is not None and not step.lost:
                summed = torch.cat([parameter.grad.reshape(-1) for parameter in model.parameters()])
                worst = max(worst, float((summed - mine).norm() / mine.norm()))
            optimizer.step()
        vector = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
        torch.save({"parameters": vector, "worst": worst, "lost": lost}, f"{into}/{job.worker}.pt")


def launch(steps: int, kills: float, where: str, into: str) -> int:
    """Gives how many workers were killed."""
    options = ["-n", WORKERS, "--restarts", 1000, "--preload", "torch", "--straggler", "exp:0.02", "--quiet"]
    script = [__file__, "--steps", steps, "--sum", where, "--worker", into]
    command = [sys.executable, "-m", "tarry.run", *options, *script]
    process = subprocess.Popen([str(word) for word in command])
    chosen, killed = random.Random(1), 0
    while process.poll() is None:
        time.sleep(kills)
        victims = [pid for number, pid in sorted(workers_of(process.pid).items()) if number > 0]
        if victims and process.poll() is None:
            os.kill(chosen.choice(victims), signal.SIGKILL)
            killed += 1
    if process.returncode != 0:
        sys.exit("the training failed")
    return killed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--kills", type=float, default=4.0, metavar="SECONDS")
    parser.add_argument("--sum", default="everywhere", choices=["everywhere", "server"], help="who makes it")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.steps, options.sum, options.worker)
        return
    with tempfile.TemporaryDirectory() as folder:
        killed = launch(options.steps, options.kills, options.sum, folder)
        ends = {path.stem: torch.load(path) for path in sorted(pathlib.Path(folder).glob("*.pt"))}
        joins = len(pathlib.Path(folder, "joins").read_text().splitlines()) - WORKERS
    first = ends["0"]
    alike = sum(bool((end["parameters"] == first["parameters"]).all()) for end in ends.values())
    torch.set_num_threads(1)
    one, other = serial(options.steps, backwards=False), serial(options.steps, backwards=True)
    apart = float((one - other).abs().max())
    ours = float((first["parameters"] - one).abs().max())
    print(f"{options.steps} steps of AdamW, {killed} kills, {joins} joins; worker 0 lost {first['lost']} steps")
    kept = [
        told(
            f"gradients from those of one process: {first['worst']:.1e} of their length", first["worst"], GRADIENT_LIMIT
        ),
        told(f"workers whose parameters differ at the end or are missing: {WORKERS - alike}", WORKERS - alike, 0),
        told(f"parameters from those of one process: {ours:.2e}", ours, PARAMETER_LIMIT * apart),
    ]
    print(f"parameters of two serial orders from each other: {apart:.2e}")
    sys.exit(not all(kept))


def told(text: str, found: float, limit: float) -> bool:
    """Prints the line; true where the limit is kept."""
    print(f"{text}, at most {limit:.3g} wanted{'' if found <= limit else ': TOO MUCH'}")
    return found <= limit


main()
