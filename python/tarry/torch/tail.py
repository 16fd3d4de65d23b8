# SPDX-License-Identifier: Apache-2.0
"""What rides behind the gradients in a piece's vector: sums of metrics, the weight, and how many pieces used each
parameter. Changes of buffers ride there, too (members.py)."""

import math
from collections.abc import Mapping, Sequence

import torch

from ..errors import Error
from .layout import Layout

_MOST = torch.finfo(torch.float32).max


class Tail:
    """Writes and reads the tail of vectors.

    A mark is the number that stands for "a piece used this parameter" or "a piece is not finite": 1, or less if numbers
    have a bound.
    """

    def __init__(self, layout: Layout, *, bound: float = math.inf) -> None:
        """bound: of every number in a piece's vector, as secure sums have one."""
        self._layout = layout
        self._mark = min(1.0, bound / 2)
        self._counts = slice(layout.counts_at, layout.counts_at + layout.counts)

    def write(
        self, vector: torch.Tensor, metrics: Mapping[str, float], weight: float, used: Sequence[bool], where: str
    ) -> None:
        """where: the piece, for messages. Raises Error for a number that float32 does not have."""
        layout = self._layout
        for place, name in enumerate(layout.metrics):
            vector[layout.metrics_at + place] = _as_float32(metrics.get(name, 0.0), name, where)
        if layout.weighed:
            vector[layout.weight_at] = _as_float32(weight, "weight", where)
        if layout.counts:
            vector[self._counts] = torch.tensor(used, dtype=torch.float32) * self._mark
            vector[layout.marked_at] = 0.0

    def mark(self, vector: torch.Tensor) -> None:
        """The piece is not finite, and adds nothing else to the sum."""
        vector.zero_()
        vector[self._layout.marked_at] = self._mark

    def is_marked(self, total: torch.Tensor) -> bool:
        """True if the sum has a piece that is not finite."""
        return self._layout.counts > 0 and float(total[self._layout.marked_at]) > 0.5 * self._mark

    def used(self, total: torch.Tensor) -> list[bool] | None:
        """For each parameter, whether a piece of the step used it. None if that is not told."""
        if not self._layout.counts:
            return None
        # A decoded sum is off by rounding, so that 0 is a number near 0.
        return [bool(one) for one in total[self._counts].numpy() > 0.5 * self._mark]


def _as_float32(value: float, name: str, where: str) -> float:
    if math.isfinite(value) and abs(value) > _MOST:
        raise Error(f"{where}: {name} is {value:.3g}, and sums are float32, up to {_MOST:.3g}: divide it by a constant")
    return value
