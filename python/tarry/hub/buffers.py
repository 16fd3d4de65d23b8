# SPDX-License-Identifier: Apache-2.0
"""Buffers that a piece of a step has changed, for all workers: as bytes that workers made."""

import threading
from collections.abc import Callable
from typing import Any, cast

MOST_NAMES = 100_000
_SHOWN = 3


class Buffers:
    """Those of the last few steps. Any thread."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._kept: dict[int, bytes] = {}  # by step
        self._known: set[str] = set()  # names that were said

    def lacks(self, step: int, oldest: int, done: int) -> bool:
        """True if a worker's buffers of this step are wanted: it is in progress, or has only just been summed.

        oldest  the first step whose buffers a worker may still ask for
        done    steps that are summed
        """
        with self._lock:
            return oldest <= step <= done and step not in self._kept

    def keep(self, step: int, names: list[str], values: bytes) -> None:
        """The first ones of a step stay."""
        with self._lock:
            self._kept.setdefault(step, values)
            new = [name for name in names if name not in self._known]
            self._known.update(new)
        if new:
            self._say(
                f"forward changes {_shown(new)}, not named by join(buffers=...): each step takes the values of one "
                "piece, for all workers. Named buffers get the average change of all pieces instead"
            )

    def find(self, step: int) -> bytes | None:
        with self._lock:
            return self._kept.get(step)

    def forget(self, oldest: int, done: int) -> None:
        """Between two rounds: steps before `oldest`, and from `done` on, which are computed again after others went
        back."""
        with self._lock:
            self._kept = {step: values for step, values in self._kept.items() if oldest <= step < done}


def names_of(told: Any) -> list[str]:
    """What a worker told. Raises ValueError."""
    names = cast("list[Any]", told) if isinstance(told, list) else None
    if names is None or len(names) > MOST_NAMES or not all(isinstance(name, str) for name in names):
        raise ValueError("no names of buffers")
    return names


def step_of(told: Any) -> int:
    """Raises ValueError."""
    if not isinstance(told, int) or isinstance(told, bool) or told < 0:
        raise ValueError(f"{told!r} is not a step")
    return told


def _shown(names: list[str]) -> str:
    some = ", ".join("".join(one for one in name if one.isprintable())[:100] for name in names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"the buffer{'s' if len(names) > 1 else ''} {some}{more}"
