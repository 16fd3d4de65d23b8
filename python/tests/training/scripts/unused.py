# SPDX-License-Identifier: Apache-2.0
"""Branches of a model that only some samples use, or none: unused.py [--sum WHERE] [--parts P] [--compress FORM]
[--engine E] [--busy] [--secure]

Samples 0 to 7 use branch 'few', in step 0 and in each third step 'often' is used by all, and 'never' is what it says.
Each step asserts that the branches with a gradient are those of PyTorch alone. Prints 'apart WORKER BRANCH X', the
largest difference from PyTorch alone, and 'end WORKER STEPS LOST DIGEST'.
"""

import argparse
import hashlib
import os
import time

import torch
from lines import say

import tarry.torch as tt

parser = argparse.ArgumentParser()
parser.add_argument("--sum", default="everywhere")
parser.add_argument("--parts", type=int, default=1)
parser.add_argument("--compress", default="none")
parser.add_argument("--engine", default="direct")
parser.add_argument("--busy", action="store_true")
parser.add_argument("--secure", action="store_true")
options = parser.parse_args()
last = int(os.environ["TARRY_WORKER"]) == int(os.environ["TARRY_WORKERS"]) - 1

STEPS, SAMPLES, BATCH, PIECE = 9, 96, 32, 4
if options.secure:
    torch.use_deterministic_algorithms(True)
    BATCH = SAMPLES
inputs = torch.randn(SAMPLES, 5, generator=torch.Generator().manual_seed(2))
inputs[:, 0] = torch.arange(SAMPLES) < 8
target = inputs.sum(1, keepdim=True)


class Branches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.always, self.few, self.often, self.never = (torch.nn.Linear(5, 1) for _ in range(4))
        self.step = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.always(x)
        few = x[:, 0] > 0
        if few.any():
            found = found + torch.zeros_like(found).masked_scatter(few[:, None], self.few(x[few]))
        return found + self.often(x) if self.step % 3 == 0 else found


def optimizer_of(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.1)


def loss_of(model: Branches, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return ((model(x) - y) ** 2).sum()


alone = Branches()
optimizer = optimizer_of(alone)
used: list[set[str]] = []
for step in range(STEPS):
    optimizer.zero_grad(set_to_none=True)
    alone.step = step
    batch = [(step * BATCH + place) % SAMPLES for place in range(BATCH)]
    (loss_of(alone, inputs[batch], target[batch]) / BATCH).backward()
    used.append({name for name, one in alone.named_children() if one.weight.grad is not None})
    optimizer.step()

model = Branches()
optimizer = optimizer_of(model)
more = {"batch": BATCH, "shuffle": False}
if options.secure:
    more = {"secure": True, "secure_bound": 400.0, "secure_piece_samples": PIECE}
lost = 0
with tt.join(
    model, optimizer, data=(inputs, target), piece=PIECE, sum=options.sum, parts=options.parts,
    compress=options.compress, engine=options.engine, **more,
) as job:  # fmt: skip
    for step in job.steps(STEPS):
        model.step = step.number
        if options.busy and last and step.number == 2:
            while job.status()["done"] < STEPS:
                time.sleep(0.05)
        for piece in step:
            with piece:
                x, y = piece.batch
                piece.backward(loss_of(model, x, y), weight=len(y))
        lost += step.lost
        found = {name for name, one in model.named_children() if one.weight.grad is not None}
        assert step.lost or found == used[step.number], (step.number, found, used[step.number])
        optimizer.step()
    for name, one in model.named_children():
        other = getattr(alone, name)
        apart = max(
            float((own - its).abs().max()) for own, its in zip(one.parameters(), other.parameters(), strict=True)
        )
        say("apart", job.worker, name, apart)
    text = hashlib.sha256()
    for one in (*model.parameters(), *(value for entry in optimizer.state.values() for value in entry.values())):
        text.update(torch.as_tensor(one).detach().numpy().tobytes())
    say("end", job.worker, job.done, lost, text.hexdigest()[:16])
