# SPDX-License-Identifier: Apache-2.0
"""Local steps of Adam under an outer Nesterov momentum: local.py STEPS [--seconds S] [--report N] [--sum WHERE]

Prints 'apart X', the largest difference of a parameter from one process's, and 'end WORKER STEPS DIGEST'.
"""

import argparse
import copy
import hashlib
import time

import torch
from lines import say

import tarry.torch as tt
from tarry.torch.seeding import seed_all

INNER = 4
parser = argparse.ArgumentParser()
parser.add_argument("steps", type=int)
parser.add_argument("--seconds", type=float, default=0.0)
parser.add_argument("--report", type=int, default=0)
parser.add_argument("--sum", default="everywhere")
options = parser.parse_args()

torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1))
plain = copy.deepcopy(model)
inputs = torch.randn(400, 6)
data = (inputs, inputs.sum(1, keepdim=True))
loss_fn = torch.nn.MSELoss(reduction="sum")


def outer_of(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.8, nesterov=True)


def inner_of(parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=0.01)


def of_batch(batch: list[torch.Tensor]) -> tuple[torch.Tensor, float]:
    time.sleep(options.seconds)
    x, y = batch
    return loss_fn(model(x), y), len(y)


def serial(job: tt.Job) -> None:
    """The same rounds by one process."""
    outer = outer_of(plain)
    for number in range(options.steps):
        start = [one.detach().clone() for one in plain.parameters()]
        total, count = [torch.zeros_like(one) for one in start], 0
        for unit in range(job.permutation.units):
            samples = torch.tensor(job.permutation.samples_of(number, unit))
            if len(samples) == 0:
                continue
            seed_all(job.permutation.seed, number, unit)
            inner = inner_of(list(plain.parameters()))
            for part in samples.tensor_split(INNER):
                inner.zero_grad()
                torch.nn.functional.mse_loss(plain(data[0][part]), data[1][part]).backward()
                inner.step()
            with torch.no_grad():
                for own, one, kept in zip(total, plain.parameters(), start, strict=True):
                    own += (kept - one) * len(samples)
                    one.copy_(kept)
            count += len(samples)
        for one, own in zip(plain.parameters(), total, strict=True):
            one.grad = own / count
        outer.step()


outer = outer_of(model)
with tt.join(model, outer, data=data, batch=120, piece=12, seed=3, sum=options.sum) as job:
    inner = job.local_steps(INNER, inner_of)
    for step in job.steps(options.steps):
        inner.compute(step, of_batch)
        outer.step()
        if options.report and step.number % options.report == 0:
            say("step", job.worker, step.number, step.lost)
    if job.chief:
        serial(job)
        pairs = zip(model.parameters(), plain.parameters(), strict=True)
        say("apart", max(float((own - other).abs().max()) for own, other in pairs))
    vector = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    say("end", job.worker, job.done, hashlib.sha256(vector.numpy().tobytes()).hexdigest()[:16])
