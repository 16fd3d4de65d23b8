# SPDX-License-Identifier: Apache-2.0
"""What servers and workers tell, for logs."""

from collections.abc import Callable
from typing import Any, NamedTuple

from ._native import ffi, lib

_TYPES = (
    "listening", "joined", "left-out", "left", "refused", "signal", "round", "connected", "lost", "waiting", "others",
    "revocation", "sum-failed", "fetch", "load",
)  # fmt: skip
_ABSENCES = ("gone", "silent", "late", "failed", "differs")
_ARRIVALS = ("first", "again", "restarted")


class Notice(NamedTuple):
    """Something that happened; docs/reports.md explains the kinds."""

    kind: str
    seconds: float  # of the monotonic clock
    round: int
    worker: int | None
    peer: str
    text: str
    absence: str  # of 'left-out': why
    arrival: str  # of 'joined': how


class Observer:
    """Hands notices on. Called by threads of the library; cffi writes exceptions to stderr, as nobody hears them."""

    def __init__(self, observe: Callable[[Notice], None]) -> None:
        self.observe = observe
        self.handle: Any = ffi.new_handle(self)


def _named(names: tuple[str, ...], value: int) -> str:
    return names[value] if value < len(names) else str(value)


@ffi.def_extern()
def tarry_py_observe(user: Any, notice: Any) -> None:
    kind = _named(_TYPES, notice.type)
    told = Notice(
        kind,
        notice.now_ns / 1e9,
        notice.round,
        None if notice.worker == lib.TARRY_TCP_NO_WORKER else notice.worker,
        ffi.string(notice.peer).decode(errors="replace"),
        ffi.string(notice.text).decode(errors="replace"),
        _named(_ABSENCES, notice.absence) if kind == "left-out" else "",
        _named(_ARRIVALS, notice.arrival) if kind == "joined" else "",
    )
    ffi.from_handle(user).observe(told)
