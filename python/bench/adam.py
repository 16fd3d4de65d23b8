# SPDX-License-Identifier: Apache-2.0
"""What may bring forms with feedback near float32 where the optimizer is adam: variants of a model of the training.

adam.py DATA [--seeds N] [--rounds N] [--schedule NAME] [--only TEXT..]

A perceptron of 64 on the first 8,000 of MNIST's test images, 8 workers with a share each, batches of 512, adam 0.003,
in one process and without Tarry: each worker's gradient is sent in a form, with what the form lost before
(docs/compression.md).
Prints for each variant the share of float32's bytes that goes up, and the final loss over float32's, less 1, by seed.
"""

import argparse
import dataclasses
import gzip
import math
import pathlib

import numpy as np
import torch
from torch.nn import functional

WORKERS, SHARE, EACH = 8, 1000, 64  # of the samples, and of a round's batch
SHAPES = ((784, 64), (1, 64), (64, 10), (1, 10))
SIZES = [math.prod(shape) for shape in SHAPES]
NUMBERS = sum(SIZES)
RATE, MEAN, SQUARE, TINY = 0.003, 0.9, 0.999, 1e-8
BLOCK = 256
BYTES = 0.516  # a number in int4
SCHEDULES = ("constant", "cosine", "warm")


@dataclasses.dataclass(frozen=True)
class Variant:
    """
    form      none, int4 or topk
    noise     each number of a gradient is off by such a share, without any form
    share     of the numbers that topk sends
    updates   each worker has an adam of its own, and sends its steps
    momentum  adam's first mean is at the workers, before the form, in the place of the server's
    waited    adam's mean square is of what a number was in each round that it waited, as the server knows it of each
              worker, not of what came at once
    rate      as many times adam's rate
    ahead     a worker computes where it would be if what it has left were sent, as adam steps
    """

    form: str = "none"
    noise: float = 0.0
    share: float = 0.01
    updates: bool = False
    momentum: bool = False
    waited: bool = False
    rate: float = 1
    ahead: bool = False


VARIANTS = {
    "float32, each number off by 1e-6 of it": Variant(noise=1e-6),
    "float32, each number off by 1e-3 of it": Variant(noise=1e-3),
    "float32, momentum at the workers": Variant(momentum=True),
    "float32, 1.01 times the rate": Variant(rate=1.01),
    "int4": Variant("int4"),
    "int4, 1.01 times the rate": Variant("int4", rate=1.01),
    "int4 of the workers' own adam's steps": Variant("int4", updates=True),
    "topk:0.01": Variant("topk"),
    "topk:0.01 of the workers' own adam's steps": Variant("topk", updates=True),
    "topk:0.01, mean squares by waits": Variant("topk", waited=True),
    "topk:0.01, ahead": Variant("topk", ahead=True),
    "topk:0.1": Variant("topk", share=0.1),
    "topk:0.1, mean squares by waits": Variant("topk", share=0.1, waited=True),
}


