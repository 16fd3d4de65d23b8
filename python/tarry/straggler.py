# SPDX-License-Identifier: Apache-2.0
"""Stragglers that are injected: how much longer workers take, drawn from a seed."""

from typing import Any

from ._native import ffi, lib
from .errors import ArgumentError, Diagnostic
from .names import nanoseconds, seconds


class Straggler:
    """Delays by a SPEC such as 'slow:2,5+exp:0.01' for so many workers; tarry/straggler.h lists the terms.

    Raises FormatError, ArgumentError, FileError. Immutable.
    """

    def __init__(self, spec: str, workers: int, *, seed: int = 1) -> None:
        made, why = ffi.new("tarry_straggler **"), Diagnostic()
        why.check(lib.tarry_straggler_create(spec.encode(), workers, seed, ffi.NULL, made, why.pointer))
        self._straggler: Any = ffi.gc(made[0], lib.tarry_straggler_free)
        self.spec = spec
        self.workers = workers

    @property
    def pointer(self) -> Any:
        """The library's straggler."""
        return self._straggler

    def is_dead(self, worker: int) -> bool:
        """Whether the worker never answers."""
        self._check(worker)
        return lib.tarry_straggler_dead(self._straggler, worker)

    def seconds(self, round: int, worker: int, position: int, unit: int, base: float, *, pieces: int = 1) -> float:
        """What the worker takes for a unit that takes `base` seconds by itself; infinity: it never ends."""
        self._check(worker)
        base_ns = nanoseconds(base, "base")
        found = lib.tarry_straggler_time_ns(self._straggler, round, worker, position, unit, pieces, base_ns)
        return seconds(found)

    def _check(self, worker: int) -> None:
        if not 0 <= worker < self.workers:
            raise ArgumentError(f"worker {worker} of {self.workers}")

    def __repr__(self) -> str:
        return f"<tarry.Straggler {self.spec!r} of {self.workers} workers>"
