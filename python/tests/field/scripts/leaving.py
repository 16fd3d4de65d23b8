# SPDX-License-Identifier: Apache-2.0
"""Ends a loop over job.steps before its last step.

leaving.py HOW [--at STEP] [--who WORKER] [--held WORKER] ..

HOW is what workers do after step STEP: break, stop, exit (sys.exit()); or before its sum: top, inside (in the middle of
the pieces). 'walk' breaks out of a loop over job.step; 'phases' out of a first loop, which a second one follows.
'fail' and 'fail-last' raise an exception, after the step or behind the loop; then the next chief stops the others.
--who: this worker alone does so. --held: this one is busy with a piece of step 3 until the others have done it.
"""

import argparse
import pathlib
import sys
import time
from typing import Any

import torch

import tarry.torch as tt

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "training" / "scripts"))
from lines import say

parser = argparse.ArgumentParser()
parser.add_argument("how")
parser.add_argument("--at", type=int, default=7)
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--who", type=int)
parser.add_argument("--held", type=int)
parser.add_argument("--sum", default="everywhere")
parser.add_argument("--engine", default="direct")
parser.add_argument("--parts", type=int, default=1)
parser.add_argument("--local", action="store_true")
parser.add_argument("--checkpoint", default="")
options = parser.parse_args()

torch.manual_seed(1)
model: Any = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(512, 4, generator=torch.Generator().manual_seed(1))


def loss_of(batch: torch.Tensor) -> tuple[torch.Tensor, int]:
    return model(batch).pow(2).sum(), len(batch)


def held(job: tt.Job, step: tt.Step) -> None:
    """The machine holds the worker up, until the others have ended or a minute is over."""
    until = time.monotonic() + 60
    while job.worker == options.held and step.number == 3 and time.monotonic() < until:
        if job.status()["done"] > options.at - (options.how == "inside"):
            return
        time.sleep(0.05)


def compute(job: tt.Job, step: tt.Step) -> bool:
    """False: the pieces are left."""
    if options.local:
        job.local_steps(2, lambda some: torch.optim.SGD(some, lr=0.01)).compute(step, loss_of)
        return True
    for piece in step:
        if leaves("inside", job, step):
            return False
        with piece:
            held(job, step)
            piece.backward(*loss_of(piece.batch))
    return True


def leaves(how: str, job: tt.Job, step: tt.Step) -> bool:
    """Or at the next step that the worker makes, if the machine held it up at that one."""
    return how == options.how and step.number >= options.at and options.who in (None, job.worker)


def train(job: tt.Job) -> None:
    for step in job.steps(options.steps):
        if leaves("top", job, step) or not compute(job, step):
            break
        optimizer.step()
        if leaves("break", job, step) or leaves("phases", job, step):
            break
        if leaves("stop", job, step):
            job.stop()
        if leaves("fail", job, step):
            raise RuntimeError("in its loop")
        if job.chief:
            say("chief", job.worker, step.number)
            if options.how == "fail" and job.worker != options.who:
                job.stop()
        if leaves("exit", job, step):
            sys.exit()


def walk(job: tt.Job) -> None:
    while step := job.step(loss_of, options.steps):
        optimizer.step()
        if leaves("walk", job, step):
            break


try:
    with tt.join(
        model, optimizer, data=data, batch=256, piece=16, sum=options.sum, engine=options.engine,
        parts=options.parts,
        checkpoint=options.checkpoint, checkpoint_seconds=3600,
    ) as job:  # fmt: skip
        say("begins", job.worker, job.done)
        (walk if options.how == "walk" else train)(job)
        if options.how == "phases":
            say("between", job.worker, job.done)
            options.at = options.steps
            train(job)
    if job.chief:
        say("last", job.worker)
    if options.how == "fail-last" and job.worker == options.who:
        raise RuntimeError("behind its loop")
finally:
    say("end", job.worker, job.done, model.weight.detach().flatten().tolist())
