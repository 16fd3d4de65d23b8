# SPDX-License-Identifier: Apache-2.0
"""NaN and infinity in gradients: a piece that has any is not summed, and all workers hear of it by the step's sum.

The piece's vector is zeros and a mark, which is exact in every form of compression. So all workers see the mark in the
same sum and act alike. Before, the worker has told the hub which piece it was, so that errors can name it.
"""

import logging

import torch

from ..errors import ArgumentError, refuse
from ..hub import Agreement, Client
from .layout import Layout
from .order import Order
from .tail import Tail

POLICIES = ("raise", "skip", "allow")
_LOG = logging.getLogger("tarry.torch")
_SHOWN = 16  # samples of a piece


def policy_of(wanted: str | None, *, scaler: bool, dp: str) -> str:
    """What `nonfinite` of join means. Raises ArgumentError."""
    if wanted is not None and wanted not in POLICIES:
        raise ArgumentError(f"nonfinite is {wanted!r}; it can be {', '.join(map(repr, POLICIES))}")
    refuse("dp", {"nonfinite: a sample's gradient that is not finite counts as zero": bool(dp and wanted)})
    if wanted is None:
        return "allow" if dp or scaler else "raise"
    return wanted


def all_finite(numbers: torch.Tensor) -> bool:
    """True if no number is NaN or infinite. The sum is one fast pass over the memory; it may overflow, and then the
    numbers are looked at one by one."""
    return bool(numbers.sum().isfinite()) or bool(numbers.isfinite().all())


class FiniteCheck:
    """Looks at each piece of this worker, and at each sum. For the training's thread."""

    def __init__(
        self, agreement: Agreement, layout: Layout, tail: Tail, permutation: Order, client: Client, worker: int
    ) -> None:
        self._is_on = agreement.nonfinite != "allow"
        self._is_secure = agreement.secure
        self._layout, self._tail, self._permutation = layout, tail, permutation
        self._client, self._worker = client, worker

    def passes(self, vector: torch.Tensor, step: int, unit: int, weight: float) -> bool:
        """True if the piece may be summed. If not, the hub knows which piece it is."""
        if not self._is_on or all_finite(vector[: self._layout.metrics_at]):
            return True
        what = f"piece {unit} of worker {self._worker}: {self._describe(vector, step, unit, weight)}"
        if self._is_secure:  # others must not learn which samples they are
            _LOG.warning("step %d, %s", step, what)
        else:
            self._client.tell_nonfinite(step, unit, what)
        return False

    def finds(self, total: torch.Tensor, step: int) -> bool:
        """True if the step has to be skipped. Raises Error if the training ends by it."""
        if not self._is_on:
            return False
        marked = self._tail.is_marked(total)
        if not marked and all_finite(total[: self._layout.metrics_at]):
            return False
        self._client.ask_nonfinite(step, marked=marked)
        return True

    def _describe(self, vector: torch.Tensor, step: int, unit: int, weight: float) -> str:
        name, numbers = self._first(vector)
        nans, infinities = int(numbers.isnan().sum()), int(numbers.isinf().sum())
        counts = [f"{count} {word}" for count, word in ((nans, "NaN"), (infinities, "infinite")) if count]
        samples = self._permutation.samples_of(step, unit)
        more = f" and {len(samples) - _SHOWN} more" if len(samples) > _SHOWN else ""
        zero = ", and its weight is 0 (a mean over nothing is NaN)" if weight == 0 else ""
        return (
            f"{name} has {' and '.join(counts)} of {numbers.numel()} numbers{zero}; "
            f"its samples are {', '.join(map(str, samples[:_SHOWN]))}{more}"
        )

    def _first(self, vector: torch.Tensor) -> tuple[str, torch.Tensor]:
        """Name and numbers of what is not finite."""
        layout = self._layout
        for (name, _), view in zip(layout.parameters, layout.views(vector), strict=True):
            if not all_finite(view):
                return f"the gradient of {name}", view
        begin = layout.buffers_at
        for name, buffer in layout.buffers:
            numbers = vector[begin : begin + buffer.numel()]
            begin += buffer.numel()
            if not all_finite(numbers):
                return f"the change of the buffer {name}", numbers
        return "the piece", vector[: layout.metrics_at]
