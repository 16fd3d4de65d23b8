# SPDX-License-Identifier: Apache-2.0
"""A training that was over before this worker came."""

from collections.abc import Callable

from ..errors import StateError
from ..task import Task
from .sums import Lost, Summed, Sums


class Over(Sums):
    """All steps are done: the worker has the last state, and its script continues after the loop."""

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
