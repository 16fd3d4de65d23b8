# SPDX-License-Identifier: Apache-2.0
"""A training whose third batch is one sample, which its batch norm refuses."""

import torch

import tarry.torch as tt

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with tt.join(model, optimizer, data=torch.randn(33, 4), batch=16, piece=4) as job:
    for step in job.steps(4):
        step.compute(lambda batch: (model(batch).square().sum(), len(batch)))
        optimizer.step()
