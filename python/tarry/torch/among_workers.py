# SPDX-License-Identifier: Apache-2.0
"""Sums that the workers make among themselves."""

from collections.abc import Callable

from ..errors import Error
from ..hub import Client
from ..replica import Replica
from ..results import SumId
from ..task import Task
from ..worker import Job, Worker
from .standing import Standing
from .sums import Lost, Summed, Sums


class AmongWorkers(Sums):
    """A step is a task, and states come from other workers by the library, whose replica this is (tarry.Replica)."""

    def __init__(self, standing: Standing, client: Client, last: SumId | None, connect: Callable[..., Worker]) -> None:
        """
        last    the sum that the first state has stepped on
        connect makes the library's worker, which others reach
        """
        super().__init__(standing, client)
        self._last = last
        self._base = standing.done - (
            last.step if last is not None else 0
        )  # the model's steps before the server's first
        self._coming: bytes | None = None  # a state that came, to be loaded before anything else is done
        self._frozen: bytes | None = None  # what others get once the loop is left
        self.worker = connect(prepare=self._prepare)

    # ---- the replica: called by threads of the library ----

    def _prepare(self, _job: Job) -> Replica:
        return self

    @property
    def last(self) -> SumId | None:
        return self._last

    def save(self) -> bytes:
        """The state after `done` steps: while pieces are computed it stands still, but for buffers, of which there are
        copies."""
        coming, frozen = self._coming, self._frozen
        if coming is not None:
            return coming
        return frozen if frozen is not None else self.standing.save()

    def load(self, state: bytes) -> None:
        """Is in force before the next piece or step: the owner's thread may be in the middle of one."""
        self._coming = state

    # ---- steps ----

    def begin(self, steps: int) -> None:
        """Others may be further: their state comes before the first task."""
        self._frozen = None
        self._take_coming()
        while self.standing.done < steps and self._ahead is None and self.goes_on():
            self._raise_if_over()
            self._take_coming()

    def _has_next(self) -> bool:
        return self._ahead is not None or self._coming is not None

    def _look_ahead(self) -> Task | None:
        self._ahead = self._await_task()
        return self._ahead

    def take(self) -> Task | Summed | Lost:
        self.look()
        while self._coming is None and self._ahead is None:
            if self._look_ahead() is None and not self._over:
                self.client.in_step(self.standing.done)
            self._raise_if_over()
        coming = self._coming
        if coming is not None:
            return Lost(coming)  # the task ahead is of a step that begins with that state
        task, self._ahead = self._ahead, None
        assert task is not None
        if not task.is_step:
            return task
        self._check_turn(self._base + task.step)
        return Summed(task.sum, task.give)

    def _check_turn(self, step: int) -> None:
        """A model that is not as far as the others', or is further, would spoil all sums of its gradients."""
        if step != self.standing.done + 1:
            raise Error(
                f"the sum of step {step} came to a model that has taken {self.standing.done} steps: its state is not "
                "that of the others"
            )

    def end_step(self, *, lost: bool) -> None:
        super().end_step(lost=lost)
        if lost:
            self._take_coming()

    def replace(self, state: bytes) -> None:
        if self._coming is None:  # else others are further, and this worker gets their state
            super().replace(state)

    def finish(self) -> None:
        self._frozen = self.standing.save()
        super().finish()

    def _take_coming(self) -> None:
        """Loads what came; until then others get the same."""
        while (state := self._coming) is not None:
            self.standing.load(state)
            if self._coming is state:
                self._coming = None
