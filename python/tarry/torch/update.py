# SPDX-License-Identifier: Apache-2.0
"""From the gradients of a piece to its vector, and from the sum of a step to `.grad`, buffers and metrics."""

import hashlib
import math
from collections.abc import Mapping
from typing import NamedTuple

import torch

from ..errors import Error
from ..hub import Client
from . import secure as secure_sums
from .buffer_source import BufferSource
from .drawn import Drawn
from .drift import Drift
from .finite import FiniteCheck
from .gradients import Gradients, flat_tensor
from .layout import Layout
from .members import Members
from .order import Order
from .prefetch import Prefetcher
from .seeding import seed_all
from .standing import metrics_of
from .sums import Lost, Summed
from .tail import Tail

_FIRST, _EACH = 3, 16  # steps: copies of their pieces are compared


class Copies:
    """This worker's pieces of a step: copies have to have the same bits where coded parts are made of them. For the
    training's thread."""

    def __init__(self, client: Client, worker: int, parts: int) -> None:
        self._client, self._worker, self._parts = client, worker, parts
        self._digests: dict[int, str] = {}

    def add(self, step: int, unit: int, vector: torch.Tensor) -> None:
        if self._parts > 1 and (step < _FIRST or step % _EACH == 0):
            self._digests[unit] = hashlib.blake2b(vector.numpy().tobytes(), digest_size=8).hexdigest()

    def compare(self, step: int) -> None:
        """Before anybody goes by the step's sum. Raises Error where copies of a piece differ."""
        if self._digests:
            self._client.compare(self._worker, step, self._digests)
            self._digests = {}


class Parts(NamedTuple):
    """What an update works on."""

    layout: Layout
    members: Members
    gradients: Gradients
    tail: Tail
    finite: FiniteCheck
    permutation: Order
    prefetcher: Prefetcher
    source: BufferSource
    copies: Copies
    drift: Drift


class Update:
    """Fills the vectors of pieces, and hands out the sums of steps. For the training's thread.

    applied  metrics of the step whose sum came last
    skipped  whether the model does not change by that step: its weight is 0, or a gradient is not finite
    """

    def __init__(self, parts: Parts, *, copied: bool, is_secure: bool) -> None:
        """copied: coded parts are made of copies of pieces."""
        self._parts, self._copied, self._is_secure = parts, copied, is_secure
        layout, permutation = parts.layout, parts.permutation
        # What sums are divided by if no weight rides along.
        self._weight = permutation.expected if isinstance(permutation, Drawn) else float(permutation.batch)
        self._mean = torch.zeros(layout.gradient_numbers)
        self.applied: dict[str, float] = {}
        self.skipped = False

    def complete_piece(
        self, vector: torch.Tensor, step: int, unit: int, weight: float, metrics: Mapping[str, float]
    ) -> None:
        """The gradients and what rides with them are in the vector."""
        parts, layout, where = self._parts, self._parts.layout, f"step {step}, piece {unit}"
        if self._is_secure:
            secure_sums.check_weight(weight, len(parts.permutation.indices(step, unit)))
        with torch.no_grad():
            used = parts.gradients.collect(vector, where)
            if layout.buffers:
                changes = torch.cat(parts.members.change_of_buffers())
                vector[layout.buffers_at : layout.metrics_at] = changes * weight
        parts.tail.write(vector, metrics, weight, used, where)
        if not parts.finite.passes(vector, step, unit, weight):
            parts.tail.mark(vector)
        elif layout.weighed:
            vector[layout.changed_at] = parts.source.tell(step, unit)
        parts.copies.add(step, unit, vector)

    def apply(self, summed: Summed, step: int) -> dict[str, float]:
        """Puts the step's mean into the `.grad` of the parameters that it used, and its buffers into the model, which
        stays as it is if the step is `skipped`. Returns the metrics. Raises Error."""
        parts, layout = self._parts, self._parts.layout
        total = flat_tensor(summed.numbers)
        weight = float(total[layout.weight_at]) if layout.weighed else self._weight
        if weight < 0:
            copies = ". With several parts that may be since copies of a piece differ" if self._copied else ""
            raise Error(f"step {step}: the weights of all pieces sum up to {weight}{copies}")
        parts.drift.begin_update(step, total[layout.gradient_numbers :])
        self.skipped = parts.finite.finds(total, step) or weight == 0
        if self.skipped:
            self._keep()
        else:
            self._hand_out(total, weight)
        changed = not self.skipped and layout.weighed and bool(total[layout.changed_at] > 0.5)
        parts.source.end_step(step, changed=changed)
        seed_all(parts.permutation.seed, step, -1)
        parts.prefetcher.begin(step + 1)
        sums = {name: float(total[layout.metrics_at + place]) for place, name in enumerate(layout.metrics)}
        found = {name: one / weight if weight else math.nan for name, one in sums.items()}
        self.applied = found | ({"weight": weight} if layout.weighed else {})
        return dict(self.applied)

    def _hand_out(self, total: torch.Tensor, weight: float) -> None:
        parts, layout = self._parts, self._parts.layout
        torch.mul(total[: layout.gradient_numbers], 1 / weight, out=self._mean)
        parts.gradients.attach(self._mean, parts.tail.used(total))
        if layout.buffers:
            with torch.no_grad():
                parts.members.change_buffers(total[layout.buffers_at : layout.metrics_at] / weight)

    def _keep(self) -> None:
        """Gradients are zeros, and buffers are what they were before the step."""
        self._mean.zero_()
        self._parts.gradients.attach(self._mean)
        with torch.no_grad():
            self._parts.members.restore_buffers()

    def apply_nothing(self, lost: Lost) -> dict[str, float]:
        """The step is lost to this worker: whatever the loop's body makes of it is replaced by the state that came. Its
        metrics are those of the state's last step."""
        self.skipped = False
        self._mean.zero_()
        self._parts.gradients.attach(self._mean)
        told = metrics_of(lost.state)
        return {name: told.get(name, math.nan) for name in (*self._parts.layout.metrics, "weight")}
