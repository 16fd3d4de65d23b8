# SPDX-License-Identifier: Apache-2.0
"""Which worker is the chief, which logs and saves what is the script's own: worker 0, as long as it takes part."""

from collections.abc import Set


class Chief:
    """If the chief has ended before the training's end, and is not started again, the lowest worker that may still take
    part follows it. One thread at a time.

    Once a worker is done and has heard who the chief is, that stays: it may have ended without what a chief does last.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._number = 0
        self._done: set[int] = set()  # workers that have done all steps
        self._stays = False

    def finish(self, worker: int) -> None:
        """It has done all steps."""
        self._done.add(worker)

    def find(self, ended: Set[int], *, asks: int | None = None) -> int:
        """`asks`: the worker that hears it; `ended`: those that will not come any more."""
        if not self._stays and self._number in ended and self._number not in self._done:
            left = (worker for worker in range(self._workers) if worker not in ended or worker in self._done)
            self._number = next(left, self._number)
        self._stays = self._stays or asks in self._done
        return self._number
