# SPDX-License-Identifier: Apache-2.0
"""Signals to a process that trains alone: its last state is stored before it ends.

A state can be saved between two pieces, and after a step, so the signal takes effect there: not in the middle of a
compilation, an evaluation, or the optimizer's step.
"""

import os
import signal
import threading
import time
from typing import Any

from ..hub import Hub
from ..interrupts import signals_to_take, told
from .sums import Sums

_GRACE_SECONDS = 60.0  # that the last state may take
_LOOK_SECONDS = 0.02


class Interruption:
    """Handlers are in force from the first step to `close`. Without them nothing changes: for a training without a
    checkpoint, of several processes, or in another thread than the main one."""

    def __init__(self, hub: Hub | None, checkpoint: str) -> None:
        self._hub = hub
        self._sums: Sums | None = None
        self._before: dict[int, Any] = {}  # actions that the handler has replaced
        self._number: int | None = None  # of the signal that came
        self._is_used = bool(hub is not None and checkpoint and threading.current_thread() is threading.main_thread())

    def begin(self, sums: Sums) -> None:
        """Steps begin."""
        if self._is_used and not self._before:
            self._sums = sums
            for number in signals_to_take():
                self._before[number] = signal.signal(number, self._hear)

    def _hear(self, number: int, _frame: Any) -> None:
        if self._number is None:
            self._number = number
            name = signal.Signals(number).name
            _say(f"{name}: the state is stored after this piece or step; Ctrl-C ends at once")
        elif number == signal.SIGINT:
            self.close()
            raise KeyboardInterrupt

    def look(self) -> None:
        """Between pieces, or between steps: stores the last state if a signal came, and ends. If the step's sum is
        there already, that waits for the step's end."""
        if self._number is None or self._hub is None or self._sums is None:
            return
        self._hub.take_last_state(_GRACE_SECONDS)
        while not self._hub.last_is_taken:
            if not self._sums.wait_for_last_state(self._hub.done):
                return
            time.sleep(_LOOK_SECONDS)
        self.end()

    def end(self) -> None:
        """Nothing is left to be stored: ends as the signal wants, if one came."""
        number, hub = self._number, self._hub
        self.close()
        if number is None or hub is None:
            return
        _say(f"{told(number)}{hub.told_of_last}")
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    def close(self) -> None:
        """Signals have the actions from before."""
        for number, action in self._before.items():
            if signal.getsignal(number) == self._hear:
                signal.signal(number, action)
        self._before, self._number = {}, None


def _say(text: str) -> None:
    """By one write: a handler may run in the middle of another one."""
    os.write(2, f"tarry: {text}\n".encode())
