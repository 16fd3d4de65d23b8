#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Losses of trainings whose gradients travel in Tarry's forms, beside those of DDP with PyTorch's PowerSGD hook.

    python/bench/powersgd.py digits|gpt DATA [--seeds N] [--steps N] [--ranks R..] [--equal R] [--forms FORM..]
                             [--schedule NAME] [--rate RATE] [--width N] [--layers N] [--noise SHARE]

Four workers, threads of Tarry's local runtime or processes of torch.distributed over Gloo, train the same model from
the same parameters on the same batches, with the same optimizer. Bytes are those of all coded parts that workers send
(upload_bytes), and for PowerSGD those of P, Q' and what is not compressed, once for each worker; both without frames'
heads. What comes down isn't counted: with PowerSGD it is as short as what goes up. Losses are those of all training
samples after the last step, over those of float32 with the same seed, less 1.
"""

import argparse
import gzip
import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples"))
import gpt
from adam import share_of_rate

import tarry

WORKERS = 4
FORMS = ("int8", "int4", "sign", "powersgd:1", "powersgd:2", "powersgd:4", "powersgd:8", "topk:0.01")
MOST_STEPS = 2  # times as many, for equal bytes: more are left out


def unpacked(path: str) -> bytes:
    with gzip.open(path) as file:
        return file.read()


class Digits:
    """The first 8,000 images of MNIST's test set, by a perceptron of 64, as in docs/compression.md."""

    name, steps, batch = "digits (MNIST's test set), perceptron of 64, SGD", 300, 512
    rate, schedule = 0.2, "constant"

    def __init__(self, folder: str) -> None:
        images = np.frombuffer(unpacked(f"{folder}/t10k-images-idx3-ubyte.gz"), np.uint8, offset=16)
        labels = np.frombuffer(unpacked(f"{folder}/t10k-labels-idx1-ubyte.gz"), np.uint8, offset=8)
        self.x = torch.from_numpy(images.reshape(-1, 784)[:8000].astype(np.float32) / 255)
        self.y = torch.from_numpy(labels[:8000].astype(np.int64))
        self.samples = len(self.y)

    def model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))

    optimizer = torch.optim.SGD

    def loss(self, model: nn.Module, indices: torch.Tensor) -> torch.Tensor:
        """The mean over these samples."""
        return nn.functional.cross_entropy(model(self.x[indices]), self.y[indices])


class Gpt:
    """The GPT of python/examples/gpt.py, without dropout, on the pages of docs/."""

    name, steps, batch = "the small GPT of `python/examples/gpt.py`, AdamW", 100, 32
    rate, schedule, width, layers = 3e-3, "cosine", gpt.WIDTH, gpt.LAYERS

    def __init__(self, _folder: str) -> None:
        text = gpt.Text(gpt.read_pages())
        self.text = torch.stack([text[place] for place in range(min(len(text), 1024))])
        self.samples = len(self.text)

    def model(self) -> nn.Module:
        gpt.WIDTH, gpt.LAYERS = self.width, self.layers
        return gpt.GPT().eval()

    optimizer = torch.optim.AdamW

    def loss(self, model: nn.Module, indices: torch.Tensor) -> torch.Tensor:
        text = self.text[indices]
        return gpt.loss_of(model, text) / text[:, 1:].numel()


TRAININGS: dict[str, Any] = {"digits": Digits, "gpt": Gpt}


def begin(training: Any, seed: int, steps: int) -> tuple[nn.Module, Any, Any]:
    torch.manual_seed(seed)
    model = training.model()
    optimizer = training.optimizer(model.parameters(), lr=training.rate)
    return model, optimizer, LambdaLR(optimizer, lambda step: share_of_rate(training.schedule, step, steps))


