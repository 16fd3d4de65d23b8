# SPDX-License-Identifier: Apache-2.0
"""A training of which the last worker does something wrong.

wrong.py WHAT [--steps N] [--seconds S] [--checkpoint FILE] [--parts P] [--sum WHERE]

Prints 'step N' by the first worker, and 'end WORKER STEPS'.
"""

import argparse
import os
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument(
    "what", choices=["nothing", "raise", "exit", "raise-in-piece", "exit-in-piece", "raise-everywhere", "busy"]
)
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--seconds", type=float, default=0.0)
parser.add_argument("--checkpoint", default="")
parser.add_argument("--parts", type=int, default=1)
parser.add_argument("--sum", default="everywhere")
options = parser.parse_args()

last = int(os.environ["TARRY_WORKER"]) == int(os.environ["TARRY_WORKERS"]) - 1
if options.what == "raise-everywhere" or (last and options.what == "raise"):
    raise RuntimeError("before it joins")
if last and options.what == "exit":
    sys.exit(0)

import torch  # noqa: E402
from lines import say  # noqa: E402

import tarry.torch as tt  # noqa: E402

torch.manual_seed(1)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs = torch.randn(64, 3)
with tt.join(
    model, optimizer, data=(inputs, inputs.sum(1, keepdim=True)), batch=32, piece=4, parts=options.parts,
    checkpoint=options.checkpoint, checkpoint_seconds=0.2, sum=options.sum,
) as job:  # fmt: skip
    for step in job.steps(options.steps):
        if last and step.number == 2 and options.what == "busy":
            time.sleep(4)
            while job.status()["done"] < options.steps:
                time.sleep(0.05)
        for piece in step:
            with piece:
                x, y = piece.batch
                time.sleep(options.seconds)
                if last and step.number >= 2 and options.what == "raise-in-piece":
                    raise RuntimeError("in a piece")
                if last and step.number >= 2 and options.what == "exit-in-piece":
                    sys.exit("by itself")
                piece.backward(((model(x) - y) ** 2).sum(), weight=len(y))
        optimizer.step()
        if job.chief:
            say("step", step.number)
        if options.what == "busy":
            say("loss", step.lost, step.metrics["loss"])
    say("end", job.worker, job.done)
