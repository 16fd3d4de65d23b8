# SPDX-License-Identifier: Apache-2.0
"""What a process of Linux asks for itself."""

import ctypes
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Called in a process just forked: it is killed when the one that forked it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def begin_child() -> None:
    """Called in a process just forked. HUP and USR1 to the whole job are for the launcher, which stores a last state;
    what the process runs may handle them all the same."""
    die_with_parent()
    for number in (signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)


def set_name(name: str) -> None:
    """As `ps -o comm` shows it: its first 15 bytes."""
    _libc.prctl(_PR_SET_NAME, name.encode())