class Digits:
    def __init__(self, folder: pathlib.Path) -> None:
        images = gzip.decompress((folder / "t10k-images-idx3-ubyte.gz").read_bytes())
        labels = gzip.decompress((folder / "t10k-labels-idx1-ubyte.gz").read_bytes())
        pixels = np.frombuffer(images, dtype=np.uint8, offset=16).reshape(-1, 784).astype(np.float32) / 255
        self.x = torch.from_numpy(pixels[: WORKERS * SHARE])
        self.y = torch.from_numpy(np.frombuffer(labels, dtype=np.uint8, offset=8).astype(np.int64)[: WORKERS * SHARE])

    def gradients(self, w: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Of each worker, the sum over its rows; w may be of each worker, too."""
        inner, bias, outer, shift = parts(w)
        x = self.x[rows]
        hidden = torch.relu(x @ inner + bias)
        apart = torch.softmax(hidden @ outer + shift, 2) - functional.one_hot(self.y[rows], 10)
        back = (apart @ outer.mT) * (hidden > 0)
        found = (x.transpose(1, 2) @ back, back.sum(1), hidden.transpose(1, 2) @ apart, apart.sum(1))
        return torch.cat([one.reshape(WORKERS, -1) for one in found], 1)

    def loss(self, w: torch.Tensor) -> float:
        inner, bias, outer, shift = parts(w)
        return float(functional.cross_entropy(torch.relu(self.x @ inner + bias) @ outer + shift, self.y))


def parts(w: torch.Tensor) -> list[torch.Tensor]:
    return [one.view(*w.shape[:-1], *shape) for one, shape in zip(w.split(SIZES, -1), SHAPES, strict=True)]


def beginning(seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)

    def drawn(above: int, below: int) -> torch.Tensor:
        return (torch.rand(above * below, generator=generator) * 2 - 1) * (6 / (above + below)) ** 0.5

    return torch.cat([drawn(784, 64), torch.zeros(64), drawn(64, 10), torch.zeros(10)])


def int4(z: torch.Tensor) -> torch.Tensor:
    blocks = functional.pad(z, (0, -z.shape[1] % BLOCK)).view(len(z), -1, BLOCK)
    largest = blocks.abs().amax(2, keepdim=True).clamp_min(1e-38)
    ratio = blocks.abs() / largest
    above = torch.ldexp(torch.ones_like(ratio), torch.frexp(ratio).exponent)
    level = torch.where(ratio - above / 2 < above - ratio, above / 2, above).clamp(1 / 64, 1)
    level[ratio < 1 / 128] = 0
    return (level * largest * blocks.sign()).reshape(len(z), -1)[:, : z.shape[1]]


def topk(z: torch.Tensor, share: float) -> torch.Tensor:
    places = z.abs().topk(math.ceil(share * z.shape[1]), dim=1).indices.sort(1).values
    return torch.zeros_like(z).scatter_(1, places, int4(z.gather(1, places)))


def topk_bytes(share: float) -> float:
    """A number: those that are sent in int4, their places as Elias and Fano write them."""
    return share * (BYTES + (2 + math.log2(1 / share)) / 8)


class Adam:
    """Its means, of one optimizer or of each worker's."""

    def __init__(self, *shape: int) -> None:
        self.mean, self.square, self.rounds = torch.zeros(shape), torch.zeros(shape), 0

    def step(self, gradient: torch.Tensor, size: torch.Tensor, *, smooth: bool = True) -> torch.Tensor:
        """size   what the mean square is of
        smooth    whether the first mean is one; else the gradient is, after a correction for the rounds"""
        self.rounds += 1
        self.mean = MEAN * self.mean + (1 - MEAN) * gradient if smooth else gradient
        self.square = SQUARE * self.square + (1 - SQUARE) * size * size
        return self.scaled(self.mean / (1 - MEAN**self.rounds))

    def scaled(self, mean: torch.Tensor) -> torch.Tensor:
        return RATE * mean / ((self.square / (1 - SQUARE**self.rounds)).sqrt() + TINY)


def share_of_rate(schedule: str, step: int, steps: int) -> float:
    """Of the full learning rate: a cosine ends near 0, and with `warm` the rate grows before it for a twentieth of the
    steps."""
    if schedule == "constant":
        return 1
    warm = steps // 20 if schedule == "warm" else 0
    return (step + 1) / warm if step < warm else (1 + math.cos(math.pi * (step - warm) / (steps - warm))) / 2


def train(digits: Digits, seed: int, rounds: int, variant: Variant, schedule: str) -> tuple[float, float]:
    """The final loss, and bytes a number that went up in a round, in the mean."""
    w, draws, off = beginning(seed), torch.Generator().manual_seed(1000 + seed), torch.Generator().manual_seed(7)
    left, waits, rates, momentum = (torch.zeros(WORKERS, NUMBERS) for _ in range(4))
    adam, own, sent = Adam(NUMBERS), Adam(WORKERS, NUMBERS), 0.0
    for number in range(rounds):
        rows = torch.randint(SHARE, (WORKERS, EACH), generator=draws) + SHARE * torch.arange(WORKERS)[:, None]
        rate = variant.rate * share_of_rate(schedule, number, rounds)
        at = w - rate * adam.scaled(left) if variant.ahead and number else w
        gradients = digits.gradients(at, rows) / (WORKERS * EACH)
        if variant.noise:
            gradients *= 1 + variant.noise * torch.randn(WORKERS, NUMBERS, generator=off)
        if variant.updates:
            gradients = own.step(gradients * WORKERS, gradients * WORKERS) / WORKERS
        if variant.momentum:
            momentum = MEAN * momentum + (1 - MEAN) * gradients
        wanted = left + (momentum if variant.momentum else gradients)
        if variant.form == "none":
            parts_sent = wanted
            sent += 4
        elif variant.form == "int4":
            parts_sent = int4(wanted)
            sent += BYTES
        else:
            parts_sent = topk(wanted, variant.share)
            sent += topk_bytes(variant.share)
        left = wanted - parts_sent
        there = parts_sent != 0
        total = size = parts_sent.sum(0)
        if variant.waited:
            waits += 1
            rates = torch.where(there, parts_sent / waits, rates)
            waits[there] = 0
            size = rates.sum(0)
        step = total if variant.updates else adam.step(total, size, smooth=not variant.momentum)
        w = w - rate * step
    return digits.loss(w), sent / rounds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path, metavar="DATA")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--schedule", choices=SCHEDULES, default="constant")
    parser.add_argument("--only", nargs="*", default=[""], metavar="TEXT", help="variants whose names end so")
    options = parser.parse_args()
    torch.set_num_threads(1)
    digits, seeds = Digits(options.data), range(1, options.seeds + 1)
    plain = [train(digits, seed, options.rounds, Variant(), options.schedule)[0] for seed in seeds]
    print(f"float32 ends at {min(plain):.4f} .. {max(plain):.4f}")
    print("| | bytes | loss over float32's, less 1, by seed |\n| --- | --- | --- |")
    for name, variant in VARIANTS.items():
        if name.endswith(tuple(options.only)):
            found = [train(digits, seed, options.rounds, variant, options.schedule) for seed in seeds]
            apart = ", ".join(
                f"{100 * (loss / other - 1):+.2f} %" for (loss, _), other in zip(found, plain, strict=True)
            )
            print(f"| {name} | 1/{4 / found[0][1]:.1f} | {apart} |", flush=True)


if __name__ == "__main__":
    main()
