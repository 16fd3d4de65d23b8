# SPDX-License-Identifier: Apache-2.0
"""The model's `.grad` as parts of one flat vector: that of a task, or the mean of a step."""

import warnings
from typing import Any, cast

import torch

from ..errors import ArgumentError
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
    """Attaches vectors to the parameters' `.grad`, and sees to it that what was worked out is in them."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        # Numbers of these are the task's own; others go through a copy.
        self._direct = [
            parameter.dtype == torch.float32 and parameter.device.type == "cpu" for _, parameter in layout.parameters
        ]
        self._places: dict[int, list[torch.Tensor]] = {}
        self._attached: list[torch.Tensor] = []
        self._lasting = False

    def attach(self, flat: torch.Tensor, *, zero: bool) -> None:
        """Parameters' `.grad` are parts of `flat` from now on, as far as their kind allows; the rest are copies."""
        views = self._views(flat)
        if zero:
            flat[: self._layout.gradient_numbers].zero_()
        for (_, parameter), view, direct in zip(self._layout.parameters, views, self._direct, strict=True):
            if direct:
                parameter.grad = view
            elif zero:
                parameter.grad = torch.zeros_like(parameter)
            else:
                parameter.grad = view.to(device=parameter.device, dtype=parameter.dtype)
        self._attached = views
        self._lasting = not zero  # the mean is the job's own memory

    def collect(self) -> None:
        """What was worked out is in the vector that is attached."""
        for (name, parameter), view in zip(self._layout.parameters, self._attached, strict=True):
            gradient = parameter.grad
            if gradient is None:
                view.zero_()
            elif gradient.layout != torch.strided:
                raise ArgumentError(f"the gradient of {name} is sparse, which can't be summed here")
            elif gradient.data_ptr() != view.data_ptr():
                view.copy_(gradient)

    def detach(self) -> None:
        """No `.grad` is in a task's memory any more."""
        places = {view.data_ptr() for view in self._attached}
        for _, parameter in self._layout.parameters:
            gradient = parameter.grad
            if gradient is not None and gradient.data_ptr() in places and not self._lasting:
                parameter.grad = None
        self._attached = []
        self._places.clear()

    def _views(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """The same few places come again and again."""
        place = flat.data_ptr()
        if place not in self._places:
            if len(self._places) >= _MOST_PLACES:
                self._places.clear()
            self._places[place] = self._layout.views(flat)
        return self._places[place]
