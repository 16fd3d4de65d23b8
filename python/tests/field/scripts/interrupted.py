# SPDX-License-Identifier: Apache-2.0
"""Says where it is when a signal may come: interrupted.py PLACE FILE [WHERE]

PLACE is where all workers are from when the file FILE.there is written until FILE.go is: 'piece' (which takes as long
as a compilation), 'evaluation', 'last' (after the last step's sum), 'begin' (before the first step), or 'steps'
(anywhere).
"""

import pathlib
import sys
import time
from typing import Any

import torch

import tarry.torch as tt

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "training" / "scripts"))
from lines import say

AT, LAST, SECONDS = 6, 8, 200
place, file, where = sys.argv[1], pathlib.Path(sys.argv[2]), (*sys.argv[3:], "everywhere")[0]
torch.manual_seed(1)
model: Any = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.randn(64, 4, generator=torch.Generator().manual_seed(1))


def loss_of(batch: torch.Tensor) -> tuple[torch.Tensor, int]:
    return model(batch).pow(2).sum(), len(batch)


def slowly(batch: torch.Tensor) -> tuple[torch.Tensor, int]:
    stay()
    return loss_of(batch)


def stay() -> None:
    until = time.monotonic() + SECONDS
    while not pathlib.Path(f"{file}.go").exists() and time.monotonic() < until:
        time.sleep(0.01)


def be(here: str) -> bool:
    if here == place:
        pathlib.Path(f"{file}.there").touch()
    return here == place


with tt.join(
    model, optimizer, data=data, batch=64, piece=8, checkpoint=file, checkpoint_seconds=3600, sum=where
) as job:
    say("begins", job.worker, job.done)
    if be("begin"):
        stay()
    for step in job.steps(100_000 if place != "last" else LAST):
        for piece in step:
            with piece:
                time.sleep(0.002)
                if step.number == AT and be("piece"):
                    stay()
                piece.backward(*loss_of(piece.batch))
        optimizer.step()
        if step.number == AT:
            be("steps")
            if be("evaluation"):
                job.evaluate(data, slowly, piece=32)
        if step.number == LAST - 1 and be("last"):
            stay()
    say("over", job.worker, job.done)
