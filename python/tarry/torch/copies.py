# SPDX-License-Identifier: Apache-2.0
"""Copies of a piece have to have the same bits where coded parts are made of them."""

import hashlib

import torch

from ..hub import Client

_FIRST, _EACH = 3, 16  # steps: copies of their pieces are compared


class Copies:
    """This worker's, of one step. For the training's thread."""

    def __init__(self, client: Client, worker: int, parts: int) -> None:
        self._client, self._worker, self._parts = client, worker, parts
        self._digests: dict[int, str] = {}

    def add(self, step: int, unit: int, vector: torch.Tensor) -> None:
        if self._parts > 1 and (step < _FIRST or step % _EACH == 0):
            self._digests[unit] = hashlib.blake2b(vector.numpy().tobytes(), digest_size=8).hexdigest()

    def compare(self, step: int) -> None:
        """Before anybody goes by the step's sum. Raises Error where copies of a piece differ."""
        if self._digests:
            self._client.compare(self._worker, step, self._digests)
            self._digests = {}
