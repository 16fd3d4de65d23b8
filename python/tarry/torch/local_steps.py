# SPDX-License-Identifier: Apache-2.0
"""Steps that a worker takes by itself between two sums: FedAvg (McMahan et al., 2017), DiLoCo (Douillard et al., 2023).

The optimizer of `join` is the outer one: it steps along the mean of what the pieces' own steps changed.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

import torch

from ..errors import ArgumentError
from .piece import Piece, check_weight
from .step import LossOf, Step

if TYPE_CHECKING:
    from .job import Job

MakeOptimizer = Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]


class LocalSteps:
    """From the common parameters x each piece takes `steps` steps of an optimizer of its own, one on each of as many
    equal parts of its samples, and ends at y. What is summed is x - y times its weight.

    An inner optimizer begins anew with each piece, since the next round's copy of it may be computed by another worker:
    with Adam that is not DiLoCo, whose inner optimizers last. Sums are exact all the same, whoever is slow or dies.
    """

    def __init__(self, job: "Job", steps: int, make_optimizer: MakeOptimizer) -> None:
        """Raises ArgumentError."""
        if not 1 <= steps <= job.permutation.piece:
            raise ArgumentError(f"{steps} local steps with pieces of {job.permutation.piece} samples")
        if job.secret is not None:
            raise ArgumentError("secure does not go with local steps: sums are of gradients over all samples alone")
        if job.clipping is not None:
            raise ArgumentError("dp does not go with local steps: what a sample changes of them is not clipped")
        if "scaler" in job.members.others:
            raise ArgumentError(
                "local steps don't go with a GradScaler: their optimizers would step on scaled gradients"
            )
        self._job, self._steps, self._make_optimizer = job, steps, make_optimizer

    def compute(self, step: Step, loss_of: LossOf) -> None:
        """Computes the step's pieces that this worker is given, as Step.compute does. Afterwards `.grad` is the mean of
        all changes, and the outer optimizer may step. Losses and metrics are those met on the way."""
        for piece in step:
            with piece:
                self._compute(piece, loss_of)

    def _compute(self, piece: Piece, loss_of: LossOf) -> None:
        job = self._job
        parts = split(piece.batch, self._steps)
        losses, weights = 0.0, 0.0
        parameters = [parameter for _, parameter in job.layout.parameters]
        used = [False] * len(parameters)
        with job.members.parameters_may_change() as before:
            optimizer = self._make_optimizer(parameters)
            for part in parts:
                piece.end_if_done()
                optimizer.zero_grad(set_to_none=True)
                loss, weight, *more = loss_of(part)
                check_weight(weight)
                if weight > 0:  # a part of weight 0 has no mean to step along
                    job.reduction.look(loss, float(weight))
                    job.backward(loss / weight)
                    used = [was or one.grad is not None for was, one in zip(used, parameters, strict=True)]
                    cast(Any, optimizer).step()
                    losses, weights = losses + float(loss.detach()), weights + float(weight)
                for metrics in more:
                    piece.add(**metrics)
            with torch.no_grad():
                changes = [
                    (kept - parameter) * weights if is_used else None
                    for kept, parameter, is_used in zip(before, parameters, used, strict=True)
                ]
        piece.put(changes, losses, weights)


def split(batch: Any, parts: int) -> list[Any]:
    """A batch by its first dimension, in tensors, tuples, lists and dicts; without parts that would have no sample.

    Raises ArgumentError for what else is in it.
    """
    if isinstance(batch, torch.Tensor):
        return list(batch.tensor_split(min(parts, len(batch))))
    if isinstance(batch, dict):
        named = cast("dict[Any, Any]", batch)
        return [dict(zip(named, one, strict=True)) for one in split(list(named.values()), parts)]
    if isinstance(batch, list | tuple) and batch:
        columns = [split(one, parts) for one in cast("list[Any]", batch)]
        make: Any = tuple if isinstance(batch, tuple) else list
        if len({len(column) for column in columns}) == 1:
            return [make(one) for one in zip(*columns, strict=True)]
    raise ArgumentError(
        f"a batch with a {type(cast(Any, batch)).__name__} in it can't be split for local steps: tensors of one length "
        "can, in tuples, lists and dicts"
    )
