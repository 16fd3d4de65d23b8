# SPDX-License-Identifier: Apache-2.0
"""A small network with secure sums.

secret.py STEPS [--checkpoint FILE] [--seconds S] [--report N] [--bound B] [--replication R] [--gate FILE] [--check]
          [--nonfinite POLICY]

Prints 'begins WORKER STEPS', 'step WORKER NUMBER' each N steps, and 'end WORKER STEPS DIGEST LOST CLAMPED TOLD': steps
that it lost, numbers beyond the bound as it counts them with --check, and as the hub does.

--gate   step 5 waits for that file
--check  each step's gradient is the sum of the pieces' whole numbers, to the bit, or the script ends with an error
--nonfinite  the policy of join; piece 4 of step 1 has a loss of NaN. Prints 'skipped WORKER STEP'
"""

import argparse
import hashlib
import os
import time

import numpy as np
import torch
from lines import say

import tarry.torch as tt

parser = argparse.ArgumentParser()
parser.add_argument("steps", type=int)
parser.add_argument("--checkpoint", default="")
parser.add_argument("--seconds", type=float, default=0.0)
parser.add_argument("--report", type=int, default=0)
parser.add_argument("--bound", type=float, default=4000.0)
parser.add_argument("--replication", type=int)
parser.add_argument("--gate", default="")
parser.add_argument("--nonfinite")
parser.add_argument("--check", action="store_true")
options = parser.parse_args()

SAMPLES, PIECE = 300, 25
torch.use_deterministic_algorithms(True)
torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(10, 16), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
inputs = torch.randn(SAMPLES, 10, generator=torch.Generator().manual_seed(1))
data = (inputs, inputs.sum(1, keepdim=True) ** 2)
loss_of = torch.nn.MSELoss(reduction="sum")


def fraction() -> int:
    """The finest with which sums of 12 pieces can't wrap in 32 bits."""
    found = 0
    while 2.0 ** (found + 1) * options.bound * (SAMPLES // PIECE) < 2.0**31:
        found += 1
    return found


def sum_of_pieces(job: tt.Job, step: int) -> tuple[np.ndarray, int]:
    """Whole numbers, one piece after the other, over all samples; and how many were beyond the bound."""
    from tarry.torch.seeding import kept_random, seed_all

    total, beyond = 0, 0
    with kept_random():
        for unit in range(SAMPLES // PIECE):
            seed_all(job.permutation.seed, step, unit)
            x, y = (one[unit * PIECE : (unit + 1) * PIECE] for one in data)
            found = torch.autograd.grad(loss_of(model(x), y), list(model.parameters()))
            gradient = torch.cat([one.reshape(-1) for one in found]).numpy().astype(np.float64)
            beyond += int((np.abs(gradient) > options.bound).sum())
            held = np.clip(gradient, -options.bound, options.bound)
            total = total + np.rint(held * 2.0 ** fraction()).astype(np.int64)
    return np.asarray(total), beyond


def digest() -> str:
    text = hashlib.sha256()
    for value in model.state_dict().values():
        text.update(value.contiguous().numpy().tobytes())
    return text.hexdigest()[:16]


lost = clamped = 0
with tt.join(
    model, optimizer, data=data, piece=PIECE, seed=3, sum="server", secure=True, secure_bound=options.bound,
    secure_piece_samples=PIECE,
    checkpoint=options.checkpoint, checkpoint_seconds=0.3, replication=options.replication,
    nonfinite=options.nonfinite,
) as job:  # fmt: skip
    say("begins", job.worker, job.done)
    for step in job.steps(options.steps):
        while options.gate and step.number == 5 and not os.path.exists(options.gate):
            time.sleep(0.02)
        expected = sum_of_pieces(job, step.number) if options.check else None
        for piece in step:
            with piece:
                time.sleep(options.seconds)
                x, y = piece.batch
                spoiled = options.nonfinite and step.number == 1 and piece.unit == 4
                piece.backward(loss_of(model(x), y) * (float("nan") if spoiled else 1), weight=len(y))
        if expected is not None and not step.lost:
            found = torch.cat([one.grad.reshape(-1) for one in model.parameters() if one.grad is not None])
            total = torch.from_numpy((expected[0] / 2.0 ** fraction()).astype(np.float32)) * (1 / SAMPLES)
            assert torch.equal(found, total), (found - total).abs().max()
            clamped += expected[1]
        lost += step.lost
        optimizer.step()
        if step.skipped:
            say("skipped", job.worker, step.number)
        if options.report and step.number % options.report == 0:
            say("step", job.worker, step.number)
    say("end", job.worker, job.done, digest(), lost, clamped, job.status()["clamped"])
