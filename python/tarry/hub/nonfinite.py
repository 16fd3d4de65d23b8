# SPDX-License-Identifier: Apache-2.0
"""Pieces whose gradients have NaN or infinity, as the workers that computed them told."""

import threading
from collections.abc import Callable
from typing import Any

from .agreement import Agreement

_MOST_TEXT = 2000
_MOST_PIECES = 64  # that are kept of a step
_SHOWN = 3
_SAID_FIRST = 5  # skipped steps; of later ones each that is a power of two is said
_ADVICE = (
    "The optimizer did not step. join(nonfinite='skip') leaves out such steps on all workers, and 'allow' steps on them"
)


class NonFinite:
    """Those of the last few steps. Any thread."""

    def __init__(self, agreement: Agreement, say: Callable[[str], None]) -> None:
        self._agreement, self._say = agreement, say
        self._lock = threading.Lock()
        self._kept: dict[int, dict[int, str]] = {}  # by step and piece
        self._skipped: set[int] = set()
        self._count = 0

    @property
    def ends(self) -> bool:
        """True if the training ends by such a piece."""
        return self._agreement.nonfinite == "raise"

    def keep(self, step: int, unit: int, what: str) -> None:
        """The first one of a piece stays."""
        with self._lock:
            pieces = self._kept.setdefault(step, {})
            if len(pieces) < _MOST_PIECES:
                pieces.setdefault(unit, what)

    def report(self, step: int, *, marked: bool) -> str:
        """A sentence on the step. marked: a piece was not finite, and not only the sum."""
        with self._lock:
            pieces = [what for _, what in sorted(self._kept.get(step, {}).items())]
        if not marked:
            return f"step {step}: each piece's gradient is finite, but their sum is not: it exceeds float32's 3.4e38"
        if pieces:
            more = f", and {len(pieces) - _SHOWN} more pieces" if len(pieces) > _SHOWN else ""
            return f"step {step}, {'; '.join(pieces[:_SHOWN])}{more}"
        if self._agreement.parts > 1:
            return (
                f"step {step}: the sum looks as if a piece were not finite, but no worker has such a piece. With "
                f"{self._agreement.parts} parts that has two causes. Copies of a piece differ between workers, because "
                "something in it is random and not seeded by tarry.torch or machines compute differently. Or gradients "
                "are so large that small numbers of the sum are lost to rounding: scale the loss down, or use parts=1"
            )
        who = " With secure only the worker that computed it knows which one; its log says so"
        return f"step {step}: the gradient of a piece is not finite.{who if self._agreement.secure else ''}"

    def why(self, step: int, *, marked: bool) -> str:
        """What ends the training."""
        return f"{self.report(step, marked=marked)}. {_ADVICE}"

    def skip(self, step: int, *, marked: bool) -> None:
        """A worker skips the step, as all do; it is said once."""
        with self._lock:
            if step in self._skipped:
                return
            self._skipped.add(step)
            self._count += 1
            count = self._count
        if count <= _SAID_FIRST or count & (count - 1) == 0:
            self._say(f"{self.report(step, marked=marked)}. The step is skipped ({count} so far)")

    def forget(self, oldest: int) -> None:
        """Steps before `oldest`."""
        with self._lock:
            self._kept = {step: pieces for step, pieces in self._kept.items() if step >= oldest}
            self._skipped = {step for step in self._skipped if step >= oldest}


def text_of(told: Any) -> str:
    """What a worker told, on one line. Raises ValueError."""
    if not isinstance(told, str):
        raise ValueError("no text")
    return "".join(one for one in told[:_MOST_TEXT] if one.isprintable())
