# SPDX-License-Identifier: Apache-2.0
"""Pieces that no worker can compute, for example since a sample cannot be read."""

import collections
import dataclasses
import threading
from typing import Any, Self

from ..errors import Error

_KEPT = 256  # failures
_MOST_LETTERS, _MOST_TRACEBACK = 1000, 20_000


@dataclasses.dataclass(frozen=True)
class FailedPiece:
    """What a worker told of it."""

    worker: int
    piece: str  # in words, and the same for each worker
    step: str  # that has the piece, in words
    samples: str  # in words; "": they are not told
    error: str  # the line that names the exception
    traceback: str

    @classmethod
    def told(cls, worker: int, message: dict[str, Any]) -> Self:
        """Raises ValueError, KeyError."""
        words = {name: message[name] for name in ("piece", "step", "samples", "error", "traceback")}
        if not all(isinstance(one, str) for one in words.values()):
            raise ValueError("what a worker tells of a piece is text")
        traceback = words.pop("traceback")[-_MOST_TRACEBACK:]
        return cls(worker, traceback=traceback, **{name: one[:_MOST_LETTERS] for name, one in words.items()})


class BrokenPieceError(Error):
    """No worker can compute a piece.

    first  the first failure
    """

    def __init__(self, text: str, first: FailedPiece) -> None:
        super().__init__(text)
        self.first = first


def _broken_piece(first: FailedPiece, second: FailedPiece) -> BrokenPieceError:
    what = f"{first.samples} in {first.piece} of {first.step}" if first.samples else f"{first.piece} of {first.step}"
    where = f"at worker {first.worker} and at worker {second.worker}"
    if first.worker == second.worker:
        where = f"twice at worker {first.worker}, and there is no other worker"
    why = f": {first.error}" if first.error else ""
    if second.error != first.error:
        why += f"; at worker {second.worker}: {second.error}"
    return BrokenPieceError(f"{what} failed {where}{why}", first)


def _broken_step(first: FailedPiece) -> BrokenPieceError:
    what = f"{first.piece}, {first.samples}" if first.samples else first.piece
    where = f"first worker {first.worker} ({what})"
    return BrokenPieceError(f"each worker failed twice in {first.step} in the same way, {where}: {first.error}", first)


class FailedPieces:
    """Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: list[FailedPiece] = []

    def add(self, failed: FailedPiece, workers: int) -> BrokenPieceError | None:
        """An error if no worker can compute the piece, or any piece of its step. So many workers are there, or may come
        back."""
        with self._lock:
            of_step = [one for one in self._known if one.step == failed.step]
            self._known = [*self._known, failed][-_KEPT:]
        before = [one for one in of_step if one.piece == failed.piece]
        if before and (workers <= 1 or any(one.worker != failed.worker for one in before)):
            return _broken_piece(before[0], failed)
        same = [one for one in [*of_step, failed] if one.error == failed.error != ""]
        twice = {one for one, count in collections.Counter(one.worker for one in same).items() if count > 1}
        return _broken_step(same[0]) if len(twice) >= max(1, workers) else None
