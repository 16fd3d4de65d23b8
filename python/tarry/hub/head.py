# SPDX-License-Identifier: Apache-2.0
"""What a round's parameters are where the server makes the sums: a head, and behind it the sum before."""

from typing import NamedTuple

import numpy as np

from ..vectors import Floats

HEAD_NUMBERS = 2
NOBODY = -1


class Head(NamedTuple):
    """The first numbers of a round's parameters; the sum of the step before is behind them."""

    step: int  # that the round is of, and so how many the model has to have taken; from 0
    asked: int  # the worker that is to give the hub its state at the step's end; NOBODY


def write_head(parameters: Floats, head: Head) -> None:
    parameters[:HEAD_NUMBERS].view(np.int32)[:] = head


def read_head(parameters: Floats) -> Head:
    return Head(*parameters[:HEAD_NUMBERS].view(np.int32).tolist())
