# SPDX-License-Identifier: Apache-2.0
"""A model whose forward changes unnamed buffers in all the usual ways.

buffers.py STEPS [--sum WHERE] [--engine E] [--parts P] [--reproducible] [--local] [--checkpoint FILE] [--seconds S]
           [--named]

Prints 'end WORKER STEPS DIGEST' of parameters, buffers and what the model gives in its eval mode; 'step WORKER N' with
--seconds, which each piece sleeps; and, by the first worker, 'off X', how far buffers and parameters are from those of
a plain loop of one process, and 'serial NAME' for each whole number, flag or count that is another.
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
parser.add_argument("--sum", default="everywhere")
parser.add_argument("--engine", default="direct")
parser.add_argument("--parts", type=int, default=1)
parser.add_argument("--reproducible", action="store_true")
parser.add_argument("--local", action="store_true")
parser.add_argument("--named", action="store_true")
parser.add_argument("--checkpoint", default="")
parser.add_argument("--seconds", type=float, default=0.0)
options = parser.parse_args()
BATCH, PIECE, SAMPLES = 24, 4, 88  # the last batch of an epoch has 16 samples, and its last two units none


class Counter(torch.nn.Module):
    """Is in two places of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return inputs


class Zoo(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.spectral = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(6, 6))
        self.last = torch.nn.Linear(6, 1)
        self.first = self.second = Counter()
        for name, value in {
            "scale": torch.ones(1), "seen": torch.zeros(6, dtype=torch.bool), "turned": torch.zeros(3, 2).t(),
            "brief": torch.zeros(6, dtype=torch.bfloat16), "through_data": torch.zeros(6),
            "through_numpy": torch.zeros(6), "through_view": torch.zeros(2, 3),
            "moved": torch.zeros(6), "shaped": torch.zeros(1), "now_and_then": torch.zeros(()), "late": torch.zeros(6),
            "bytes": torch.zeros(3, dtype=torch.uint8), "made": None, "phase": torch.zeros(2, dtype=torch.complex64),
            "mask": torch.ones(64, 64), "temperature": torch.ones(()), "schedule": torch.ones(200),
        }.items():  # fmt: skip
            self.register_buffer(name, value)
        self.register_buffer("hidden", torch.zeros(6, dtype=torch.float64), persistent=False)
        self.register_buffer("cache", torch.arange(4.0), persistent=False)

    @torch.no_grad()
    def follow(self, inputs: torch.Tensor) -> None:
        mean, size = inputs.mean(0), inputs.abs().mean()
        self.scale.mul_(0.9).add_(0.1 * size)
        self.seen |= inputs[0] > 1
        self.brief.add_(mean.to(torch.bfloat16))
        self.through_data.data.add_(mean)
        self.through_numpy.numpy()[:] += mean.numpy()
        self.through_view.view(-1)[::2] += mean[::2]
        self.moved = 0.9 * self.moved + 0.1 * mean
        self.shaped = inputs[:, 0] * 1
        if inputs[0, 0] > 0:
            self.now_and_then += 1
        if self.first.calls > 10:
            self.late.data += mean
        self.bytes += 1
        self.made = mean if self.made is None else self.made + mean
        self.phase.add_(size * 1j)
        self.hidden += mean.double()
        self.turned.add_(size)
        if len(self.cache) < len(inputs) + int(self.first.calls):
            self.cache = torch.arange(float(len(self.cache) + 1))
        if not hasattr(self, "begun"):
            self.register_buffer("begun", mean.clone(), persistent=False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        inputs = self.second(self.first(inputs))
        if self.training:
            self.follow(inputs)
        return self.last(torch.tanh(self.spectral(inputs / self.scale)) * self.temperature) + self.moved.sum()


def make() -> tuple[Zoo, torch.optim.Optimizer]:
    torch.manual_seed(3)
    model = Zoo()
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def loss_of(model: Zoo, batch: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, int]:
    return ((model(batch[0]) - batch[1]) ** 2).sum(), len(batch[1])


def anneal(model: Zoo, step: int) -> None:
    """By the loop's body, between steps."""
    model.temperature.fill_(1 + 1 / (1 + step))
    model.schedule.data[step % 200] = float(step)


def values_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: one.detach().clone() for name, one in [*model.named_parameters(), *model.named_buffers()]}


