# SPDX-License-Identifier: Apache-2.0
"""A training that fails at each worker: broken.py WHAT [LOADERS].

sample      sample 37 cannot be read
batch       the same, and the batch is read before `with piece`
evaluation  sample 37 cannot be read in an evaluation after step 2
loss        the loss raises in step 2, in each piece
"""

import sys

import torch

import tarry.torch as tt

what, loaders = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0


class Pictures(torch.utils.data.Dataset):
    def __init__(self, broken):
        self.broken = broken

    def __len__(self):
        return 64

    def __getitem__(self, index):
        if index == self.broken:
            raise OSError(f"cannot identify image file 'img_{index}.jpg'")
        return torch.full((4,), index / 64)


def loss_of(batch):
    if what == "loss" and step.number == 2:
        raise TypeError("a mistake in the script")
    return model(batch).pow(2).sum(), len(batch)


torch.manual_seed(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = Pictures(37 if what in ("sample", "batch") else None)
with tt.join(
    model, optimizer, data=data, batch=32, piece=4, shuffle=False, loaders=loaders, data_check="off",
    sum="server" if what == "loss" else "everywhere",  # the hub has a state, although no worker is there
) as job:  # fmt: skip
    for step in job.steps(8):
        if what == "batch":
            for piece in step:
                batch = piece.batch
                with piece:
                    piece.backward(*loss_of(batch))
        else:
            step.compute(loss_of)
        optimizer.step()
        if what == "evaluation" and step.number == 2:
            job.evaluate(Pictures(37), loss_of)
