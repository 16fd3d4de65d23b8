# SPDX-License-Identifier: Apache-2.0
"""Worker 1 has its files in another order: ordered.py MODE. Prints 'end' by each worker that was taken."""

import os
import sys

import torch

import tarry.torch as tt


class Files(torch.utils.data.Dataset):
    def __init__(self) -> None:
        self.x = torch.randn(256, 4, generator=torch.Generator().manual_seed(0))
        self.names = list(range(256))
        if os.environ["TARRY_WORKER"] == "1" and sys.argv[1] == "reversed":
            self.names.reverse()

    def __len__(self) -> int:
        return 256

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.x[self.names[index]]


model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
with tt.join(model, optimizer, data=Files(), batch=256, piece=8, seed=3) as job:
    while job.step(lambda x: (model(x).square().sum(), len(x)), 2):
        optimizer.step()
    print("end", flush=True)
