# SPDX-License-Identifier: Apache-2.0
"""Where a worker's sums come from."""

import abc
import dataclasses
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

    @abc.abstractmethod
    def begin(self, steps: int) -> None:
        """Steps begin, up to so many in all: the state may have to be moved on before."""

    def goes_on(self) -> bool:
        """Whether there is another step, as far as a budget says."""
        return True

    @abc.abstractmethod
    def take(self) -> Task | Summed | Lost:
        """What is next in this step: a piece to compute, or the step's end. Raises why the run is over, if it is."""

    @abc.abstractmethod
    def end_step(self, *, lost: bool) -> None:
        """The loop's body is through; if the step was lost, the model gets the state that came."""

    def finish(self) -> None:
        """All steps are done: waits until the hub has what it needs of them."""
        self.client.finish(self.standing.done, self.standing.save)

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
