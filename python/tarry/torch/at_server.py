# SPDX-License-Identifier: Apache-2.0
"""Sums that the server makes."""

from collections.abc import Callable

import numpy as np

from ..hub import Client
from ..hub.head import HEAD_NUMBERS, read_head
from ..task import Task
from ..worker import Worker
from .standing import Standing
from .sums import Lost, Summed, Sums


class AtServer(Sums):
    """A step's sum comes with the first task of the next step, as its parameters. Where there is no such task (after
    the last step), or one of a later step (this worker was slow, or is new), the hub is asked for the sum."""

    def __init__(self, standing: Standing, client: Client, number: int, connect: Callable[..., Worker]) -> None:
        """
        number  this worker's
        connect makes the library's worker
        """
        super().__init__(standing, client)
        self.worker = connect()
        self._number = number
        self._step_ahead = 0  # of the task ahead
        self._known = 0  # steps that there are, as far as this worker has heard
        self._asked_after: int | None = None  # steps after which the hub wants this worker's state
        self._coming = b""  # the state that comes in the place of a step

    def begin(self, steps: int) -> None:
        """What others have done meanwhile comes in the steps."""

    def _has_next(self) -> bool:
        step = self.standing.done
        return self._known > step or (self._ahead is not None and self._step_ahead >= step)

    def take(self) -> Task | Summed | Lost:
        while True:
            self.look()
            step, task = self.standing.done, self._ahead
            if task is None and self._known <= step and not self._over:
                task = self._look_ahead()
            if task is None or self._step_ahead > step + 1:
                found = self._ask(step)
                if found is not None:
                    return found
                self._raise_if_over()
            elif self._step_ahead == step + 1:
                assert task.parameters is not None
                return Summed(task.parameters[HEAD_NUMBERS:], _keep)
            else:
                self._ahead = None
                if self._step_ahead == step:
                    return task
                task.give(failed=True)  # of a round that is over

    def end_step(self, *, lost: bool) -> None:
        super().end_step(lost=lost)
        standing = self.standing
        if lost:
            standing.load(self._coming)
            self._coming = b""
        elif self._asked_after is not None and standing.done >= self._asked_after:
            self._asked_after = None
            self.client.give(standing.done, standing.save)

    def _look_ahead(self) -> Task | None:
        task = self._await_task()
        if task is not None:
            assert task.parameters is not None
            head = read_head(task.parameters)
            self._ahead, self._step_ahead = task, head.step
            self._known = max(self._known, head.step)
            if head.asked == self._number:
                self._asked_after = head.step
        return task

    def _ask(self, step: int) -> Summed | Lost | None:
        """What the hub has for a worker with so many steps. None: nothing yet."""
        kind, known, payload = self.client.after(step, self.standing.save)
        self._known = max(self._known, known)
        if kind == "none":
            return None
        if kind == "sum":
            return Summed(np.frombuffer(payload, dtype=np.float32), _keep)
        self._coming = payload
        return Lost(payload)


def _keep() -> None:
    """Nothing is to be given back: the task is the next step's first."""
