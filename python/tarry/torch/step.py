# SPDX-License-Identifier: Apache-2.0
"""A step of a training: its pieces, and then its sum."""

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from .halves import check_sum
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
    skipped  whether the optimizer does not step, on any worker: the weights of all pieces sum up to 0, or a gradient is
             not finite and join(nonfinite="skip") was given. Metrics are those of the finite pieces
    lost     whether others have gone on without this worker: what the loop's body does now is replaced by their state,
             and loss, metrics and weight are those of their last step
    """

    def __init__(self, job: "Job", number: int) -> None:
        self._job = job
        self._begun = time.monotonic()
        self._sum: Summed | None = None  # kept until the loop's body is through
        self._pieces = 0
        self._piece: Piece | None = None  # the last one
        self.number = number
        self.epoch = job.permutation.epoch_of(number)
        self.metrics: dict[str, float] = {}
        self.lost = self.skipped = False

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
                if self._job.reduction.unclear:
                    check_sum(self._job, loss_of, self.number, piece.unit)

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
        self._piece = Piece(job, task, self.number, unit)
        return self._piece

    def _end(self, found: Summed | Lost) -> None:
        """The loop's body goes on behind the pieces."""
        self._job.copies.compare(self.number)
        if isinstance(found, Lost):
            self.lost = True
            self.metrics = self._job.update.apply_nothing(found)
        else:
            self._sum = found
            self.metrics = self._job.update.apply(found, self.number)
            self.skipped = self._job.update.skipped
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

    def abandon(self) -> None:
        """The loop over steps was left before the sum."""
        if self._piece is not None:
            self._piece.refuse()

    def give_back(self) -> None:
        """The model has stepped."""
        if self._sum is not None:
            self._sum.give_back()


class Guard:
    """Looks before each step of the optimizer whether it may step.

    In a step that is skipped, each `.grad` is None while an optimizer steps, so that it leaves parameters and its own
    state as they are. `others` that are optimizers are held to that, too.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        others: Iterable[object],
        look: Callable[[], None],
        skips: Callable[[], bool],
    ) -> None:
        self._skips = skips
        self._hidden: list[tuple[torch.Tensor, torch.Tensor]] = []  # gradients, while an optimizer steps
        self._removals: list[Callable[[], None]] = []
        self._watch(optimizer, look)
        for other in others:
            if isinstance(other, torch.optim.Optimizer):
                self._watch(other, lambda: None)

    def _watch(self, optimizer: torch.optim.Optimizer, look: Callable[[], None]) -> None:
        known: Any = optimizer

        def before(*_: Any) -> None:
            look()
            if self._skips():
                self._hide(optimizer)

        def after(*_: Any) -> None:
            self._show()

        if hasattr(optimizer, "register_step_pre_hook"):
            hooks = known.register_step_pre_hook(before), known.register_step_post_hook(after)
            self._removals += [hook.remove for hook in hooks]
        else:  # PyTorch before 2.0
            step: Any = known.step

            @functools.wraps(step)  # schedulers look at its attributes
            def guarded(*arguments: Any, **options: Any) -> Any:
                before()
                found = step(*arguments, **options)
                after()
                return found

            known.step = guarded
            self._removals.append(lambda: setattr(known, "step", step))

    def _hide(self, optimizer: torch.optim.Optimizer) -> None:
        groups: list[dict[str, Any]] = optimizer.param_groups
        parameters: list[torch.Tensor] = [one for group in groups for one in group["params"]]
        for one in parameters:
            if one.grad is not None:
                self._hidden.append((one, one.grad))
                one.grad = None

    def _show(self) -> None:
        for parameter, gradient in self._hidden:
            parameter.grad = gradient
        self._hidden.clear()

    def close(self) -> None:
        for remove in self._removals:
            remove()
