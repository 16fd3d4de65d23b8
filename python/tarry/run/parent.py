# SPDX-License-Identifier: Apache-2.0
"""Processes end with the one that started them."""

import ctypes
import signal

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Called in a process just forked."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
