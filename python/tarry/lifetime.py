# SPDX-License-Identifier: Apache-2.0
"""Objects of the library end in an order that is safe: before the interpreter, and after what uses their memory."""

import atexit
import itertools
import os
import queue
import threading
import time
import warnings
from typing import Any

from . import threads
from ._native import lib
from .calls import Caller
from .errors import StateError
from .vectors import Floats, Lent

# How long the interpreter waits at its end: for functions of the user's that still compute, and for calls in progress.
_EXIT_SECONDS = 2.0


class Handle:
    """One of the library's objects with threads; what it is of says `what`.

    Calls (`use`) and arrays over its memory (`lend`) count as uses. `close` makes the object do no more, and the last
    use that is over frees it. All of this may happen in any thread, and in the middle of a garbage collection: nothing
    here takes a lock, and what several threads touch changes by single operations of lists and sets, which are atomic.
    """

    def __init__(self, what: str, pointer: Any, kept: object) -> None:
        self.what = what
        self.caller = Caller()
        self.kept = kept  # what the library's object points to
        self._memory = [pointer]
        self._calls: list[None] = []
        self._ends: list[None] = []  # of calls: the last one may free the object, which joins its threads
        self._arrays: set[object] = set()
        self._closed = False
        self._stopped = False
        self.number = next(_numbers)
        _open[self.number] = self
        _made[:] = [None]

    def stop(self, pointer: Any, limit: float | None) -> bool:
        """Makes the object do no more, and calls in progress return. False: not within so many seconds."""
        raise NotImplementedError

    def free(self, pointer: Any) -> None:
        """Takes the object's memory."""
        raise NotImplementedError

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def called(self) -> bool:
        """Whether a call is in progress."""
        return bool(self._calls or self._ends)

    def use(self, *, closed: bool = False) -> "_Use":
        """For the time of a call: gives the library's object, which is not freed meanwhile.

        Raises StateError where it is closed; with `closed` only where it is freed.
        """
        return _Use(self, closed)

    def enter(self, closed: bool = False) -> Any:
        """The beginning of a call; `leave` is its end. As `use`."""
        self._calls.append(None)
        if not self._memory or (self._closed and not closed):
            self.leave()
            raise StateError(f"{self.what} is closed")
        return self._memory[0]

    def leave(self) -> None:
        """The end of a call."""
        self._ends.append(None)
        self._calls.pop()
        try:
            if self._stopped:
                self._free_if_unused()
        finally:
            self._ends.pop()

    def lend(self, pointer: Any, count: int, *, writable: bool) -> Floats:
        """An array over `count` numbers of the object's memory, which is not freed before the array."""
        name = object()  # of its own: what an interrupt keeps from being counted is not taken back either
        lent = Lent(pointer, count, lambda: self._take_back(name), writable=writable)
        self._arrays.add(name)
        return lent.array

    def close(self, limit: float | None = None) -> None:
        """Ends the object; again: nothing happens. What is in use then is freed by the last who uses it."""
        if self._stopped or not self._memory:
            return
        self._calls.append(None)
        try:
            self._closed = True
            if self._memory:
                self._stopped = self.stop(self._memory[0], limit)
                self.caller.close()
        finally:
            self.leave()

    def forget(self) -> None:
        """In a child of fork, which has none of the object's threads: nothing of it can be used or freed."""
        self._closed = self._stopped = True
        self._memory.clear()

    def _take_back(self, name: object) -> None:
        self._arrays.discard(name)
        self._free_if_unused()

    def _free_if_unused(self) -> None:
        if not self._stopped or self._calls or self._arrays:
            return
        try:
            pointer = self._memory.pop()
        except IndexError:  # another thread was first
            return
        self.free(pointer)
        self.kept = None
        _open.pop(self.number, None)


class _Use:
    __slots__ = ("_closed", "_handle")

    def __init__(self, handle: Handle, closed: bool) -> None:
        self._handle = handle
        self._closed = closed

    def __enter__(self) -> Any:
        return self._handle.enter(self._closed)

    def __exit__(self, *_: object) -> None:
        self._handle.leave()


_open: dict[int, Handle] = {}
_made: list[None] = []  # not empty: one was made in this process
_numbers = itertools.count(1)
_abandoned: "queue.SimpleQueue[Handle]" = queue.SimpleQueue()
_closer: list[threading.Thread] = []


def abandon(handle: Handle) -> None:
    """The owner of a handle is gone without `close`: a thread closes it, as this may be any, doing anything."""
    if handle.closed:
        return
    _abandoned.put(handle)
    warnings.warn(f"{handle.what} was not closed", ResourceWarning, stacklevel=2)


def watch_for_abandoned() -> None:
    """Starts the thread that closes them."""
    if not _closer:
        _closer.append(threads.start(_close_abandoned, "tarry-closer"))


def _close_abandoned() -> None:
    while True:
        _abandoned.get().close()


def close_all() -> None:
    """Ends what is still open, the newest first, before the interpreter ends."""
    handles = sorted(_open.values(), key=lambda one: -one.number)
    for handle in handles:
        handle.close(_EXIT_SECONDS)
    # Calls in progress in other threads, which end now and free what they use.
    until = time.monotonic() + _EXIT_SECONDS
    while any(handle.called for handle in handles) and time.monotonic() < until:
        time.sleep(0.001)
    threads.await_beginnings(_EXIT_SECONDS)
    # Threads of what is open all the same find no Python any more.
    lib.tarry_py_end_calls(round(_EXIT_SECONDS * 1e9))


def _forget_all() -> None:
    if not _made:
        return
    for handle in list(_open.values()):
        handle.forget()
    _open.clear()
    _closer.clear()
    _made.clear()
    threads.forget()
    lib.tarry_py_forget_calls()
    atexit.register(lib.tarry_py_renew_pool)


atexit.register(close_all)
os.register_at_fork(after_in_child=_forget_all)
