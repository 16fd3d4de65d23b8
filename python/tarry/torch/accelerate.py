# SPDX-License-Identifier: Apache-2.0
"""Hugging Face Accelerate over tarry.torch: precision, devices and clipping are Accelerate's, the sums are Tarry's.

    from accelerate import Accelerator
    import tarry.torch.accelerate

    accelerator = Accelerator(mixed_precision="bf16")
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    with tarry.torch.accelerate.join(accelerator, model, optimizer, scheduler, data=loader, batch=4096) as job:
        for step in job.steps(10_000):
            for piece in step:
                with piece:
                    x, y = piece.batch                                          # on the accelerator's device
                    piece.backward(loss_fn(model(x), y), weight=len(y))         # by accelerator.backward
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()

Each process is an Accelerator of its own, as `tarry run` or srun start them; to Accelerate each is the main one, and
job.chief says which of them speaks for all.
"""

import functools
import importlib
from typing import Any, Protocol

import torch
from torch.utils.data import DataLoader

from ..errors import ArgumentError
from . import job as jobs
from .members import HasState
from .source import micro_batch_of


class Accelerator(Protocol):
    """What is asked of an accelerate.Accelerator."""

    num_processes: int
    gradient_accumulation_steps: int
    scaler: Any
    device: torch.device

    def backward(self, loss: torch.Tensor, /) -> None: ...


def join(
    accelerator: Any, model: torch.nn.Module, optimizer: Any, *others: HasState, data: Any, batch: int, **options: Any
) -> jobs.Job:
    """tarry.torch.join for what `accelerator.prepare` gave.

    data    a dataset, or a DataLoader: its batch_size is `piece`, and the rest of it is used as tarry.torch.join does,
            sampler, batch_sampler, order and drop_last included

    Other options are those of tarry.torch.join. The scaler of float16 is saved with the model. Raises ArgumentError,
    too, for an Accelerator that sums gradients among processes itself or accumulates them: pieces are what it would
    accumulate.
    """
    if options.get("secure"):
        raise ArgumentError("secure does not go with Accelerate: each of its steps is over a batch")
    if options.get("dp"):
        raise ArgumentError("dp does not go with Accelerate: gradients of single examples were not tried with it")
    known: Accelerator = accelerator
    if known.num_processes != 1:
        raise ArgumentError(
            f"the Accelerator sums over {known.num_processes} processes itself: start the script by `tarry run` or "
            "srun, without torchrun or accelerate launch"
        )
    if known.gradient_accumulation_steps != 1:
        raise ArgumentError(
            f"the Accelerator accumulates {known.gradient_accumulation_steps} steps: leave that at 1, since a batch is "
            "cut into pieces here"
        )
    if known.scaler is not None:
        options["scaler"] = known.scaler
    if isinstance(data, DataLoader) and (size := micro_batch_of(data)) is not None:
        options.setdefault("piece", size)
    if "piece" not in options:
        raise ArgumentError("the data do not say how many samples are computed at once: piece=... does")
    # Accelerate's own optimizer is around PyTorch's.
    inner: torch.optim.Optimizer = getattr(optimizer, "optimizer", optimizer)
    found = jobs.join(model, inner, *others, data=data, batch=batch, **options)
    found.backward = known.backward
    found.move = functools.partial(importlib.import_module("accelerate.utils").send_to_device, device=known.device)
    return found
