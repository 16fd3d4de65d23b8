# SPDX-License-Identifier: Apache-2.0
"""A small network with differential privacy.

private.py STEPS --dp TEXT [--checkpoint FILE] [--seconds S] [--report N] [--check]

Prints 'step WORKER NUMBER' each N steps, and 'end WORKER STEPS DIGEST EPSILON'. --check: each step's gradient, less the
sum of the clipped gradients of the samples that were drawn, is the noise; 'noise WORKER MEAN SQUARE' is told of it, as
shares of its deviation, over all steps, and 'drawn WORKER N', how many samples there were.
"""

import argparse
import hashlib
import time

import torch
from lines import say

import tarry.torch as tt

parser = argparse.ArgumentParser()
parser.add_argument("steps", type=int)
parser.add_argument("--dp", default="clip:1,noise:1,sample:0.1")
parser.add_argument("--checkpoint", default="")
parser.add_argument("--seconds", type=float, default=0.0)
parser.add_argument("--report", type=int, default=0)
parser.add_argument("--check", action="store_true")
options = parser.parse_args()

SAMPLES, CLIP = 600, 0.7  # CLIP is what --check has to be called with
torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(10, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
inputs = torch.randn(SAMPLES, 10, generator=torch.Generator().manual_seed(1))
data = (inputs, inputs.sum(1, keepdim=True) ** 2)
loss_of = torch.nn.MSELoss(reduction="sum")


def clipped_sum(samples: list[int]) -> torch.Tensor:
    """One sample after the other."""
    total = torch.zeros(sum(one.numel() for one in model.parameters()), dtype=torch.float64)
    for sample in samples:
        x, y = (one[sample : sample + 1] for one in data)
        found = torch.autograd.grad(loss_of(model(x), y), list(model.parameters()))
        gradient = torch.cat([one.reshape(-1).double() for one in found])
        total += gradient * min(1.0, CLIP / float(gradient.norm()))
    return total


def drawn(job: tt.Job, number: int) -> list[int]:
    return [sample for unit in range(job.permutation.units) for sample in job.permutation.samples_of(number, unit)]


def digest() -> str:
    text = hashlib.sha256()
    for value in model.state_dict().values():
        text.update(value.contiguous().numpy().tobytes())
    return text.hexdigest()[:16]


noise: list[torch.Tensor] = []
seen = 0
with tt.join(
    model, optimizer, data=data, piece=8, seed=3, sum="server", dp=options.dp, checkpoint=options.checkpoint,
    checkpoint_seconds=0.3,
) as job:  # fmt: skip
    say("begins", job.worker, job.done)
    for step in job.steps(options.steps):
        expected = clipped_sum(drawn(job, step.number)) if options.check else None
        for piece in step:
            with piece:
                time.sleep(options.seconds)
                piece.private(lambda batch: loss_of(model(batch[0]), batch[1]))
        if expected is not None:
            found = torch.cat([one.grad.reshape(-1).double() for one in model.parameters() if one.grad is not None])
            noise.append(found * job.permutation.expected - expected)
            seen += len(drawn(job, step.number))
        optimizer.step()
        if options.report and step.number % options.report == 0:
            say("step", job.worker, step.number)
    if options.check:
        rest = torch.cat(noise) / (job.permutation.terms.noise * job.permutation.terms.clip)
        say("noise", job.worker, float(rest.mean()), float(rest.square().mean()), rest.numel())
        say("drawn", job.worker, seen)
    say("end", job.worker, job.done, digest(), job.epsilon)
