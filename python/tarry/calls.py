# SPDX-License-Identifier: Apache-2.0
"""Calls that wait in C, which Ctrl-C ends all the same."""

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")


class Caller:
    """Makes calls in a thread of its own where the main thread makes them, which so hears of signals meanwhile."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt
        self._orders: queue.SimpleQueue[Callable[[], None]] | None = None

    def call(self, function: Callable[[], _Result]) -> _Result:
        """The function's result. A KeyboardInterrupt interrupts it, and is raised when it has returned."""
        if threading.current_thread() is not threading.main_thread():
            return function()
        if self._orders is None:
            self._orders = queue.SimpleQueue()
            threading.Thread(target=_carry_out, args=(self._orders,), name="tarry-calls", daemon=True).start()
        results: list[_Result] = []
        errors: list[BaseException] = []
        over = threading.Event()

        def run() -> None:
            try:
                results.append(function())
            except BaseException as error:
                errors.append(error)
            over.set()

        self._orders.put(run)
        try:
            over.wait()
        except BaseException:
            self._interrupt()
            over.wait()
            raise
        if errors:
            raise errors[0]
        return results[0]

    def close(self) -> None:
        """Ends the thread."""
        if self._orders is not None:
            self._orders.put(_stop)
            self._orders = None


class _Stop(Exception):
    pass


def _stop() -> None:
    raise _Stop


def _carry_out(orders: "queue.SimpleQueue[Callable[[], None]]") -> None:
    while True:
        try:
            orders.get()()
        except _Stop:
            return
