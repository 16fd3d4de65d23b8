# SPDX-License-Identifier: Apache-2.0
"""What a summed vector has where: gradients, changes of buffers, metrics, weight, counts."""

from collections.abc import Sequence

import torch
from torch.nn.modules.batchnorm import _NormBase  # pyright: ignore[reportPrivateUsage]

from .._native import lib
from ..errors import ArgumentError, StateError
from . import strides
from .dtypes import attribute_of, check_real

_ADVICE = "a model keeps its parameters from tarry.torch.join to the end; change it before, or join again"


class Layout:
    """float32 numbers: the gradients of the parameters that want one, in the model's order, each in the order that its
    parameter has in memory; for each number of the
    buffers that follow the data (those of batch norms, and `buffers`), weight times its change; sums of metrics; the
    weight; the mark of torch/buffer_source.py; for each parameter how many pieces used it; and how many pieces were not
    finite.

    With dp there are gradients alone, since nothing else is clipped: a count would tell who was in a step. With secure
    there are gradients and counts alone.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        metrics: Sequence[str],
        buffers: Sequence[str],
        *,
        dp: bool = False,
        secure: bool = False,
    ) -> None:
        """Raises ArgumentError."""
        self._model = model
        self.parameters = [(name, one) for name, one in model.named_parameters() if one.requires_grad]
        if not self.parameters:
            raise ArgumentError("the model has no parameter that wants a gradient")
        for name, one in self.parameters:
            check_real(name, "parameter", one)
        self.buffers = _following_buffers(model, buffers)
        for name, one in self.buffers:
            check_real(name, "buffer", one)
        self.metrics = () if dp or secure else ("loss", *metrics)
        if len(set(self.metrics)) < len(self.metrics):
            raise ArgumentError(f"metrics have the same name: {', '.join(self.metrics)} ('loss' is there by itself)")
        self.gradient_numbers = sum(one.numel() for _, one in self.parameters)
        self.buffer_numbers = sum(one.numel() for _, one in self.buffers)
        self.buffers_at = self.gradient_numbers
        self.metrics_at = self.buffers_at + self.buffer_numbers
        self.weight_at = self.metrics_at + len(self.metrics)
        self.weighed = not (dp or secure)
        self.changed_at = self.weight_at + 1  # whether the piece whose buffers the step keeps has changed any
        self.counts_at = self.weight_at + 2 * int(self.weighed)
        self.counts = 0 if dp else len(self.parameters)
        self.marked_at = self.counts_at + self.counts  # how many pieces were not finite
        self.dimension = self.marked_at + (0 if dp else 1)
        # So many numbers at the end are never rounded. Secure sums have one grid for all numbers.
        self.exact = 0 if secure else self.dimension - self.gradient_numbers
        self._known = [_kind(one) for _, one in self.parameters]
        self._strides = [strides.of_gradient(one) for _, one in self.parameters]

    def check(self) -> None:
        """The model still has the parameters that it had. Raises StateError with what is different."""
        found = {name: one for name, one in self._model.named_parameters() if one.requires_grad}
        for (name, known), kind in zip(self.parameters, self._known, strict=True):
            one = found.pop(name, None)
            if one is None:
                self.check_wanted()
                raise StateError(f"the parameter {name} has left the model: {_ADVICE}")
            if (now := _kind(one)) != kind:
                was, its = next((was, its) for was, its in zip(_words(kind), _words(now), strict=True) if was != its)
                raise StateError(f"the parameter {name} was {was} and is {its} now: {_ADVICE}")
            if one is not known:
                raise StateError(f"the parameter {name} is another tensor than it was: {_ADVICE}")
        if found:
            raise StateError(f"the parameter {next(iter(found))} is new or wants a gradient now: {_ADVICE}")

    def check_wanted(self) -> None:
        """No parameter was frozen. Raises StateError."""
        for name, one in self.parameters:
            if not one.requires_grad:
                raise StateError(
                    f"the parameter {name} no longer wants a gradient (requires_grad_(False)): {_ADVICE}. Or freeze it "
                    "by its group of parameters in the optimizer, with lr=0"
                )

    def matrices(self) -> list[tuple[int, int]]:
        """What gradients are, one behind the other: rows, the outermost dimension in memory, which is the first one
        except in transposed parameters, and columns, the others; vectors that follow each other are one row."""
        found: list[tuple[int, int]] = []
        for (_, one), its_strides in zip(self.parameters, self._strides, strict=True):
            rows, numbers = strides.rows(one.shape, its_strides), one.numel()
            if rows > 1:
                found.append((rows, numbers // rows))
            elif found and found[-1][0] == 1:
                found[-1] = (1, found[-1][1] + numbers)
            elif numbers:
                found.append((1, numbers))
        return found[: lib.TARRY_COMPRESS_MATRICES_MOST]

    def describe(self) -> str:
        """A line for each, so that a difference can be told."""
        lines = [
            f"{name} {tuple(one.shape)} {attribute_of(one.dtype)}, strides {strides.order(one.shape, its)}"
            for (name, one), its in zip(self.parameters, self._strides, strict=True)
        ]
        lines += [f"buffer {name} {tuple(one.shape)}" for name, one in self.buffers]
        return "\n".join([*lines, *(f"metric {name}" for name in self.metrics)])

    def views(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """The part of each parameter, in its shape and with its strides."""
        found: list[torch.Tensor] = []
        begin = flat.storage_offset()
        for (_, one), its in zip(self.parameters, self._strides, strict=True):
            found.append(flat.as_strided(one.shape, its, begin))
            begin += one.numel()
        return found


def _kind(one: torch.Tensor) -> tuple[torch.Size, torch.dtype, torch.device, tuple[int, ...]]:
    return one.shape, one.dtype, one.device, one.stride()


def _words(kind: tuple[torch.Size, torch.dtype, torch.device, tuple[int, ...]]) -> tuple[str, ...]:
    """In messages."""
    shape, dtype, device, its = kind
    return str(tuple(shape)), str(dtype), f"on {device}", f"with strides {its}"


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
