# SPDX-License-Identifier: Apache-2.0
"""Where a worker's sums come from."""

import abc
import dataclasses
import time
from collections.abc import Callable

from ..errors import StateError
from ..hub import Client
from ..task import Task
from ..vectors import Floats
from ..worker import Worker
from .standing import Standing

_LOOK_SECONDS = 0.1  # for a task, before something else is looked at


@dataclasses.dataclass(frozen=True)
class Summed:
    """A step's sum, to be read until it is given back: the model has stepped on it then."""

    numbers: Floats
    give_back: Callable[[], object]


@dataclasses.dataclass(frozen=True)
class Lost:
    """Others have gone on without this worker: a state that comes in the place of a step."""

    state: bytes


class Sums(abc.ABC):
    """One worker's tasks and sums. For the training's thread."""

    worker: Worker

    def __init__(self, standing: Standing, client: Client) -> None:
        self.standing, self.client = standing, client
        self._ahead: Task | None = None  # a task for the step after this one
        self._over = False  # no tasks come any more
        # Called when a state can be saved: ends the training there if a signal has come.
        self.look: Callable[[], None] = lambda: None
        self._follows = True  # this worker has not made the last step itself, but has got the state after it

    @abc.abstractmethod
    def begin(self, steps: int) -> None:
        """Steps begin, up to so many in all: the state may have to be moved on before."""

    def goes_on(self) -> bool:
        """Waits until it is known whether there is another step. A task of it shows that there is; otherwise the hub
        knows."""
        while not self._over:
            self.look()
            if not self._has_next():
                self._look_ahead()
                if self._over:
                    break
            if self._has_next() and not self._follows:
                break
            more = self.client.goes_on(self.standing.done, self.standing.save, follows=self._follows)
            if more is not None:
                return more
            if self._has_next():
                time.sleep(_LOOK_SECONDS)
        return True  # and if the run is over, taking says why

    @abc.abstractmethod
    def _has_next(self) -> bool:
        """Whether something came that belongs to the next step."""

    @abc.abstractmethod
    def _look_ahead(self) -> Task | None:
        """Waits a moment for the next task."""

    @abc.abstractmethod
    def take(self) -> Task | Summed | Lost:
        """What is next in this step: a piece to compute, or the step's end. Raises why the run is over, if it is."""

    def end_step(self, *, lost: bool) -> None:
        """The loop's body is through; if the step was lost, the model gets the state that came."""
        self._follows = lost

    def replace(self, state: bytes) -> None:
        """After a step: the model gets the state of another worker after the same step."""
        self.standing.load(state)

    def finish(self) -> None:
        """All steps are done: waits until the hub has what it needs of them."""
        self.client.finish(self.standing.done, self.standing.save)

    def wait_for_last_state(self, done: int) -> bool:
        """While the hub stores a last state, after so many steps. False: the model has a step to take before."""
        if not self._has_next():
            self._look_ahead()
        if done > self.standing.done or (self._ahead is not None and self._ahead.is_step):
            return False
        self.client.goes_on(self.standing.done, self.standing.save)
        return True

    def leave(self, told: Callable[[], object]) -> None:
        """The loop was left before its last step. `told` is called once the hub hears of that."""
        self.client.leave(self.standing.done, self.standing.save, told)

    def close(self) -> None:
        self.worker.close()

    def _await_task(self) -> Task | None:
        """None: none came for a moment, or the run is over."""
        try:
            task = self.worker.take(_LOOK_SECONDS)
        except StateError:
            if self.worker.ended:
                raise
            if not self.client.is_open():
                raise self.client.why_over() from None
            return None
        self._over = task is None
        return task

    def _raise_if_over(self) -> None:
        if self._over:
            raise self.client.why_over()


class Over(Sums):
    """Those of a training that was over before this worker came: it has the last state, and its script continues after
    the loop."""

    def begin(self, steps: int) -> None:
        pass

    def goes_on(self) -> bool:
        return False

    def _has_next(self) -> bool:
        return False

    def _look_ahead(self) -> Task | None:
        return None

    def take(self) -> Task | Summed | Lost:
        raise StateError("the training is over")

    def end_step(self, *, lost: bool) -> None:
        pass

    def finish(self) -> None:
        pass

    def leave(self, told: Callable[[], object]) -> None:
        pass

    def close(self) -> None:
        pass
