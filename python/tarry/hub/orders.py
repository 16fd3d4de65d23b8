# SPDX-License-Identifier: Apache-2.0
"""Digests of the indices that workers have drawn from samplers, which must be the same."""

import threading

_KEPT = 16  # epochs or steps, for workers that come late to one


class Orders:
    """For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[int, tuple[int, str]] = {}  # who was first, and what it drew

    def hold(self, worker: int, place: int, what: str, digest: str) -> str:
        """How a worker's indices differ from those of the first that told of these, in words; "": they do not."""
        with self._lock:
            first, known = self._known.setdefault(place, (worker, digest))
            while len(self._known) > _KEPT:
                del self._known[min(self._known)]
        if known == digest:
            return ""
        return (
            f"worker {worker} has drawn other samples for {what} than worker {first}. Their samplers differ, or have a "
            "state that is not the training's seed. sampler=f(seed, step) gives the indices of a step by a function"
        )
