# SPDX-License-Identifier: Apache-2.0
"""Which samples a piece has: a function of the seed, the step and the piece alone, so that no loader has a state."""

import numpy as np
import numpy.typing as npt

from ..errors import ArgumentError


class Permutation:
    """Each epoch goes through all samples once, in an order of its own; the last batch of an epoch may be shorter."""

    def __init__(self, samples: int, batch: int, piece: int, *, seed: int, shuffle: bool, drop_last: bool) -> None:
        """Raises ArgumentError."""
        if samples < 1:
            raise ArgumentError("the data have no samples")
        if not 1 <= batch <= samples:
            raise ArgumentError(f"a batch of {batch} of {samples} samples")
        if not 1 <= piece <= batch:
            raise ArgumentError(f"pieces of {piece} samples, of a batch of {batch}")
        self.samples, self.batch, self.piece = samples, batch, piece
        self.seed, self.shuffle = seed, shuffle
        self.units = -(-batch // piece)
        self.steps_per_epoch = samples // batch if drop_last else -(-samples // batch)
        self._orders: dict[int, npt.NDArray[np.int64]] = {}

    def seed_of(self, _unit: int) -> int | str:
        """Of what is random in a piece."""
        return self.seed

    def epoch_of(self, step: int) -> int:
        """Steps and epochs count from 0."""
        return step // self.steps_per_epoch

    def indices(self, step: int, unit: int) -> npt.NDArray[np.int64]:
        """The samples of unit 0..units-1 of the step; none, where the epoch's last batch has no more."""
        epoch, place = divmod(step, self.steps_per_epoch)
        begin = place * self.batch
        end = min(begin + self.batch, self.samples)
        first = begin + unit * self.piece
        return self._order(epoch)[first : max(first, min(first + self.piece, end))]

    def samples_of(self, step: int, unit: int) -> list[int]:
        """The same as a list."""
        return [int(one) for one in self.indices(step, unit)]

    def _order(self, epoch: int) -> npt.NDArray[np.int64]:
        if not self.shuffle:
            epoch = 0
        if epoch not in self._orders:
            for old in [one for one in self._orders if one < epoch - 1]:
                del self._orders[old]
            self._orders[epoch] = (
                np.random.Generator(
                    np.random.Philox(key=np.array([self.seed % (1 << 64), epoch], dtype=np.uint64))
                ).permutation(self.samples)
                if self.shuffle
                else np.arange(self.samples)
            )
        return self._orders[epoch]
