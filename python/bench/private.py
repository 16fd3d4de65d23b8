#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Accuracy of trainings with differential privacy, `tarry train --dp`, tarry.torch and Opacus, as a Markdown table.

Usage: python/bench/private.py TARRY IMAGES LABELS [--epsilon E] [--seeds N] [--rounds N]

TARRY is the binary (an optimised build), IMAGES and LABELS digits in IDX format, gzipped or not. Needs PyTorch and
Opacus, of whatever version; without them it says so and ends with status 1. tarry.torch, one worker in this process,
has a row where it can be imported.

All train the same perceptron (64 hidden, ReLU, He's first weights) by plain SGD on the same four fifths of the
samples, with the same clipping, Poisson sampling, rounds, rate and noise, which is the least that Tarry's accountant
allows for the budget; the rest tells the accuracy. They take turns, seed after seed: a seed is the split, and the
first weights as each system draws them (PyTorch's are the same for two). Noise and draws are the system's for Tarry,
and those of the seed for Opacus.
Epsilon is told by the accountant of each. Times are those of whole trainings, without starting the interpreter.
"""

import argparse
import gzip
import json
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from typing import Any

import numpy as np

try:
    import opacus
    import torch
    from opacus.accountants import PRVAccountant
    from opacus.optimizers import DPOptimizer
    from torch.nn.functional import cross_entropy
except ImportError as missing:
    sys.exit(f"private.py: {missing}: this comparison needs torch and opacus")

try:
    import tarry.torch as tt
except ImportError:
    tt = None

HIDDEN, CLASSES, HOLDOUT, DELTA, CLIP = 64, 10, 0.2, 1e-5, 1.0
Digits = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


def read_idx(path: pathlib.Path) -> np.ndarray[Any, Any]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    dimensions = struct.unpack(f">{data[3]}I", data[4 : 4 + 4 * data[3]])
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(dimensions)


def write_idx(path: pathlib.Path, values: np.ndarray[Any, Any]) -> None:
    path.write_bytes(struct.pack(f">4B{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.tobytes())


def split(digits: Digits, seed: int) -> tuple[Digits, Digits]:
    """Those that are trained on, and those that tell the accuracy."""
    order = np.random.default_rng(seed).permutation(len(digits[1]))
    kept = len(order) - int(HOLDOUT * len(order))
    train, test = order[:kept], order[kept:]
    return (digits[0][train], digits[1][train]), (digits[0][test], digits[1][test])


def by_tarry(args: argparse.Namespace, train: Digits, test: Digits, seed: int) -> tuple[float, float, float]:
    """Accuracy, epsilon and seconds."""
    with tempfile.TemporaryDirectory() as folder:
        at = pathlib.Path(folder)
        for name, (images, labels) in (("train", train), ("test", test)):
            write_idx(at / f"{name}-images", images)
            write_idx(at / f"{name}-labels", labels)
        begin = time.monotonic()
        subprocess.run(
            [args.tarry, "train", "--data", at / "train-images", "--labels", at / "train-labels",
             "--test", at / "test-images", "--test-labels", at / "test-labels", "--model", "mlp",
             "--hidden", str(HIDDEN), "--rate", str(args.rate), "--workers", "4", "--chunks", "4",
             "--rounds", str(args.rounds), "--seed", str(seed),
             "--dp", f"clip:{CLIP},noise:{args.noise},sample:{args.sample},delta:{DELTA}", "--quiet",
             "--evaluate", str(args.rounds), "--report", at / "report.json"],
            check=True,
        )  # fmt: skip
        seconds = time.monotonic() - begin
        report = json.loads((at / "report.json").read_text())
        return report["final"]["test_accuracy"], report["privacy"]["epsilon"], seconds


def tensors(digits: Digits) -> tuple[torch.Tensor, torch.Tensor]:
    images = digits[0].reshape(len(digits[0]), -1).astype(np.float32) / 255
    return torch.from_numpy(images), torch.from_numpy(digits[1].astype(np.int64))


def a_model(train: Digits, seed: int) -> torch.nn.Sequential:
    torch.manual_seed(seed)
    features = train[0][0].size
    model = torch.nn.Sequential(torch.nn.Linear(features, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, CLASSES))
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            torch.nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            torch.nn.init.zeros_(layer.bias)
    return model


def by_tarry_torch(args: argparse.Namespace, train: Digits, test: Digits, seed: int) -> tuple[float, float, float]:
    """The same."""
    begin = time.monotonic()
    model = a_model(train, seed)
    (y, wanted), data = tensors(test), tensors(train)
    terms = f"clip:{CLIP},noise:{args.noise},sample:{args.sample},delta:{DELTA}"
    optimizer = torch.optim.SGD(model.parameters(), lr=args.rate)
    with tt.join(model, optimizer, data=data, piece=100, sum="server", dp=terms) as job:
        for step in job.steps(args.rounds):
            step.compute(lambda batch: (cross_entropy(model(batch[0]), batch[1], reduction="sum"), len(batch[1])))
            optimizer.step()
        spent = job.epsilon
    with torch.no_grad():
        right = (model(y).argmax(1) == wanted).double().mean().item()
    return right, spent, time.monotonic() - begin


def by_opacus(args: argparse.Namespace, train: Digits, test: Digits, seed: int) -> tuple[float, float, float]:
    """The same."""
    begin = time.monotonic()
    model = a_model(train, seed)
    (x, labels), (y, wanted) = tensors(train), tensors(test)
    wrapped = opacus.GradSampleModule(model, loss_reduction="sum")
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=args.rate),
        noise_multiplier=args.noise,
        max_grad_norm=CLIP,
        expected_batch_size=None,  # sums; divided below, as Tarry does
        loss_reduction="sum",
    )
    accountant = PRVAccountant()
    optimizer.attach_step_hook(accountant.get_optimizer_hook_fn(sample_rate=args.sample))
    for group in optimizer.param_groups:
        group["lr"] = args.rate / (args.sample * len(x))
    draws = torch.Generator().manual_seed(seed)
    for _ in range(args.rounds):
        chosen = torch.rand(len(x), generator=draws) < args.sample
        optimizer.zero_grad()
        cross_entropy(wrapped(x[chosen]), labels[chosen], reduction="sum").backward()
        optimizer.step()
    with torch.no_grad():
        right = (model(y).argmax(1) == wanted).double().mean().item()
    return right, accountant.get_epsilon(DELTA), time.monotonic() - begin


def noise_for(args: argparse.Namespace) -> float:
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        subprocess.run(
            [args.tarry, "privacy", "--epsilon", str(args.epsilon), "--sample", str(args.sample), "--rounds",
             str(args.rounds), "--delta", str(DELTA), "--report", report],
            check=True, stdout=subprocess.PIPE,
        )  # fmt: skip
        return round(json.loads(report.read_text())["noise"] + 5e-4, 3)


def main() -> None:
    parser = argparse.ArgumentParser(description="Accuracy with differential privacy: Tarry and Opacus.")
    parser.add_argument("tarry", metavar="TARRY")
    parser.add_argument("images", metavar="IMAGES", type=pathlib.Path)
    parser.add_argument("labels", metavar="LABELS", type=pathlib.Path)
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--sample", type=float, default=0.1)
    parser.add_argument("--rate", type=float, default=2.0)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    args.noise = noise_for(args)
    digits = (read_idx(args.images), read_idx(args.labels))
    systems = {"Tarry": by_tarry} | ({"tarry.torch": by_tarry_torch} if tt is not None else {})
    systems |= {f"Opacus {opacus.__version__}": by_opacus}
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in systems}
    for seed in range(1, args.seeds + 1):
        train, test = split(digits, seed)
        for name, system in systems.items():
            found[name].append(system(args, train, test, seed))
    print(f"noise {args.noise}, clip {CLIP:g}, sample {args.sample}, {args.rounds} rounds, rate {args.rate:g}\n")
    print("| system | accuracy of test samples, % | mean | epsilon by its accountant | seconds |")
    print("| --- | --- | --- | --- | --- |")
    for name, rows in found.items():
        right, spent, seconds = zip(*rows, strict=True)
        shown = ", ".join(f"{100 * value:.2f}" for value in right)
        mean, median = 100 * statistics.mean(right), statistics.median(seconds)
        print(f"| {name} | {shown} | {mean:.2f} | {max(spent):.3f} | {median:.1f} |")


if __name__ == "__main__":
    main()
