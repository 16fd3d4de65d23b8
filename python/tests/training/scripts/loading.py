# SPDX-License-Identifier: Apache-2.0
"""A dataset with random augmentation that processes load: loading.py STEPS LOADERS [--sum WHERE]

Prints 'end DIGEST' of the parameters and 'loaded HERE THERE' (pieces by this process, and by others).
"""

import argparse
import hashlib
import os
import random
import time

import numpy as np
import torch
from lines import say

import tarry.torch as tt

parser = argparse.ArgumentParser()
parser.add_argument("steps", type=int)
parser.add_argument("loaders", type=int)
parser.add_argument("--seconds", type=float, default=0.002)
parser.add_argument("--sum", default="everywhere")
parser.add_argument("--break", dest="breaks", action="store_true")
options = parser.parse_args()


class Augmented:
    """Of 100 samples each; with the process that has loaded it."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if options.breaks and index == 17:
            raise OSError("sample 17 can't be read")
        shift = random.random() + float(np.random.rand()) + torch.rand(4)
        return torch.full((4,), index / 100) + 0.1 * shift, os.getpid()


torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
here = there = 0
with tt.join(
    model, optimizer, data=Augmented(), batch=36, piece=3, seed=3, loaders=options.loaders, reproducible=True,
    sum=options.sum, data_check="off",  # a sample has the process that loads it
) as job:  # fmt: skip
    say("begins", os.getpid())
    for step in job.steps(options.steps):
        for piece in step:
            with piece:
                x, loaded_by = piece.batch
                here += int(loaded_by[0]) == os.getpid()
                there += int(loaded_by[0]) != os.getpid()
                time.sleep(options.seconds)
                piece.backward((model(x) - x.mean(1, keepdim=True)).square().sum(), weight=len(x))
        optimizer.step()
    vector = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    say("end", hashlib.sha256(vector.numpy().tobytes()).hexdigest()[:16])
    say("loaded", here, there)
