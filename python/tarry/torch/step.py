# SPDX-License-Identifier: Apache-2.0
"""A step of a training: its pieces, and then its sum."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from .piece import Piece
from .private import Untold
from .secure import UNTOLD
from .sums import Lost, Summed

if TYPE_CHECKING:
    from .job import Job

# Of a batch: the loss, as a sum over samples; of how many it is; and, if wanted, sums of metrics by their names.
LossOf = Callable[[Any], "tuple[torch.Tensor, float] | tuple[torch.Tensor, float, Mapping[str, float]]"]


class Step:
    """Iterates over the pieces that this worker is given; afterwards `.grad` holds the mean of the whole batch.

    number   from 0
    metrics  after the pieces: mean loss and metrics, weight, seconds, and pieces that this worker computed; with dp
             there are none, and with secure those of this worker's alone
    lost     whether others have gone on without this worker: what the loop's body does now is replaced by their state,
             and loss, metrics and weight are those of their last step
    """

    def __init__(self, job: "Job", number: int) -> None:
        self._job = job
        self._begun = time.monotonic()
        self._sum: Summed | None = None  # kept until the loop's body is through
        self._pieces = 0
        self.number = number
        self.epoch = job.permutation.epoch_of(number)
        self.metrics: dict[str, float] = {}
        self.lost = False

    @property
    def summed(self) -> bool:
        """Whether the gradients are there."""
        return self._sum is not None or self.lost

    def __iter__(self) -> Iterator[Piece]:
        self._job.layout.check()
        while not self.summed:
            piece = self._next()
            if piece is not None:
                yield piece

    def compute(self, loss_of: LossOf) -> None:
        """Computes all pieces that this worker is given: loss_of(batch) gives the loss, as a sum over samples, and of
        how many, and maybe sums of metrics. Afterwards the gradients are there. With dp it is piece.private's."""
        for piece in self:
            with piece:
                if self._job.clipping is not None:
                    piece.private(loss_of)
                    continue
                loss, weight, *more = loss_of(piece.batch)
                for metrics in more:
                    piece.add(**metrics)
                piece.backward(loss, weight)

    def _next(self) -> Piece | None:
        job = self._job
        task = job.take()
        if isinstance(task, Summed | Lost):
            self._end(task)
            return None
        unit = task.spans[0].origin
        if len(job.permutation.indices(self.number, unit)) == 0:
            job.empty_piece(task)
            return None
        self._pieces += 1
        return Piece(job, task, self.number, unit)

    def _end(self, found: Summed | Lost) -> None:
        """The loop's body goes on behind the pieces."""
        self._job.compare(self.number)
        if isinstance(found, Lost):
            self.lost = True
            self.metrics = self._job.apply_nothing(found)
        else:
            self._sum = found
            self.metrics = self._job.apply(found)
        if self._job.clipping is not None:
            self.metrics = Untold()
            return
        own = {"seconds": time.monotonic() - self._begun, "pieces": float(self._pieces)}
        self.metrics = Untold(UNTOLD, own) if self._job.secret is not None else self.metrics | own

    def exhaust(self) -> None:
        """The loop's body left pieces: others compute them."""
        while not self.summed:
            piece = self._next()
            if piece is not None:
                piece.refuse()

    def give_back(self) -> None:
        """The model has stepped."""
        if self._sum is not None:
            self._sum.give_back()


class Guard:
    """Looks before each step of the optimizer."""

    def __init__(self, optimizer: torch.optim.Optimizer, look: Callable[[], None]) -> None:
        self._remove: Callable[[], None]
        known: Any = optimizer

        def hook(*_: Any) -> None:
            look()

        if hasattr(optimizer, "register_step_pre_hook"):
            self._remove = known.register_step_pre_hook(hook).remove
        else:  # PyTorch before 2.0
            step: Any = known.step

            def guarded(*arguments: Any, **options: Any) -> Any:
                look()
                return step(*arguments, **options)

            known.step = guarded
            self._remove = lambda: setattr(known, "step", step)

    def close(self) -> None:
        self._remove()
