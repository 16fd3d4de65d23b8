# SPDX-License-Identifier: Apache-2.0
"""Who looks after which workers: `tarry run` on each machine, which starts them."""

import threading


class Attendants:
    """The workers that nobody but one `tarry run` starts. Any thread."""

    def __init__(self, workers: int, here: int) -> None:
        """The first `here` are started beside the hub."""
        self._workers = workers
        self._lock = threading.Lock()
        self._taken: dict[range, str] = {range(here): "the hub's own"} if here else {}

    def take(self, first: int | None, count: int, peer: str) -> range:
        """So many places, from `first` on or the first that are free. Raises ValueError, which says why not."""
        if count < 1:
            raise ValueError(f"{count} workers are none")
        with self._lock:
            places = self._free(count) if first is None else range(first, first + count)
            if places is None:
                raise ValueError(f"of {self._workers} workers no {count} in a row are free: {self._shown()}")
            if places.start < 0 or places.stop > self._workers:
                raise ValueError(f"there are no {named(places)} of {self._workers}")
            for other, where in self._taken.items():
                if places.start < other.stop and other.start < places.stop:
                    raise ValueError(f"{named(other)} are taken already: {where}")
            self._taken[places] = peer
        return places

    def free(self, places: range) -> None:
        with self._lock:
            self._taken.pop(places, None)

    def _free(self, count: int) -> range | None:
        begin = 0
        for other in sorted(self._taken, key=lambda one: one.start):
            if other.start - begin >= count:
                break
            begin = max(begin, other.stop)
        return range(begin, begin + count) if begin + count <= self._workers else None

    def _shown(self) -> str:
        taken = sorted(self._taken.items(), key=lambda one: one[0].start)
        return "; ".join(f"{named(places)}: {peer}" for places, peer in taken)


def named(places: range) -> str:
    return f"workers {places.start} to {places.stop - 1}" if len(places) > 1 else f"worker {places.start}"
