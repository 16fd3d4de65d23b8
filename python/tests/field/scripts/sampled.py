# SPDX-License-Identifier: Apache-2.0
"""Goes by a sampler of 23 samples, 8 in a step: sampled.py STEPS CHECKPOINT [--die].

Prints 'drawn STEP.UNIT SAMPLES' by each worker for all pieces of the steps that it takes part in. With --die worker 1
ends in its second step, once.
"""

import os
import pathlib
import signal
import sys

import torch
from torch.utils.data import DataLoader, SubsetRandomSampler

import tarry.torch as tt

steps, file = int(sys.argv[1]), pathlib.Path(sys.argv[2])
data = torch.arange(64.0)[:, None]
loader = DataLoader(data, batch_size=8, sampler=SubsetRandomSampler(range(0, 46, 2)))
torch.rand(int(os.environ["TARRY_WORKER"]))  # their random states differ
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
died = file.with_suffix(".died")
with tt.join(model, optimizer, data=loader, piece=2, checkpoint=file, checkpoint_seconds=0) as job:
    for step in job.steps(steps):
        lines = [
            f"drawn {step.number}.{unit} {','.join(map(str, job.permutation.samples_of(step.number, unit))) or '-'}\n"
            for unit in range(job.permutation.units)
        ]
        sys.stdout.write("".join(lines))
        sys.stdout.flush()
        if "--die" in sys.argv and job.worker == 1 and step.number == 1 and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        for piece in step:
            with piece:
                x = piece.batch
                assert x.flatten().int().tolist() == piece.samples
                piece.backward(model(x).square().sum(), weight=len(x))
        optimizer.step()
