# SPDX-License-Identifier: Apache-2.0
"""The model's `.grad`: copied into a piece's flat vector, and given the mean of a step.

Within a piece each `.grad` begins as None, as after `zero_grad()` of PyTorch. A parameter that no backward reached
still has None at the end of the piece, whatever PyTorch's version, checkpointing, scalers or compilers do in between.
A `.grad` that is preset to a part of the vector would hide that.
"""

import warnings
from collections.abc import Sequence
from typing import Any, cast

import torch

from ..errors import Error
from ..vectors import Floats
from .layout import Layout

_MOST_PLACES = 64


def flat_tensor(array: Floats) -> torch.Tensor:
    """A tensor over the same memory."""
    if array.flags.writeable:
        return cast(Any, torch).from_numpy(array)
    with warnings.catch_warnings():  # of read-only memory, which is only read
        warnings.simplefilter("ignore", UserWarning)
        return cast(Any, torch).from_numpy(array)


class Gradients:
    """Moves gradients between the parameters' `.grad` and flat vectors."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._parameters = [parameter for _, parameter in layout.parameters]
        # True for parameters whose mean needs no copy: `.grad` is a part of the flat vector.
        self._direct = [one.dtype == torch.float32 and one.device.type == "cpu" for one in self._parameters]
        self._wide = [one.dtype == torch.float64 for one in self._parameters]
        self._places: dict[int, list[torch.Tensor]] = {}

    def clear(self) -> None:
        """Each `.grad` is None, so that backward shows which parameters it reaches."""
        for parameter in self._parameters:
            parameter.grad = None

    def collect(self, flat: torch.Tensor, where: str) -> list[bool]:
        """Moves the gradients into `flat`; parameters without a gradient get zeros there. Returns for each parameter
        whether it has a gradient. A sparse one is summed as a dense one. where: the piece, for messages. Raises
        Error."""
        views = self._views(flat)
        used = [parameter.grad is not None for parameter in self._parameters]
        if not all(used):
            flat[: self._layout.gradient_numbers].zero_()
        for place, (parameter, view) in enumerate(zip(self._parameters, views, strict=True)):
            gradient = parameter.grad
            if gradient is None:
                continue
            view.copy_(gradient if gradient.layout == torch.strided else gradient.to_dense())
            if self._wide[place]:
                self._check_overflow(place, gradient, view, where)
            parameter.grad = None
        return used

    def _check_overflow(self, place: int, gradient: torch.Tensor, view: torch.Tensor, where: str) -> None:
        if bool(view.isinf().any()) and not bool(gradient.isinf().any()):
            raise Error(
                f"{where}: the gradient of {self._layout.parameters[place][0]} has {float(gradient.abs().max()):.3g}, "
                f"and sums are float32, up to {torch.finfo(torch.float32).max:.3g}: scale the loss down"
            )

    def attach(self, mean: torch.Tensor, used: Sequence[bool] | None = None) -> None:
        """Each `.grad` is its part of `mean`, or a copy in the parameter's dtype and on its device; None for parameters
        that are not used. `used` None: all are."""
        for place, (parameter, view) in enumerate(zip(self._parameters, self._views(mean), strict=True)):
            if used is not None and not used[place]:
                parameter.grad = None
            elif self._direct[place]:
                parameter.grad = view
            else:
                parameter.grad = view.to(device=parameter.device, dtype=parameter.dtype)

    def close(self) -> None:
        """Forgets the places of tasks, whose memory is about to be freed."""
        self._places.clear()

    def _views(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """The same few places come again and again."""
        place = flat.data_ptr()
        if place not in self._places:
            if len(self._places) >= _MOST_PLACES:
                self._places.clear()
            self._places[place] = self._layout.views(flat)
        return self._places[place]
