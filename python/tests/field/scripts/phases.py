# SPDX-License-Identifier: Apache-2.0
"""Several trainings in one script.

phases.py phases FOLDER     first the head alone, then all. Worker 1 dies once in the second phase, if FOLDER is given
phases.py at-once           two models with steps in turn, as a GAN has
phases.py both              all of this, one after the other

Prints 'end WORKER STEPS DIGEST' after each training, the worker's number with the name of the training behind it.
"""

import hashlib
import os
import pathlib
import signal
import sys

import torch

import tarry.torch as tt

what, *folder = sys.argv[1:]
own = int(os.environ.get("TARRY_WORKER", os.environ.get("RANK", "0")))
data = torch.randn(64, 4, generator=torch.Generator().manual_seed(1))


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def network(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))


def loss_of(model):
    return lambda batch: ((model(batch) - batch.sum(1, keepdim=True)).pow(2).sum(), len(batch))


def end(name, job, model):
    numbers = b"".join(one.detach().numpy().tobytes() for one in model.parameters())
    say(f"end {job.worker}{name} {job.done} {hashlib.blake2b(numbers, digest_size=8).hexdigest()}")


def train(name, model, optimizer, steps, *, dies=False):
    with tt.join(model, optimizer, data=data, batch=32, piece=4, reproducible=True) as job:
        for step in job.steps(steps):
            if dies and step.number == 5 and own == 1 and not (died := pathlib.Path(folder[0], "died")).exists():
                died.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            step.compute(loss_of(model))
            optimizer.step()
    end(name, job, model)


def phases():
    model = network(1)
    model[0].requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    train("a", model, optimizer, 10)
    model[0].requires_grad_(True)
    train("b", model, optimizer, 20, dies=bool(folder))
    say(f"steps of the head {int(optimizer.state[model[2].weight]['step'])}")


def joined(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    return optimizer, tt.join(model, optimizer, data=data, batch=32, piece=4, reproducible=True)


def at_once():
    first, second = network(1), network(2)
    (one, job), (other, more) = joined(first), joined(second)
    with job, more:
        while job.step(loss_of(first), 8):
            one.step()
            assert more.step(loss_of(second), 8) is not None
            other.step()
        assert more.step(loss_of(second), 8) is None
    end("c", job, first)
    end("d", more, second)


if what in ("phases", "both"):
    phases()
if what in ("at-once", "both"):
    at_once()