def batches(training: Any, seed: int, steps: int) -> Iterator[list[torch.Tensor]]:
    """For each step the samples of each worker, as many for all."""
    generator = torch.Generator().manual_seed(seed)
    left = torch.empty(0, dtype=torch.int64)
    for _ in range(steps):
        if len(left) < training.batch:
            left = torch.randperm(training.samples, generator=generator)
        yield list(left[: training.batch].chunk(WORKERS))
        left = left[training.batch :]


def final_loss(training: Any, model: nn.Module) -> float:
    with torch.no_grad():
        chunks = torch.arange(training.samples).split(512)
        return float(sum(training.loss(model, chunk) * len(chunk) for chunk in chunks)) / training.samples


def by_tarry(training: Any, seed: int, steps: int, form: dict[str, Any], noise: float = 0) -> tuple[float, int]:
    """The final loss, and bytes of all coded parts.

    noise   each number of a gradient is off by such a share
    """
    model, optimizer, scheduler = begin(training, seed, steps)
    parts = [begin(training, seed, steps)[0] for _ in range(WORKERS)]
    shares = list(batches(training, seed, steps))
    vector = nn.utils.parameters_to_vector(model.parameters()).detach()

    def compute(task: tarry.Task) -> None:
        own, mine = parts[task.unit], torch.from_numpy(np.array(task.parameters))
        nn.utils.vector_to_parameters(mine, own.parameters())
        loss = training.loss(own, shares[task.round][task.unit]) / WORKERS
        gradients = torch.autograd.grad(loss, list(own.parameters()))
        task.gradient[:] = torch.cat([one.reshape(-1) for one in gradients]).numpy()
        if noise:
            drawn = np.random.default_rng((seed, task.round, task.unit)).standard_normal(len(vector), np.float32)
            task.gradient[:] *= 1 + noise * drawn

    plan, sent = tarry.Plan(WORKERS, WORKERS, replication=1), 0
    with tarry.Local(
        plan, len(vector), compute, parameters=len(vector), pick="plan", reproducible=True, compress_seed=seed, **form
    ) as local:
        for _ in range(steps):
            found: Any = local.round(nn.utils.parameters_to_vector(model.parameters()).detach().numpy())
            sent += found.upload_bytes
            total = torch.from_numpy(np.array(found.sum))
            at = 0
            for parameter in model.parameters():
                parameter.grad = total[at : at + parameter.numel()].view_as(parameter)
                at += parameter.numel()
            optimizer.step()
            scheduler.step()
    return final_loss(training, model), sent


def ddp_worker(rank: int, training: Any, steps: int, cases: list[tuple[int, int]], into: str) -> None:
    """Trains for each seed and rank of matrices, and writes what by_tarry gives back."""
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powersgd

    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(WORKERS), "MASTER_ADDR": "127.0.0.1"}
    torch.distributed.init_process_group("gloo", init_method=f"file://{into}/meeting", rank=rank, world_size=WORKERS)
    found: list[tuple[float, int]] = []
    for seed, matrix_rank in cases:
        model, optimizer, scheduler = begin(training, seed, steps)
        parallel = nn.parallel.DistributedDataParallel(model)
        state = powersgd.PowerSGDState(
            None, matrix_approximation_rank=matrix_rank, start_powerSGD_iter=2, random_seed=seed
        )
        parallel.register_comm_hook(state, powersgd.powerSGD_hook)
        for shares in batches(training, seed, steps):
            optimizer.zero_grad()
            training.loss(parallel, shares[rank]).backward()
            optimizer.step()
            scheduler.step()
        _, before, after = state.compression_stats()
        whole = steps * sum(parameter.numel() for parameter in model.parameters())
        found.append((final_loss(training, model), WORKERS * 4 * (after + whole - before)))
    if rank == 0:
        pathlib.Path(into, "found.json").write_text(json.dumps(found))
    torch.distributed.destroy_process_group()


def by_powersgd(training: Any, steps: int, cases: list[tuple[int, int]]) -> list[tuple[float, int]]:
    with tempfile.TemporaryDirectory() as into:
        torch.multiprocessing.spawn(ddp_worker, (training, steps, cases, into), nprocs=WORKERS)
        return json.loads(pathlib.Path(into, "found.json").read_text())


