# SPDX-License-Identifier: Apache-2.0
"""Daemon threads of this package. Python must not end while one begins, as it may where Ctrl-C ends the start."""

import threading
import time
from collections.abc import Callable

_beginning: list[threading.Event] = []


def start(run: Callable[[], object], name: str) -> threading.Thread:
    """Starts a thread that runs this."""
    begun = threading.Event()

    def body() -> None:
        begun.set()
        run()

    _beginning.append(begun)
    thread = threading.Thread(target=body, name=name, daemon=True)
    thread.start()
    _beginning.remove(begun)
    return thread


def await_beginnings(seconds: float) -> None:
    """At the interpreter's end."""
    until = time.monotonic() + seconds
    for begun in list(_beginning):
        begun.wait(max(0.0, until - time.monotonic()))


def forget() -> None:
    """In a child of fork, which has none of them."""
    _beginning.clear()
