# SPDX-License-Identifier: Apache-2.0
"""Which samples a piece has with differential privacy: each of its own is drawn by itself, by a secret key."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ..dp import Terms, draw
from ..errors import ArgumentError


class Drawn:
    """In place of a Permutation: a piece is a range of the data, of which a step draws some, or none.

    Whether a sample is drawn depends on the piece's key, the step and the sample alone, so that all copies of a piece
    have the same ones.
    """

    def __init__(self, samples: int, piece: int, terms: Terms, *, seed: int) -> None:
        """piece: how many are computed at once, on average. Raises ArgumentError."""
        if samples < 1:
            raise ArgumentError("the data have no samples")
        self.samples, self.piece, self.seed, self.terms = samples, piece, seed, terms
        self.expected = terms.sample * samples  # of a step; what sums are divided by
        self.batch = max(1, round(self.expected))
        if not 1 <= piece <= self.batch:
            raise ArgumentError(f"pieces of {piece} samples, of a batch of {self.batch} on average")
        self.units = -(-self.batch // piece)
        self._keys: Mapping[int, bytes] = {}
        self._last: tuple[int, int, npt.NDArray[np.int64]] | None = None

    def hear(self, keys: Mapping[int, bytes]) -> None:
        """Those of the pieces that this worker may be given."""
        self._keys = keys

    def seed_of(self, unit: int) -> int | str:
        """Of what is random in a piece: secret, since a sample more or less moves the numbers of those behind it."""
        return self.seed if unit < 0 else self._keys[unit].hex()

    def epoch_of(self, step: int) -> int:
        """How often all samples were drawn, on average."""
        return int(step * self.terms.sample)

    def indices(self, step: int, unit: int) -> npt.NDArray[np.int64]:
        if self._last is None or self._last[:2] != (step, unit):
            begin, end = (place * self.samples // self.units for place in (unit, unit + 1))
            self._last = step, unit, draw(self._keys[unit], self.terms.sample, step, range(begin, end))
        return self._last[2]

    def samples_of(self, step: int, unit: int) -> list[int]:
        """The same as a list."""
        return [int(one) for one in self.indices(step, unit)]
