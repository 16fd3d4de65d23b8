# SPDX-License-Identifier: Apache-2.0
"""A piece of a batch, which this worker computes."""

import math
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import torch

from ..errors import ArgumentError, Error, StateError
from ..task import Task
from . import failed
from .dropping import Dropped
from .lone import explain

if TYPE_CHECKING:
    from .job import Job


def check_weight(weight: float) -> None:
    """Raises ArgumentError."""
    if not 0 <= weight < math.inf:
        raise ArgumentError(
            f"weight must be 0 or more, and finite: it is a count of samples (tokens, ..), not {weight}"
        )


class Piece:
    """Samples of a batch. Within `with piece:` the loss is worked out and given to `piece.backward`.

    A piece that is not wanted any more, since others have done it, ends quietly, in the middle if need be.
    """

    def __init__(self, job: "Job", task: Task, step: int, unit: int) -> None:
        self._job = job
        self._task = task
        self._vector: torch.Tensor | None = None
        self._weight = 0.0
        self._loss = 0.0
        self._metrics: dict[str, float] = {}
        self._backward = False
        self._loaded: list[Any] = []  # the batch, once it was asked for
        self.step = step  # counts from 0
        self.unit = unit  # of the batch

    @property
    def samples(self) -> list[int]:
        """Their numbers in the data."""
        return self._job.permutation.samples_of(self.step, self.unit)

    @property
    def batch(self) -> Any:
        """The samples, put together as by a DataLoader. They are loaded once, and kept until the piece ends."""
        if not self._loaded:
            try:
                self._loaded.append(self._job.load_batch(self.step, self.unit))
            except Exception as error:  # perhaps outside of `with`
                self._tell(error)
                raise
        return self._loaded[0]

    def _tell(self, error: BaseException | None) -> None:
        """This worker has failed in the piece."""
        if error is not None:
            failed.tell(self._job, f"piece {self.unit}", f"step {self.step}", self.samples, error)

    def refuse(self) -> None:
        """Leaves it to others."""
        if not self._task.given:
            self._task.give(failed=True)

    @property
    def wanted(self) -> bool:
        """Whether somebody still waits for it."""
        return not self._task.given and not self._task.cancelled

    def backward(self, loss: torch.Tensor, weight: float | None = None, **options: Any) -> None:
        """Adds the gradient of `loss`, which is a *sum* over samples (reduction='sum'), of `weight` samples.

        The step's gradient is the sum over all pieces, divided by the sum of all weights. May be called several times
        for a piece. Options are those of Tensor.backward. Raises ArgumentError for a loss that is a mean, if its
        weight is not 1.
        """
        if self._job.clipping is not None:
            raise StateError(
                "with dp each example's gradient is clipped by itself: piece.private(loss_of), with a function of "
                "a batch that gives its loss, is in the place of piece.backward(loss)"
            )
        if weight is None:
            raise ArgumentError(
                "backward needs weight: for how many samples (tokens, ..) the loss is a sum, as in "
                "piece.backward(loss, weight=len(y)), with reduction='sum' in the loss"
            )
        check_weight(weight)
        if self._vector is None:
            raise StateError("piece.backward comes within `with piece:`")
        self._job.reduction.look(loss, float(weight))
        self.end_if_done()
        self._job.backward(loss, **options)
        self._backward = True
        self._loss += float(loss.detach())
        self._weight += float(weight)

    def end_if_done(self) -> None:
        """Ends the `with` block if others have done the piece. piece.backward asks by itself, and modules that are not
        compiled do before each forward; a loop's body that takes long may ask besides."""
        if self._vector is not None and self._task.cancelled:
            raise Dropped

    def private(self, loss_of: Callable[[Any], Any]) -> None:
        """In place of `backward`, with differential privacy: adds the gradient of each sample, shortened to the clip.

        loss_of is called with batches of one sample, in which torch.func.vmap has many, and gives the loss of it (or a
        tuple that begins with that): it may not look at numbers, as `float(loss)` and `if x > 0` do. Not finite
        gradients count as zero.
        """
        clipping = self._job.clipping
        if clipping is None:
            raise StateError("piece.private is for a training with dp: join(..., dp='clip:C,noise:SIGMA,sample:Q')")
        if self._vector is None or self._backward:
            raise StateError("piece.private comes once, and within `with piece:`")
        self.end_if_done()
        found = clipping.sum_of(loss_of, self.batch, len(self.samples))
        with torch.no_grad():
            for (_, parameter), gradient in zip(self._job.layout.parameters, found, strict=True):
                parameter.grad = gradient.to(parameter.dtype)
        self._backward = True

    def put(self, gradients: Iterable[torch.Tensor | None], loss: float, weight: float) -> None:
        """In place of `backward`: a sum that was computed elsewhere, for each parameter that wants a gradient. None
        stands for a parameter that was not used."""
        if self._vector is None:
            raise StateError("piece.put comes within `with piece:`")
        for (_, parameter), gradient in zip(self._job.layout.parameters, gradients, strict=True):
            parameter.grad = gradient
        self._backward = True
        self._loss += loss
        self._weight += weight

    def add(self, **metrics: float) -> None:
        """Adds to sums of metrics, which are told divided by the weight in step.metrics."""
        for name, value in metrics.items():
            if name not in self._job.layout.metrics or name == "loss":
                raise ArgumentError(
                    f"{name!r} is no metric of this training: join(..., metrics=({name!r},)) makes it one"
                )
            self._metrics[name] = self._metrics.get(name, 0.0) + float(value)

    def _why(self, error: BaseException | None) -> str:
        """Of an error that this piece would raise at every worker, and that Tarry can explain; else ""."""
        if not isinstance(error, ValueError):
            return ""
        return explain(error, len(self.samples), self._job.permutation, f"step {self.step}, piece {self.unit}")

    def __enter__(self) -> Self:
        self._vector = self._job.open_piece(self._task, self.step, self.unit)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        why = self._why(error)
        if not why:
            self._tell(error)
        vector, self._vector = self._vector, None
        self._loaded.clear()
        good = kind is None and self._backward
        assert vector is not None
        try:
            if good:
                good = False
                self._job.update.complete_piece(
                    vector, self.step, self.unit, self._weight, {"loss": self._loss, **self._metrics}
                )
                good = True
        except Exception as raised:
            self._tell(raised)
            raise
        finally:
            self._job.close_piece(self._task, failed=not good)
        if why:
            self._job.client.fail(why)
            raise Error(why) from error
        if kind is None and not self._backward:
            wanted = "piece.backward(loss, weight=...)" if self._job.clipping is None else "piece.private(loss_of)"
            raise StateError(f"the piece has no gradient: {wanted} was not called")
        return isinstance(error, Dropped)
