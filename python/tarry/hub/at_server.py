# SPDX-License-Identifier: Apache-2.0
"""Sums that the server makes: a round's parameters are the sum before, on which workers step before they compute."""

import time
from collections.abc import Callable

import numpy as np

from ..errors import MasksError, StateError
from ..results import Round, SumId
from ..secure import CLAMPED_MOST
from ..vectors import Floats
from .blob import Blob
from .head import HEAD_NUMBERS, NOBODY, Head, write_head
from .kept import Kept
from .private import Private
from .sums import Setup, Sums

_LOOK_SECONDS = 0.2  # between two looks who is still there
_ASK_ROUNDS = 4  # after which another worker is asked for its state
_NONE = SumId(0, 0, 0, 0)


class AtServer(Sums):
    """Workers step as where they make the sums themselves, and the hub has the last sums and a state from before them.

    Sums reach workers with the next round. Who has missed one, and everybody after the last, asks the hub for it. Now
    and then one worker is asked for its state, so that few sums have to be kept, and for the checkpoint.
    """

    def __init__(self, setup: Setup) -> None:
        """Raises ArgumentError, SystemResourceError; with a ledger FileError, FormatError, StateError."""
        super().__init__(setup)
        found = setup.found
        self.done = found.base + found.after.step if found is not None else 0
        self._kept = Kept(self.done, found.state) if found is not None else None  # None: no worker has come yet
        self._parameters: Floats = np.zeros(HEAD_NUMBERS + self.agreement.dimension, dtype=np.float32)  # of a round
        self._due_since: int | None = None  # the step after which a checkpoint has become due
        self._asked, self._asked_at = NOBODY, -_ASK_ROUNDS  # the last worker that was asked for its state, and when
        if self.agreement.dp:
            self.private = Private(self.settings, self.agreement, resumes=found is not None)
            if found is not None:
                self.private.check(found.ledger, self.done)
        self.server = self._make_server(parameters=self._parameters.size)

    # ---- states ----

    def for_newcomer(self) -> tuple[Blob, SumId | None] | None:
        with self.change:
            return None if self._kept is None else (self._kept.state, None)

    def begin_with(self, state: bytes) -> None:
        with self.change:
            self._kept = Kept(0, state)

    def drop_states(self) -> None:
        self._kept = None
        self._parameters = np.zeros(0, dtype=np.float32)

    def renew(self, step: int, ask: Callable[[], bytes]) -> bool:
        kept = self._kept
        if kept is None or not kept.lacks(step):
            return False
        state = ask()
        with self.change:
            kept.renew(step, state)
            self.change.notify_all()
        return True

    def after(self, step: int) -> tuple[str, Blob]:
        with self.change:
            kept = self._kept
            if kept is None or step >= kept.done:
                return "none", b""
            numbers = kept.sum_of(step)
            return ("newer", kept.state) if numbers is None else ("sum", numbers.data)

    @property
    def oldest(self) -> int:
        with self.change:
            return self.done if self._kept is None else min(self.done, self._kept.oldest)

    # ---- rounds ----

    def run_round(self) -> Round:
        parameters = self._parameters
        write_head(parameters, Head(self.done, self._ask()))
        following = np.empty_like(parameters)
        result = self._sum(parameters, following[HEAD_NUMBERS:])
        if self.private is not None:
            self.private.release(result, following[HEAD_NUMBERS:])
        with self.change:
            assert self._kept is not None
            self._kept.add(following[HEAD_NUMBERS:])
            self.done += 1
        self._parameters = following
        return result

    def _sum(self, parameters: Floats, out: Floats) -> Round:
        try:
            result = self.server.round(parameters, out=out)
        except MasksError as error:
            raise MasksError(
                f"{error}: either workers were told different things, or their models have different bits (does "
                "forward change a buffer?)"
            ) from None
        self.count_clamped(result.clamped)
        return result

    def count_clamped(self, clamped: int) -> None:
        """Raises StateError if a step's sum has too many numbers that were clamped."""
        share = clamped / (self.agreement.dimension * self.agreement.units)
        what = (
            f"step {self.done}: {share:.3%} of the numbers in pieces' gradients were beyond "
            f"secure_bound={self.agreement.secure_bound:g}, to which they are held, or not finite"
        )
        if clamped and not self.clamped:
            self.settings.say(what)
        self.clamped += clamped
        self.saturation = max(self.saturation, share)
        if share > CLAMPED_MOST:
            raise StateError(f"{what}. At most {CLAMPED_MOST:.1%} may be: give all workers a larger secure_bound")

    def _ask(self) -> int:
        """The worker that is to give its state: one after the other, until one does."""
        with self.change:
            kept = self._kept
            assert kept is not None  # whoever wants a step has given its state, or has one
            wanted = kept.outgrown or (self._due_since is not None and kept.step < self._due_since)
        if not wanted or self.done < self._asked_at + _ASK_ROUNDS:
            return NOBODY
        there = [worker.worker for worker in self.server.workers() if worker.present]
        if not there:
            return NOBODY
        self._asked = next((worker for worker in there if worker > self._asked), there[0])
        self._asked_at = self.done
        return self._asked

    def settle(self, over: Callable[[], bool]) -> bool:
        """Who has the last step first gives its state."""
        with self.change:
            self.change.wait_for(lambda: self._kept is None or self._kept.step == self.done or over())
            if self._kept is not None and self._kept.step < self.done:
                return False
        if self.agreement.checkpoint and (self.stored or 0) < self.done:
            self._store()
        return True

    def store_last(self, until: float) -> None:
        with self.change:
            while self._kept is not None and self._kept.step < self.done and (left := until - time.monotonic()) > 0:
                if not any(worker.present for worker in self.server.workers()):
                    break
                self.change.wait(min(left, _LOOK_SECONDS))
            kept = self._kept
            if kept is None or kept.step == (self.stored or 0):
                return
        self._store()

    # ---- checkpoints ----

    def _store_is_due(self) -> bool:
        """It is for a state that is no older than that."""
        if self._due_since is None and super()._store_is_due():
            self._due_since = self.done
        return self._due_since is not None and self._kept is not None and self._kept.step >= self._due_since

    def _store(self) -> None:
        with self.change:
            kept = self._kept
            assert kept is not None
            step, state = kept.step, kept.state
        self._due_since, self._stored_at = None, time.monotonic()
        self._write(state, _NONE, step, server=b"", job_id=b"")
