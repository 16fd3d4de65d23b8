# SPDX-License-Identifier: Apache-2.0
"""Tells the hub digests of this worker's state, and takes the others' state if it differs."""

import hashlib

import torch

from ..hub import Client
from ..hub.drift import is_due
from .sums import Sums

_MOST_ASKS = 16  # in as many steps after a digest


class Drift:
    """For the training's thread."""

    def __init__(self, client: Client, sums: Sums, workers: int) -> None:
        """Of a worker that has its first state."""
        self._client, self._sums = client, sums
        self._alone = workers == 1
        self._of = ""  # names the sum of this step
        self._told: int | None = None  # the step after which the digest was told of which nothing is known yet
        self._asks = 0  # that are left
        self._inherited = sums.standing.done > 0  # a state came from another worker, and no verdict since

    def begin_update(self, done: int, exact: torch.Tensor) -> None:
        """The model is to step on a sum, after so many steps.

        exact  the numbers of the sum that are no gradient: they name it
        """
        if not self._alone and is_due(done + 1):
            self._of = hashlib.blake2b(exact.numpy().tobytes(), digest_size=16).hexdigest()

    def end_step(self, *, lost: bool) -> None:
        """The model has stepped. Raises Error: this worker is refused.

        lost  it has got a state in place of the step, or will get one since it lacks a part of the step
        """
        if self._alone or lost:
            self._told, self._inherited = None, lost
            return
        standing = self._sums.standing
        due = is_due(standing.done)
        if due:
            bits = standing.members.digest_of_steps().hex()
            self._client.tell_digest(standing.done, self._of, bits, inherited=self._inherited)
        if self._told is not None:
            verdict, state = self._client.ask_verdict(self._told, standing.done, standing.save)
            self._asks -= 1
            if verdict == "take":
                self._sums.replace(state)
                due = False
            if verdict != "unknown" or self._asks == 0:
                self._told = None
                self._inherited = self._inherited and verdict == "unknown"
        if due:
            self._told, self._asks = standing.done, _MOST_ASKS
