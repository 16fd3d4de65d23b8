# SPDX-License-Identifier: Apache-2.0
"""Lists of hosts as Slurm writes them: 'node[01-04,7],gpu3'."""

import re

from ..errors import ArgumentError

_RANGE = re.compile(r"\[(\d+)[^\]]*\]")


def first_of(hosts: str) -> str:
    """The first host of the list. Raises ArgumentError."""
    depth, end = 0, len(hosts)
    for place, letter in enumerate(hosts):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            end = place
            break
    found = _RANGE.sub(r"\1", hosts[:end].strip())
    if not found or "[" in found or "]" in found or depth != 0:
        raise ArgumentError(f"{hosts!r} is no list of hosts")
    return found
