# SPDX-License-Identifier: Apache-2.0
"""Signals that end a training after its last state is stored."""

import signal
from typing import Any

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


def signals_to_take(*, always: tuple[int, ...] = ()) -> list[signal.Signals]:
    """Those that have their default actions, and those of `always`. HUP stays ignored under nohup, and a script's own
    handlers stay."""
    defaults: tuple[Any, ...] = (signal.SIG_DFL, signal.default_int_handler)
    return [number for number in ENDING if number in always or signal.getsignal(number) in defaults]


def told(number: int) -> str:
    """Which signal it was, in words."""
    return "interrupted" if number == signal.SIGINT else f"interrupted by {signal.Signals(number).name}"
