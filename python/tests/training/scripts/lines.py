# SPDX-License-Identifier: Apache-2.0
"""Lines of processes that share an output."""

import sys


def say(*words: object) -> None:
    """One write for the whole line; where nothing is buffered, print() makes several, and others come between."""
    sys.stdout.write(" ".join(str(word) for word in words) + "\n")
    sys.stdout.flush()
