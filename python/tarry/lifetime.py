# SPDX-License-Identifier: Apache-2.0
"""Objects of the library end in an order that is safe: before the interpreter, and after arrays over their memory."""

import atexit
import threading
import weakref
from collections.abc import Callable
from typing import Any

from .errors import StateError
from .vectors import Floats, Lent

_open: "weakref.WeakSet[Handle]" = weakref.WeakSet()
_opened = 0


class Handle:
    """One of the library's objects with threads. `stop` makes it do no more; `free` takes its memory.

    While an array over its memory is alive, `close` only stops it, and the array's end frees it.
    """

    def __init__(self, pointer: Any, stop: Callable[[Any], None], free: Callable[[Any], None]) -> None:
        global _opened
        self._pointer = pointer
        self._stop = stop
        self._free = free
        self._lock = threading.Lock()
        self._lent = 0
        self._closed = False
        _opened += 1
        self._number = _opened
        _open.add(self)

    @property
    def pointer(self) -> Any:
        """The library's object. Raises StateError when it is closed."""
        if self._closed:
            raise StateError("it is closed")
        return self._pointer

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def number(self) -> int:
        """Of its creation among all."""
        return self._number

    def lend(self, pointer: Any, count: int, *, writable: bool) -> Floats:
        """An array over `count` numbers of the object's memory."""
        lent = Lent(self, pointer, count, writable=writable)
        with self._lock:
            self._lent += 1
        weakref.finalize(lent, self._take_back)
        return lent.array

    def close(self) -> None:
        """Ends the object; again: nothing happens."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            free_now = self._lent == 0
        self._stop(self._pointer)
        if free_now:
            self._end()

    def _take_back(self) -> None:
        with self._lock:
            self._lent -= 1
            last = self._closed and self._lent == 0
        if last:
            self._end()

    def _end(self) -> None:
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            self._free(pointer)


def close_all() -> None:
    """Ends what is still open, the newest first."""
    for handle in sorted(_open, key=lambda one: -one.number):
        handle.close()


atexit.register(close_all)
