# SPDX-License-Identifier: Apache-2.0
"""A training of which some workers step to other bits than the others.

drift.py STEPS [--odd W ..] [--first STEP] [--for N] [--buffer] [--sum WHERE] [--engine E] [--local] [--watch]

Odd workers move the last bit of a parameter (or of a buffer) after each step from --first on, --for so many steps. With
--watch the chief alone runs forward after each step.
Prints 'lost WORKER STEP', 'step WORKER STEP' with --seconds, which each piece sleeps, and 'end WORKER STEPS DIGEST' of
model and optimizer.
"""

import argparse
import hashlib
import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "training" / "scripts"))
from lines import say

import tarry.torch as tt

parser = argparse.ArgumentParser()
parser.add_argument("steps", type=int)
parser.add_argument("--odd", type=int, nargs="*", default=[])
parser.add_argument("--first", type=int, default=0)
parser.add_argument("--for", dest="count", type=int, default=1000)
parser.add_argument("--buffer", action="store_true")
parser.add_argument("--sum", default="everywhere")
parser.add_argument("--engine", default="direct")
parser.add_argument("--watch", action="store_true")
parser.add_argument("--local", action="store_true")
parser.add_argument("--reproducible", action="store_true")
parser.add_argument("--seconds", type=float, default=0.0)
options = parser.parse_args()

torch.manual_seed(1)
model = torch.nn.Sequential(
    torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(8, 32)),
    torch.nn.BatchNorm1d(32),
    torch.nn.GELU(),
    torch.nn.LayerNorm(32),
    torch.nn.Linear(32, 1),
)
model.register_buffer("constant", torch.ones(3))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
inputs = torch.randn(64, 8)
data = (inputs, inputs.sum(1, keepdim=True))


def loss_of(batch: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, int]:
    time.sleep(options.seconds)
    return ((model(batch[0]) - batch[1]) ** 2).sum(), len(batch[1])


with tt.join(
    model, optimizer, scheduler, data=data, batch=32, piece=4, sum=options.sum, engine=options.engine,
    reproducible=options.reproducible,
) as job:  # fmt: skip
    odd = job.worker in options.odd
    inner = job.local_steps(2, lambda every: torch.optim.SGD(every, lr=0.01)) if options.local else None
    for step in job.steps(options.steps):
        if inner is None:
            step.compute(loss_of)
        else:
            inner.compute(step, loss_of)
        optimizer.step()
        scheduler.step()
        if odd and options.first <= step.number < options.first + options.count:
            with torch.no_grad():
                moved = model.constant if options.buffer else model[4].weight[0]
                moved[1] = torch.nextafter(moved[1], torch.tensor(9.0))
        if job.chief and options.watch:
            model(inputs)
        if step.lost:
            say("lost", job.worker, step.number)
        if options.seconds:
            say("step", job.worker, step.number)
    digest = hashlib.sha256()
    for one in (*model.state_dict().values(), *optimizer.state_dict()["state"][0].values()):
        digest.update(str(one.reshape(-1).tolist()).encode())
    say("end", job.worker, job.done, digest.hexdigest()[:16])
