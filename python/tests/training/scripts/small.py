# SPDX-License-Identifier: Apache-2.0
"""A small network with all that needs care: batch norm, dropout, a scheduler, clipping, an uneven last batch.

small.py STEPS [--checkpoint FILE] [--seconds S] [--reproducible] [--check] [--sum WHERE] ..

Prints 'end WORKER STEPS DIGEST' of model, optimizer and scheduler. --check:
each step's gradient is compared with that of one process. --deaths FILE: workers but the first die in the middle of
a sum over process groups, each in the fifth of its life, until FILE has --most-deaths bytes, one for each.
--slowly-until FILE: pieces take a tenth of a second until FILE is there, so that whoever is to come finds some left.
--halves: the steps come by two calls of job.steps. --compress FORM, --share F, --rank R: gradients are sent so,
and sums come back by --down FORM. With --check it
prints 'off MOST LAST', how far the sums of all steps are from their own sum, at most and at the end, 'exact X',
how far mean losses and weights are, as a share of them, and 'each X ..', how far the gradient of each step is from that
of one process, as a share of that one's length.
"""

import argparse
import fcntl
import hashlib
import itertools
import os
import random
import signal
import time

import torch
from lines import say

import tarry.torch as tt
from tarry.engine import EngineSum
from tarry.torch.collective import Collective
from tarry.torch.seeding import seed_all

parser = argparse.ArgumentParser()
parser.add_argument("steps", type=int)
parser.add_argument("--checkpoint", default="")
parser.add_argument("--seconds", type=float, default=0.0)
parser.add_argument("--reproducible", action="store_true")
parser.add_argument("--check", action="store_true")
parser.add_argument("--samples", type=int, default=500)
parser.add_argument("--hidden", type=int, default=16)
parser.add_argument("--parts", type=int, default=1)
parser.add_argument("--engine", default="direct")
parser.add_argument("--deaths", default="")
parser.add_argument("--most-deaths", type=int, default=0)
parser.add_argument("--sum", default="everywhere")
parser.add_argument("--compress", default="none")
parser.add_argument("--share", type=float, default=0.0)
parser.add_argument("--rank", type=int, default=0)
parser.add_argument("--down", default="none")
parser.add_argument("--noise", type=float, default=0.0)
parser.add_argument("--report", type=int, default=0)
parser.add_argument("--slowly-until", default="")
parser.add_argument("--halves", action="store_true")
options = parser.parse_args()

torch.manual_seed(7)
model = torch.nn.Sequential(
    torch.nn.Linear(10, options.hidden),
    torch.nn.BatchNorm1d(options.hidden),
    torch.nn.Tanh(),  # at the corner of ReLU the last bit of a sum would decide on a whole gradient
    torch.nn.Dropout(0.2),
    torch.nn.Linear(options.hidden, 1),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 20)
generator = torch.Generator().manual_seed(1)
inputs = torch.randn(options.samples, 10, generator=generator)
data = (inputs, inputs.sum(1, keepdim=True) ** 2)
loss_of = torch.nn.MSELoss(reduction="sum")


def serial_gradient(job: tt.Job, number: int) -> tuple[list[torch.Tensor], float, int]:
    """The mean over the batch by one process, piece by piece, and that of the loss; and how many samples it has."""
    kept = [parameter.grad for parameter in model.parameters()]
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    for parameter in model.parameters():
        parameter.grad = None
    weight, total = 0, 0.0
    for unit in range(job.permutation.units):
        samples = job.permutation.indices(number, unit)
        if len(samples) == 0:
            continue
        seed_all(job.permutation.seed, number, unit)
        x, y = (one[torch.from_numpy(samples)] for one in data)
        loss = loss_of(model(x), y)
        loss.backward()
        total += float(loss.detach())
        weight += len(y)
    found = [parameter.grad / weight for parameter in model.parameters()]
    for parameter, gradient in zip(model.parameters(), kept, strict=True):
        parameter.grad = gradient
    for name, value in model.named_buffers():
        value.copy_(buffers[name])
    return found, total / weight, weight


def length_of(gradient: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([one.reshape(-1) for one in gradient]).norm()


def digest() -> str:
    """Of everything that all workers must have alike."""
    text = hashlib.sha256()
    for value in model.state_dict().values():
        text.update(value.contiguous().numpy().tobytes())
    for entry in optimizer.state_dict()["state"].values():
        for value in entry.values():
            text.update(torch.as_tensor(value).contiguous().numpy().tobytes())
    text.update(repr(sorted(scheduler.state_dict().items())).encode())
    return text.hexdigest()[:16]


def claim_death() -> bool:
    """Whether one is left; others may ask at the same time."""
    with open(options.deaths, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        left = os.path.getsize(options.deaths) < options.most_deaths
        file.write(b"." if left else b"")
        return left


def die_in_sums() -> None:
    start, draws, sums = Collective.start, random.Random(os.getpid()), itertools.count(1)

    def start_and_die(own: Collective, wanted: EngineSum) -> None:
        start(own, wanted)
        if next(sums) == 5 and claim_death():
            time.sleep(draws.random() / 100)
            os.kill(os.getpid(), signal.SIGKILL)

    Collective.start = start_and_die


if options.deaths and os.environ["TARRY_WORKER"] != "0":
    die_in_sums()


def pause() -> None:
    slowly = options.slowly_until and not os.path.exists(options.slowly_until)
    time.sleep(0.1 if slowly else options.seconds)


worst = inexact = most_off = last_off = 0.0
each: list[float] = []
off = [torch.zeros_like(one) for one in model.parameters()]
noise = torch.Generator().manual_seed(os.getpid())
with tt.join(
    model, optimizer, scheduler, data=data, batch=96, piece=8, seed=3, checkpoint=options.checkpoint,
    checkpoint_seconds=0.3, reproducible=options.reproducible, parts=options.parts,
    sum=options.sum, engine=options.engine, compress=options.compress, compress_share=options.share,
    compress_rank=options.rank, compress_down=options.down,
    metrics=("error",),
) as job:  # fmt: skip
    say("begins", job.worker, job.done)
    calls = [options.steps // 2, options.steps] if options.halves else [options.steps]
    for step in itertools.chain.from_iterable(job.steps(steps) for steps in calls):
        if options.check:
            serial, loss, weight = serial_gradient(job, step.number)
        for piece in step:
            with piece:
                x, y = piece.batch
                pause()
                found = model(x)
                if options.noise:  # of its own for each process
                    found = found + options.noise * torch.randn(found.shape, generator=noise)
                piece.add(error=float((found - y).detach().abs().sum()))
                piece.backward(loss_of(found, y), weight=len(y))
        if options.check and not step.lost:
            largest = max(float(one.abs().max()) for one in serial)
            for own, other in zip(model.parameters(), serial, strict=True):
                worst = max(worst, float((own.grad - other).abs().max()) / largest)
            apart = [own.grad - other for own, other in zip(model.parameters(), serial, strict=True)]
            each.append(float(length_of(apart) / length_of(serial)))
            for sums, own, other in zip(off, model.parameters(), serial, strict=True):
                sums += weight * (own.grad - other)
            last_off = max(float(sums.abs().max()) for sums in off) / (weight * largest)
            most_off = max(most_off, last_off)
            for own, other in ((step.metrics["loss"], loss), (step.metrics["weight"], weight)):
                inexact = max(inexact, abs(own - other) / other)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if options.report and step.number % options.report == 0:
            say("step", job.worker, step.number, step.lost)
    say("worst", worst)
    if options.check:
        say("off", most_off, last_off)
        say("exact", inexact)
        say("each", *each)
    say("end", job.worker, job.done, digest())
