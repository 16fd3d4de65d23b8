# SPDX-License-Identifier: Apache-2.0
"""Whose changes of unnamed buffers a step keeps: those of one of its pieces, the same at all workers.

Which piece that is depends on the step alone. Whoever has computed it tells the hub its buffers before it gives the
gradient, so that the hub has them whenever the piece is in a sum. A number in the sum says that there are any, and then
each worker asks the hub. A step without changes asks nothing.
"""

import logging
from typing import TYPE_CHECKING

from ..hub.drift import is_due
from . import state

if TYPE_CHECKING:
    from ..hub import Agreement, Client
    from .order import Order
    from .unnamed_buffers import UnnamedBuffers

_LOG = logging.getLogger("tarry.torch")
_WHOLE_FIRST = 2  # each worker compares all numbers in its first steps, whatever PyTorch has counted


class BufferSource:
    """For the training's thread."""

    def __init__(
        self,
        buffers: "UnnamedBuffers",
        permutation: "Order",
        client: "Client",
        agreement: "Agreement",
    ) -> None:
        self._buffers, self._permutation, self._client = buffers, permutation, client
        # The setting that forbids to tell anything but sums of gradients.
        self._private = "secure" if agreement.secure else "dp" if agreement.dp else ""
        self._step, self._steps = -1, 0  # the step in progress, and how many this worker has begun
        self._whole = False
        self._said = False
        self.missed = False  # the last step's changes: until a state comes, this worker's buffers are not the others'

    def unit_of(self, step: int) -> int:
        """The piece whose changes the step keeps. Unit 0 always has samples."""
        unit = step % self._permutation.units
        return unit if len(self._permutation.indices(step, unit)) > 0 else 0

    def begin_piece(self, step: int) -> None:
        if step == self._step:
            return
        self._step, self._steps = step, self._steps + 1
        self._whole = self._steps <= _WHOLE_FIRST or is_due(step + 1)
        if self._whole:
            self._buffers.settle(whole=True)

    def tell(self, step: int, unit: int) -> float:
        """1 if the step keeps this piece's changes, and there are any: the hub has them now."""
        if self._private or unit != self.unit_of(step):
            return 0.0
        changed = self._buffers.changed(whole=self._whole)
        if not changed:
            return 0.0
        self._client.tell_buffers(step, sorted(changed), lambda: state.encode({"buffers": changed}, {}))
        return 1.0

    def end_piece(self) -> None:
        """The buffers are again what they were before the piece."""
        changed = self._buffers.restore(whole=self._whole)
        self._whole = False  # of a step's first piece is enough
        if changed and self._private and not self._said:
            self._said = True
            _LOG.warning(
                "forward changes %s. With %s nothing but sums of gradients may be told, so each piece begins with the "
                "values that all workers began with, and the model keeps them",
                named(changed),
                self._private,
            )

    def end_step(self, step: int, *, changed: bool) -> None:
        """The step's sum is there, and says whether there are changes. The hub has forgotten them if this worker is
        late (`missed`): then it gets the others' state instead of its next step."""
        found = self._client.buffers_of(step) if changed else None
        self.missed = changed and found is None
        self._buffers.take({} if found is None else state.decode(found)[0]["buffers"])


def named(names: list[str]) -> str:
    """A few of them, in words."""
    some = ", ".join(names[:3])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"the buffer{'s' if len(names) > 1 else ''} {some}{more}"
