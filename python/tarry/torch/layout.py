# SPDX-License-Identifier: Apache-2.0
"""What a summed vector has where: gradients, changes of buffers, metrics, weight."""

from collections.abc import Sequence

import torch
from torch.nn.modules.batchnorm import _NormBase  # pyright: ignore[reportPrivateUsage]

from .._native import lib
from ..errors import ArgumentError, StateError

_ADVICE = "a model keeps its parameters from tarry.torch.join to the end; change it before, or join again"


class Layout:
    """float32 numbers: the gradients of the parameters that want one, in the model's order; for each number of the
    buffers that follow the data (those of batch norms, and `buffers`), weight times its change; sums of metrics; and
    the weight.
    """

    def __init__(
        self, model: torch.nn.Module, metrics: Sequence[str], buffers: Sequence[str], *, private: bool = False
    ) -> None:
        """private: gradients alone, since nothing else is clipped. Raises ArgumentError."""
        self._model = model
        self.parameters = [(name, one) for name, one in model.named_parameters() if one.requires_grad]
        if not self.parameters:
            raise ArgumentError("the model has no parameter that wants a gradient")
        for name, one in self.parameters:
            if not one.is_floating_point():
                raise ArgumentError(f"the parameter {name} has numbers of {one.dtype}: only real ones are summed")
        self.buffers = _following_buffers(model, buffers)
        self.metrics = () if private else ("loss", *metrics)
        if len(set(self.metrics)) < len(self.metrics):
            raise ArgumentError(f"metrics have the same name: {', '.join(self.metrics)} ('loss' is there by itself)")
        self.gradient_numbers = sum(one.numel() for _, one in self.parameters)
        self.buffer_numbers = sum(one.numel() for _, one in self.buffers)
        self.buffers_at = self.gradient_numbers
        self.metrics_at = self.buffers_at + self.buffer_numbers
        self.weight_at = self.metrics_at + len(self.metrics)
        self.weighed = not private
        self.dimension = self.weight_at + int(self.weighed)
        self.exact = self.dimension - self.gradient_numbers  # numbers of which nothing may be rounded
        self._shapes = [one.shape for _, one in self.parameters]

    def check(self) -> None:
        """The model still has the parameters that it had. Raises StateError with what is different."""
        found = {name: one for name, one in self._model.named_parameters() if one.requires_grad}
        for (name, known), shape in zip(self.parameters, self._shapes, strict=True):
            one = found.pop(name, None)
            if one is None:
                raise StateError(f"the parameter {name} has left the model or wants no gradient any more: {_ADVICE}")
            if one.shape != shape:
                raise StateError(f"the parameter {name} was {tuple(shape)} and is {tuple(one.shape)} now: {_ADVICE}")
            if one is not known:
                raise StateError(f"the parameter {name} is another tensor than it was: {_ADVICE}")
        if found:
            raise StateError(f"the parameter {next(iter(found))} is new or wants a gradient now: {_ADVICE}")

    def matrices(self) -> list[tuple[int, int]]:
        """What gradients are, one behind the other: rows, the first dimension, and columns, the others; vectors that
        follow each other are one row."""
        found: list[tuple[int, int]] = []
        for shape in self._shapes:
            rows, numbers = (shape[0] if len(shape) > 1 else 1), shape.numel()
            if rows > 1:
                found.append((rows, numbers // rows))
            elif found and found[-1][0] == 1:
                found[-1] = (1, found[-1][1] + numbers)
            elif numbers:
                found.append((1, numbers))
        return found[: lib.TARRY_COMPRESS_MATRICES_MOST]

    def describe(self) -> str:
        """A line for each, so that a difference can be told."""
        lines = [f"{name} {tuple(one.shape)}" for name, one in self.parameters]
        lines += [f"buffer {name} {tuple(one.shape)}" for name, one in self.buffers]
        return "\n".join([*lines, *(f"metric {name}" for name in self.metrics)])

    def views(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """The part of each parameter, in its shape."""
        found: list[torch.Tensor] = []
        begin = 0
        for _, one in self.parameters:
            found.append(flat[begin : begin + one.numel()].view(one.shape))
            begin += one.numel()
        return found


def _following_buffers(model: torch.nn.Module, wanted: Sequence[str]) -> list[tuple[str, torch.Tensor]]:
    norms = {
        id(buffer)
        for module in model.modules()
        if isinstance(module, _NormBase)
        for buffer in module.buffers(recurse=False)
    }
    known = dict(model.named_buffers())
    for name in wanted:
        if name not in known:
            raise ArgumentError(f"the model has no buffer {name!r}; there are {', '.join(known) or 'none'}")
    return [(name, buffer) for name, buffer in known.items() if id(buffer) in norms or name in wanted]