def matrices_of(model: nn.Module) -> list[tuple[int, int]]:
    """What a gradient is: the first dimension by the others."""
    shapes = [parameter.shape for parameter in model.parameters()]
    return [(shape[0], shape[1:].numel()) if len(shape) > 1 else (1, shape.numel()) for shape in shapes]


def form_of(training: Any, name: str) -> dict[str, Any]:
    """What the local runtime is given."""
    kind, *words = name.split(":")
    form: dict[str, Any] = {"compress": kind}
    if kind == "powersgd":
        return form | {"compress_rank": int(words[0]), "compress_matrices": matrices_of(training.model())}
    if words:
        form["compress_share"] = float(words[0])
    return form


def spread(losses: list[float], plain: list[float]) -> str:
    apart = [one / other - 1 for one, other in zip(losses, plain, strict=True)]
    return f"{min(apart):.1e} .. {max(apart):.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("training", choices=TRAININGS)
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, help="of a training (default: 300 or 100)")
    parser.add_argument("--ranks", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--equal", type=int, default=2, metavar="RANK", help="whose bytes the others have, too")
    parser.add_argument("--noise", type=float, default=0, help="float32 once more, each number off by such a share")
    parser.add_argument("--forms", nargs="*", metavar="FORM", help="such as int4 and topk:0.01")
    own = {"rate": float, "schedule": str, "width": int, "layers": int}
    for name, kind in own.items():
        parser.add_argument(f"--{name}", type=kind, help="in the place of the training's own")
    options = parser.parse_args()
    torch.set_num_threads(1)
    training = TRAININGS[options.training](options.data)
    for name in own:
        if getattr(options, name) is not None:
            setattr(training, name, getattr(options, name))
    steps, seeds = options.steps or training.steps, range(1, options.seeds + 1)
    plain = [by_tarry(training, seed, steps, {}) for seed in seeds]
    losses, whole = [loss for loss, _ in plain], sum(sent for _, sent in plain)
    cases = [(seed, rank) for rank in options.ranks for seed in seeds]
    found = by_powersgd(training, steps, cases) if cases else []
    spent = {
        rank: sum(sent for case, (_, sent) in zip(cases, found, strict=True) if case[1] == rank)
        for rank in options.ranks
    }
    print(f"{training.name}, {steps} steps, {len(seeds)} seeds; float32 ends at {min(losses):.4f} .. {max(losses):.4f}")
    print(f"| | bytes | equal steps | as many bytes as rank {options.equal}: steps, loss |")
    print("| --- | --- | --- | --- |")
    if options.noise:
        noisy = [by_tarry(training, seed, steps, {}, options.noise)[0] for seed in seeds]
        print(f"| float32, off by {options.noise:g} | 1 | {spread(noisy, losses)} | |", flush=True)
    for rank in options.ranks:
        of_rank = [loss for case, (loss, _) in zip(cases, found, strict=True) if case[1] == rank]
        print(f"| PowerSGD, rank {rank} | 1/{whole / spent[rank]:.1f} | {spread(of_rank, losses)} | |")
    for name in FORMS if options.forms is None else options.forms:
        form = form_of(training, name)
        of_form = [by_tarry(training, seed, steps, form) for seed in seeds]
        sent = sum(sent for _, sent in of_form)
        enough = steps * spent.get(options.equal, 0) // sent
        equal = ""
        if 0 < enough < MOST_STEPS * steps:
            equal = f"{enough}: {spread([by_tarry(training, seed, enough, form)[0] for seed in seeds], losses)}"
        apart = spread([loss for loss, _ in of_form], losses)
        print(f"| `{name}` | 1/{whole / sent:.1f} | {apart} | {equal} |", flush=True)


if __name__ == "__main__":
    main()
