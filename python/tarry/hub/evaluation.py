# SPDX-License-Identifier: Apache-2.0
"""Sums over pieces of data that workers share out among themselves where nothing is trained."""

import collections
import math
import threading
from collections.abc import Mapping

# Steps that are done; 1: within one more; the question, and how often it was asked there before.
Key = tuple[int, int, str, int]

_MOST_PIECES = 1 << 24
_KEPT = 256  # evaluations, the last ones asked for; each worker may have its own in progress


class Evaluation:
    """The pieces of one. Each goes to whoever asks next, and those that nobody has told of go round again: what a slow
    or dead worker has is done by others, too. Who tells of a piece first makes no difference: all have the same model.
    """

    def __init__(self, samples: int, pieces: int) -> None:
        """Raises ValueError."""
        if not 1 <= pieces <= _MOST_PIECES:
            raise ValueError(f"data in {pieces} pieces")
        self.samples, self.pieces = samples, pieces
        self._left = collections.deque(range(pieces))
        self._told: dict[int, dict[str, float]] = {}
        self._sums: dict[str, float] | None = None  # in place of all that was told

    def take(self) -> int | None:
        """A piece to be done; None: there are sums of all."""
        while self._left:
            piece = self._left.popleft()
            if piece not in self._told:
                self._left.append(piece)
                return piece
        if self._sums is None:
            self._sums = self._add_up()
            self._told.clear()
        return None

    def tell(self, piece: int, sums: Mapping[str, float]) -> None:
        """Raises ValueError for a piece that there is not."""
        if not 0 <= piece < self.pieces:
            raise ValueError(f"there is no piece {piece} of {self.pieces}")
        if self._sums is None:
            self._told.setdefault(piece, {str(name): float(value) for name, value in sums.items()})

    def sums(self) -> dict[str, float]:
        """Over all pieces; none, as long as `take` gives some."""
        return {} if self._sums is None else dict(self._sums)

    def _add_up(self) -> dict[str, float]:
        """Rounded once: the same bits in whatever order they came."""
        names = {name for sums in self._told.values() for name in sums}
        told = [self._told[piece] for piece in sorted(self._told)]
        return {name: _sum([sums.get(name, 0.0) for sums in told]) for name in sorted(names)}


def _sum(values: list[float]) -> float:
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):  # beyond all numbers, or infinities of both signs
        return sum(values)


class Evaluations:
    """Those of a training, of which the last ones are kept. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Key, Evaluation] = {}

    def take(self, key: Key, samples: int, pieces: int) -> tuple[int | None, dict[str, float]]:
        """A piece to be done; None: the sums are there. Raises ValueError, as where others have other
        data."""
        with self._lock:
            # The one that was asked for last is at the end.
            self._known[key] = self._known.pop(key, None) or Evaluation(samples, pieces)
            while len(self._known) > _KEPT:
                del self._known[next(iter(self._known))]
            known = self._known[key]
            if (known.samples, known.pieces) != (samples, pieces):
                raise ValueError(
                    f"this worker evaluates {samples} samples in {pieces} pieces where the others have {known.samples} "
                    f"in {known.pieces}"
                )
            piece = known.take()
            return piece, known.sums() if piece is None else {}

    def tell(self, key: Key, piece: int, sums: Mapping[str, float]) -> None:
        with self._lock:
            known = self._known.get(key)  # None: so late that nobody waits for it
            if known is not None:
                known.tell(piece, sums)

    def find(self, key: Key) -> dict[str, float]:
        """The sums, for who can't take part; none, where they are not there."""
        with self._lock:
            known = self._known.get(key)
            return known.sums() if known is not None and known.take() is None else {}