def serial(job: tt.Job, steps: int) -> dict[str, torch.Tensor]:
    """Each piece begins with the step's buffers, and the step keeps the values that one piece leaves."""
    model, optimizer = make()
    for step in range(steps):
        before = {name: None if one is None else one.clone() for name, one in buffers_of(model).items()}
        units = [unit for unit in range(BATCH // PIECE) if len(job.permutation.indices(step, unit))]
        kept = step % (BATCH // PIECE) if step % (BATCH // PIECE) in units else 0
        after = before
        optimizer.zero_grad()
        weights = 0
        for unit in units:
            put(model, before)
            places = job.permutation.samples_of(step, unit)
            loss, weight = loss_of(model, (inputs[places], targets[places]))
            loss.backward()
            weights += weight
            if unit == kept:
                after = {name: None if one is None else one.clone() for name, one in buffers_of(model).items()}
        put(model, after)
        for parameter in model.parameters():
            parameter.grad /= weights
        optimizer.step()
        anneal(model, step)
    return values_of(model)


def buffers_of(model: torch.nn.Module) -> dict[tuple[torch.nn.Module, str], torch.Tensor | None]:
    return {(module, key): one for module in model.modules() for key, one in module._buffers.items()}


def put(model: torch.nn.Module, values: dict[tuple[torch.nn.Module, str], torch.Tensor | None]) -> None:
    for module in model.modules():
        for key in list(module._buffers):
            found = values.get((module, key))
            module._buffers[key] = None if found is None else found.clone()


inputs = torch.randn(SAMPLES, 6, generator=torch.Generator().manual_seed(1))
targets = inputs.sum(1, keepdim=True)
model, optimizer = make()
named = ("moved", "scale") if options.named else ()
with tt.join(
    model, optimizer, data=(inputs, targets), batch=BATCH, piece=PIECE, sum=options.sum, engine=options.engine,
    parts=options.parts, reproducible=options.reproducible, checkpoint=options.checkpoint, checkpoint_seconds=0.1,
    buffers=named,
) as job:  # fmt: skip
    inner = job.local_steps(2, lambda every: torch.optim.SGD(every, lr=0.01)) if options.local else None
    for step in job.steps(options.steps):
        if inner is not None:
            inner.compute(step, lambda batch: loss_of(model, batch))
        else:
            for piece in step:
                with piece:
                    time.sleep(options.seconds)
                    piece.backward(*loss_of(model, piece.batch))
        optimizer.step()
        anneal(model, step.number)
        if step.number % 3 == 1:
            job.evaluate((inputs, targets), lambda batch: loss_of(model, batch))
        if options.seconds:
            say("step", job.worker, step.number)
    digest = hashlib.sha256()
    # How far a cache has grown is each worker's own.
    for name, one in sorted(values_of(model).items()):
        if name != "cache":
            digest.update(f"{name} {one.dtype} {tuple(one.shape)} {one.reshape(-1).tolist()}".encode())
    model.eval()
    with torch.no_grad():
        digest.update(str(model(inputs).tolist()).encode())
    say("end", job.worker, job.done, digest.hexdigest()[:16])
    if job.chief and not options.local and not options.named:
        model, found = None, values_of(model)
        found["first.calls"] -= 2  # by the evaluation above
        worst = 0.0
        for name, wanted in serial(job, options.steps).items():
            if name in ("cache", "begun"):  # the latter is of the first piece that a worker has computed
                continue
            if wanted.is_floating_point() or wanted.is_complex():
                off = (found[name] - wanted).abs().max() if found[name].shape == wanted.shape else torch.tensor(9.0)
                worst = max(worst, float(off))
            elif not torch.equal(found[name], wanted):
                say("serial", name, found[name].tolist(), wanted.tolist())
        say("off", worst)
