# SPDX-License-Identifier: Apache-2.0
"""Dense rounds of a training, as `--compress topk:F:FIRST:LAST` of the tool has them."""

from typing import NamedTuple

MOST_FIRST = 65535


class DenseRounds(NamedTuple):
    """Of a server, in the words of its settings: rounds below `compress_first`, and where `compress_from` is not 0
    those from it on."""

    compress_first: int
    compress_from: int


def dense_rounds(first: int, last: int, steps: int, *, before: int = 0) -> DenseRounds:
    """The first and the last so many of a training's `steps` are dense, and all after them where `last` is not 0.

    before  steps that were done before the server's first round
    """
    left = max(first - before, 0)
    if last == 0:
        return DenseRounds(left, 0)
    start = steps - last - before
    return DenseRounds(left, start) if start > 0 else DenseRounds(max(left, 1), 1)
