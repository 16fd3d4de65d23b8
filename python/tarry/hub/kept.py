# SPDX-License-Identifier: Apache-2.0
"""What the hub keeps for those who are behind, where the server makes the sums."""

from ..vectors import Floats
from .blob import Blob

MOST_SUMS = 32
_MOST_STATES = 4  # that sums may weigh as much as


class Kept:
    """A state of the model, the sums of the steps since, and the last few sums in any case: whoever is no further
    behind catches up by them. Few are MOST_SUMS, or fewer where they are large beside the state.

    step    how many the state has taken
    done    how many there are, with those of the sums
    """

    def __init__(self, step: int, state: Blob) -> None:
        self.step, self.state = step, state
        self.done = step
        self._sums: list[Floats] = []

    def _few(self) -> int:
        size = max((one.nbytes for one in self._sums), default=1)
        return max(1, min(MOST_SUMS, _MOST_STATES * len(self.state) // size))

    @property
    def outgrown(self) -> bool:
        """Whether a newer state is wanted: otherwise more sums are kept than a few."""
        return self.done - self.step >= self._few()

    def add(self, numbers: Floats) -> None:
        """The next step's sum."""
        self._sums.append(numbers)
        self.done += 1
        self._forget()

    def lacks(self, step: int) -> bool:
        """Whether a state of so many steps is newer, and can be."""
        return self.step < step <= self.done

    def renew(self, step: int, state: Blob) -> None:
        """A worker's state takes the place of the older one, if it is lacked."""
        if self.lacks(step):
            self.step, self.state = step, state
            self._forget()

    @property
    def oldest(self) -> int:
        """The first step whose sum is there, or that is not summed yet."""
        return self.done - len(self._sums)

    def sum_of(self, step: int) -> Floats | None:
        """Steps count from 0. None: it is not there yet, or not any more."""
        place = step - (self.done - len(self._sums))
        return self._sums[place] if 0 <= place < len(self._sums) else None

    def _forget(self) -> None:
        wanted = max(self.done - self.step, self._few())
        del self._sums[: max(0, len(self._sums) - wanted)]
