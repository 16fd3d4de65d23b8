#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a piece costs besides its work: python/bench/pieces.py [--pieces N] [--steps N]

One worker trains a small model, whose pieces take next to nothing, by tarry.torch, and then by a bare loop that
accumulates the same gradients. Prints microseconds per piece of both, medians over steps, and the difference.
"""

import argparse
import statistics
import time

import torch

import tarry.torch as tt

SKIPPED = 5


def training() -> tuple[torch.nn.Module, torch.optim.Optimizer, torch.Tensor]:
    torch.manual_seed(1)
    model = torch.nn.Linear(16, 4)
    return model, torch.optim.SGD(model.parameters(), lr=1e-3), torch.randn(4096, 16)


def by_tarry(pieces: int, steps: int) -> list[float]:
    model, optimizer, data = training()
    seconds: list[float] = []
    with tt.join(model, optimizer, data=data, batch=pieces, piece=1, seed=1) as job:
        for step in job.steps(steps):
            begun = time.perf_counter()
            for piece in step:
                with piece:
                    piece.backward(model(piece.batch).square().sum(), weight=1)
            optimizer.step()
            seconds.append(time.perf_counter() - begun)
    return seconds


def bare(pieces: int, steps: int) -> list[float]:
    model, optimizer, data = training()
    seconds: list[float] = []
    for _ in range(steps):
        begun = time.perf_counter()
        optimizer.zero_grad()
        for unit in range(pieces):
            model(data[torch.tensor([unit])]).square().sum().backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begun)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pieces", type=int, default=256)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    torch.set_num_threads(1)
    ours, theirs = (
        statistics.median(found[SKIPPED:]) / options.pieces * 1e6
        for found in (by_tarry(options.pieces, options.steps), bare(options.pieces, options.steps))
    )
    print(f"{options.pieces} pieces in a step: {ours:.0f} us each by tarry.torch, {theirs:.0f} us by a bare loop")
    print(f"overhead: {ours - theirs:.0f} us a piece")


if __name__ == "__main__":
    main()
