# SPDX-License-Identifier: Apache-2.0
"""Calls that wait in C, which Ctrl-C ends all the same."""

import functools
import queue
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from . import threads

# A signal that comes just before the main thread begins to wait does not end that: it is heard after so long.
_HEARD_SECONDS = 0.1
_Result = TypeVar("_Result")


class _Call(Generic[_Result]):
    """A function that another thread calls, unless it is withdrawn before."""

    def __init__(self, function: Callable[[], _Result]) -> None:
        self._function = function
        self._unclaimed: list[None] = [None]  # whoever pops it decides what becomes of the call
        self._results: list[_Result] = []
        self._error: BaseException | None = None
        self.over = threading.Event()

    def _claim(self) -> bool:
        try:
            self._unclaimed.pop()
        except IndexError:
            return False
        return True

    def carry_out(self) -> None:
        if not self._claim():
            return
        try:
            self._results.append(self._function())
        except BaseException as error:
            self._error = error
        self.over.set()

    def end(self, interrupt: Callable[[], None]) -> None:
        """Returns when the function has, or never will: it writes to memory that the caller owns."""
        if self._claim():
            return
        while not self.over.is_set():
            try:
                interrupt()
                self.over.wait()
            except KeyboardInterrupt:  # one that was heard already
                continue

    def result(self) -> _Result:
        if self._error is not None:
            raise self._error
        return self._results[0]


class Caller:
    """Makes calls in a thread of its own where the main thread makes them, which so hears of signals meanwhile."""

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[_Call[Any] | None] | None = None

    def call(self, function: Callable[[], _Result], interrupt: Callable[[], None]) -> _Result:
        """The function's result. What a signal's handler raises interrupts it, and is raised when it has returned."""
        if threading.current_thread() is not threading.main_thread():
            return function()
        if self._orders is None:
            orders: queue.SimpleQueue[_Call[Any] | None] = queue.SimpleQueue()
            threads.start(functools.partial(_carry_out, orders), "tarry-calls")
            self._orders = orders
        call = _Call(function)
        try:
            self._orders.put(call)
            while not call.over.wait(_HEARD_SECONDS):
                pass
        except BaseException:
            call.end(interrupt)
            raise
        return call.result()

    def close(self) -> None:
        """Ends the thread."""
        orders, self._orders = self._orders, None
        if orders is not None:
            orders.put(None)


def _carry_out(orders: "queue.SimpleQueue[_Call[Any] | None]") -> None:
    while (call := orders.get()) is not None:
        call.carry_out()
        del call  # with all that it refers to
