# SPDX-License-Identifier: Apache-2.0
"""Workers that leave their loop before its last step, as by `break`: whether all of them do, or some go on.

A worker that the machine held up has not made the step at which the others left. It gets their state in place of that
step, and nobody has asked it whether it would leave, too. So it follows: it leaves if all others have.
"""

from collections.abc import Set


class Leaving:
    """By the steps that workers have done. One thread at a time."""

    def __init__(self) -> None:
        self._left: dict[int, int] = {}
        self._following: dict[int, int] = {}
        self._in_step: dict[int, int] = {}  # workers that are in a step after so many, and wait for others

    def forget(self, worker: int) -> None:
        """Its process has ended, or another one takes its place."""
        for known in (self._left, self._following, self._in_step):
            known.pop(worker, None)

    def leave(self, worker: int, done: int) -> None:
        self.forget(worker)
        self._left[worker] = done

    def go_on(self, worker: int, done: int) -> None:
        """The worker is in its next step."""
        self._following.pop(worker, None)
        self._in_step[worker] = done

    def may_follow(self, worker: int, done: int, there: Set[int]) -> bool:
        """True if others have left after as many steps, and this worker, which has their state, waits for what comes
        of that."""
        if not any(left == done for other, left in self._left.items() if other in there):
            return False
        self._following[worker] = done
        return True

    def others_go_on(self, after: int, done: int) -> bool:
        """True if a step was made after so many, or a worker is in it."""
        return done > after or any(at >= after for at in self._in_step.values())

    def is_over(self, there: Set[int]) -> bool:
        """True if all that are there have left or follow."""
        return bool(self._left.keys() & there) and there <= self._left.keys() | self._following.keys()

    @property
    def newest(self) -> int:
        """The most steps that one of them has done."""
        return max(self._left.values(), default=0)
