# SPDX-License-Identifier: Apache-2.0
"""Tarry under a PyTorch loop: each worker computes the pieces that it is given, and `.grad` is the exact mean of the
whole batch on every worker.

    import torch, tarry.torch as tt

    with tt.join(model, optimizer, data=train_set, batch=4096, piece=64, checkpoint="run.ckpt") as job:
        for step in job.steps(10_000):
            for piece in step:
                with piece:
                    x, y = piece.batch
                    piece.backward(loss_fn(model(x), y), weight=len(y))     # reduction="sum"
            optimizer.step()
            if job.chief:
                print(step.number, step.metrics["loss"])
"""

from .job import Job, join
from .piece import Piece
from .step import LossOf, Step

__all__ = ["Job", "LossOf", "Piece", "Step", "join"]
