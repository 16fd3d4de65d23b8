# SPDX-License-Identifier: Apache-2.0
"""The same training by Accelerate's ways: accelerated.py STEPS PRECISION [--alone] [--sum WHERE].

Prints 'end WORKER STEPS DIGEST' of the parameters, and 'loss ..' of the last step. --alone: without Tarry.
"""

import argparse
import hashlib

import torch
from accelerate import Accelerator
from lines import say

import tarry.torch.accelerate
from tarry.torch.permutation import Permutation

BATCH, PIECE, SEED = 64, 8, 3
parser = argparse.ArgumentParser()
parser.add_argument("steps", type=int)
parser.add_argument("precision")
parser.add_argument("--alone", action="store_true")
parser.add_argument("--sum", default="everywhere")
options = parser.parse_args()

torch.manual_seed(7)
accelerator = Accelerator(mixed_precision=options.precision, cpu=True)
model = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
inputs = torch.randn(320, 10, generator=torch.Generator().manual_seed(1))
samples = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
loader = torch.utils.data.DataLoader(samples, batch_size=PIECE, shuffle=True)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
loss_of = torch.nn.MSELoss(reduction="sum")


def end_step() -> None:
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()


def tell(worker: int) -> None:
    found = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    torch.set_printoptions(precision=8)
    say("end", worker, options.steps, hashlib.sha256(found.numpy().tobytes()).hexdigest()[:16])
    say("sum", float(found.abs().sum()), "rate", optimizer.param_groups[0]["lr"])


if options.alone:
    order = Permutation(len(samples), BATCH, PIECE, seed=SEED, shuffle=True, drop_last=False)
    for number in range(options.steps):
        optimizer.zero_grad()
        for unit in range(order.units):
            x, y = samples[order.indices(number, unit)]
            accelerator.backward(loss_of(model(x), y) / BATCH)
        end_step()
    tell(0)
else:
    with tarry.torch.accelerate.join(
        accelerator, model, optimizer, scheduler, data=loader, batch=BATCH, seed=SEED, sum=options.sum
    ) as job:
        while step := job.step(lambda batch: (loss_of(model(batch[0]), batch[1]), len(batch[1])), options.steps):
            end_step()
        tell(job.worker)
