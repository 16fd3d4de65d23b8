# SPDX-License-Identifier: Apache-2.0
"""Evaluates each third step: evaluating.py STEPS [--stop FILE]

Prints 'evaluated STEP LOSS NEAR', 'apart X' (the largest difference from one process's, of its size) and 'pieces N'.
With --stop the worker that comes first to a piece of an evaluation makes the file, and stands there until it is killed.
"""

import argparse
import os
import pathlib
import time

import torch
from lines import say

import tarry.torch as tt

parser = argparse.ArgumentParser()
parser.add_argument("steps", type=int)
parser.add_argument("--stop", type=pathlib.Path)
options = parser.parse_args()

torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(10, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
inputs, unseen = torch.randn(300, 10), torch.randn(100, 10)
data = (inputs, inputs.sum(1, keepdim=True))
held_out = (unseen, unseen.sum(1, keepdim=True))
loss_of = torch.nn.MSELoss(reduction="sum")
pieces, apart = 0, 0.0


def of_batch(batch: list[torch.Tensor]) -> tuple[torch.Tensor, float, dict[str, float]]:
    x, y = batch
    found = model(x)
    return loss_of(found, y), len(y), {"near": float(((found - y).abs() < 1).sum())}


def is_first(path: pathlib.Path) -> bool:
    """Whether no worker was there before, in any life: whoever is, makes the file."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def of_held_out(batch: list[torch.Tensor]) -> tuple[torch.Tensor, float, dict[str, float]]:
    global pieces
    pieces += 1
    time.sleep(0.01)
    if options.stop and is_first(options.stop):
        say("stands in a piece", os.getpid())
        time.sleep(600)
    return of_batch(batch)


with tt.join(model, optimizer, data=data, batch=60, piece=5, seed=3, metrics=("near",)) as job:
    for step in job.steps(options.steps):
        step.compute(of_batch)
        optimizer.step()
        if step.number % 3 == 2 and not step.lost:
            told = job.evaluate(held_out, of_held_out, piece=8)
            say("evaluated", step.number + 1, told["loss"].hex(), told["near"].hex())
            model.eval()
            with torch.no_grad():
                loss, weight, _ = of_batch(list(held_out))
            model.train()
            apart = max(apart, abs(told["loss"] - float(loss) / weight) / told["loss"])
    say("apart", apart)
    say("pieces", pieces)
