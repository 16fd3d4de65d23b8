# SPDX-License-Identifier: Apache-2.0
"""A training with a sample of NaN, the 54th of 64.

nonfinite.py POLICY SUM prints 'skipped WORKER STEP' and 'end WORKER DIGEST' of the model.
"""

import hashlib
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "training" / "scripts"))
from lines import say

import tarry.torch as tt

policy, where = sys.argv[1:]
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
inputs = torch.randn(64, 4)
targets = inputs.sum(1, keepdim=True)
inputs[53] = float("nan")
with tt.join(
    model, optimizer, data=(inputs, targets), batch=32, piece=4, shuffle=False, sum=where, reproducible=True,
    nonfinite=policy,
) as job:  # fmt: skip
    for step in job.steps(4):
        step.compute(lambda batch: (((model(batch[0]) - batch[1]) ** 2).sum(), len(batch[1])))
        optimizer.step()
        if step.skipped:
            say("skipped", job.worker, step.number)
    digest = hashlib.sha256(b"".join(one.numpy().tobytes() for one in model.state_dict().values()))
    say("end", job.worker, digest.hexdigest()[:16])
