# SPDX-License-Identifier: Apache-2.0
"""The sum of the gradients of single examples, each shortened to a length."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, cast

import torch

from ..errors import ArgumentError
from .layout import Layout
from .local_steps import split


def check_version() -> None:
    """Raises ArgumentError where PyTorch has no torch.func."""
    if not hasattr(torch, "func"):
        raise ArgumentError(f"dp needs torch.func, which PyTorch has from 2.0 on, and this is {torch.__version__}")


class _LossOf(torch.nn.Module):
    """A function that calls the model as a module that holds it, so that its parameters may be others."""

    def __init__(self, model: torch.nn.Module, loss_of: Callable[[Any], Any]) -> None:
        super().__init__()
        self.model = model
        self._loss_of = loss_of

    def forward(self, batch: Any) -> torch.Tensor:
        found: Any = self._loss_of(batch)
        loss = cast(Any, found[0] if isinstance(found, tuple) else found)
        if not isinstance(loss, torch.Tensor):
            raise ArgumentError(f"the function gives a {type(loss).__name__}, and a loss as a tensor is wanted")
        return loss.sum()


class Clipping:
    """Per-example gradients by torch.func: vmap over grad, with batches of one example.

    clip  the most that one adds
    most  examples whose gradients are there at the same time
    """

    def __init__(self, model: torch.nn.Module, layout: Layout, clip: float, most: int) -> None:
        """Raises ArgumentError."""
        check_version()
        self._func: Any = importlib.import_module("torch.func")
        self._model, self._layout, self._clip, self._most = model, layout, clip, most

    def sum_of(self, loss_of: Callable[[Any], Any], batch: Any, samples: int) -> list[torch.Tensor]:
        """For each parameter that wants a gradient the sum of those of the examples. One that is not finite counts as
        zero. Worked out in double from what the model's precision gives. Raises ArgumentError."""
        parameters = {f"model.{name}": one.detach() for name, one in self._layout.parameters}
        around = _LossOf(self._model, loss_of)

        def loss(values: Mapping[str, torch.Tensor], example: Any) -> torch.Tensor:
            return self._func.functional_call(around, values, (_as_batch(example),))

        each = self._func.vmap(self._func.grad(loss), in_dims=(None, 0), randomness="different")
        sums = [torch.zeros(one.shape, dtype=torch.float64, device=one.device) for one in parameters.values()]
        for part in split(batch, -(-samples // self._most)):
            found: dict[str, torch.Tensor] = each(parameters, part)
            for total, one in zip(sums, _clipped(list(found.values()), self._clip), strict=True):
                total += one
        return sums


def _as_batch(example: Any) -> Any:
    """Of one."""
    if isinstance(example, torch.Tensor):
        return example.unsqueeze(0)
    if isinstance(example, dict):
        return {name: _as_batch(one) for name, one in cast("dict[Any, Any]", example).items()}
    make: Any = tuple if isinstance(example, tuple) else list
    return make(_as_batch(one) for one in cast("list[Any]", example))


def _clipped(gradients: list[torch.Tensor], clip: float) -> list[torch.Tensor]:
    """The sum over the first dimension, which is of examples, after each was shortened."""
    squares = [one.detach().flatten(1).double().square().sum(1) for one in gradients]
    lengths = torch.stack([one.to(squares[0].device) for one in squares]).sum(0).sqrt()
    finite = lengths.isfinite()
    scales = torch.where(finite, (clip / lengths).clamp(max=1.0), 0.0)
    found: list[torch.Tensor] = []
    for one in gradients:
        known, factors = finite.to(one.device), scales.to(one.device)
        rows = one.detach().flatten(1).double()
        rows[~known] = 0.0
        found.append((factors @ rows).view(one.shape[1:]))
    return found
