# SPDX-License-Identifier: Apache-2.0
"""Sums that the workers make among themselves: no vector passes the hub, and a log has the sums' names."""

import time
from collections.abc import Callable
from typing import Any, cast

from ..errors import Error, InterruptedByCaller, StateError
from ..results import Round, SumId
from ..server import Server
from . import storage
from .blob import Blob
from .sums import Setup, Sums

# How long the last of those that are there may take to step on the last sum, once another one has.
_LAST_SECONDS = 60.0
_LOOK_SECONDS = 1.0  # between two looks who is still there
_NONE = SumId(0, 0, 0, 0)


class AmongWorkers(Sums):
    """Workers have the parameters, step on each sum, and get each other's states by the library.

    The model has taken `_base` steps before the server's first.
    """

    def __init__(self, setup: Setup) -> None:
        """Raises ArgumentError, FormatError, FileError, SystemResourceError."""
        super().__init__(setup)
        self._base = self.done = 0
        self._state: Blob | None = None  # of the model, where it is not the workers' own
        self._last: SumId | None = None  # that it has stepped on
        self._log = storage.SumLog(self.agreement.checkpoint + ".log") if self.agreement.checkpoint else None
        found = setup.found
        same = found if found is not None and self._fits(found) else None
        self.server = self._make(same)
        if found is not None:
            self._go_on(found, same_server=same is not None)
        self._begun_at = self.done

    # ---- making ----

    def _fits(self, found: storage.Checkpoint) -> bool:
        """Whether the server goes on, rather than a new one from the same state: its plan is the same, and the log has
        the sum that the state has stepped on."""
        before = found.agreement
        same = all(before.get(name) == getattr(self.agreement, name) for name in ("units", "parts"))
        settings = cast("dict[str, Any]", before.get("settings", before))  # older ones had it beside the others
        same = same and settings.get("sum") == self.agreement.sum
        same = same and found.workers == self.settings.workers
        known = found.after.step == 0 or (self._log is not None and found.after in self._log.entries)
        if same and not known:
            self.settings.say(f"{self.agreement.checkpoint}.log is not that of the checkpoint: it is begun anew")
        return same and known

    def _make(self, found: storage.Checkpoint | None) -> Server:
        """That of the checkpoint, or a new one."""
        last, term = None, 0
        if self._log is not None:
            term = self._log.term
            if found is not None:
                last = self._log.last
            elif self._log.entries:
                self._log.begin_anew()
        return self._make_server(
            parameters=1,
            checkpoint=found.server if found is not None else None,
            job_id=found.job_id if found is not None else None,
            log=self._log.append if self._log is not None else None,
            last=last,
            term=term,
        )

    def _go_on(self, found: storage.Checkpoint, *, same_server: bool) -> None:
        """From a checkpoint, of this server or of one with another plan."""
        self._state = found.state
        self.done = found.base + found.after.step
        if same_server:
            self._base, self._last = found.base, found.after if found.after.step else None
        else:
            self._base = self.done
        self._keep(self._last or _NONE, found.state)
        if self._last is not None:
            self.server.offer(self._last, found.state)

    # ---- states ----

    def for_newcomer(self) -> tuple[Blob, SumId | None] | None:
        with self.change:
            return None if self._state is None else (self._state, self._last)

    def begin_with(self, state: bytes) -> None:
        with self.change:
            self._state = state

    def drop_states(self) -> None:
        self._state = None

    # ---- rounds ----

    def run_round(self) -> Round:
        result = self.server.round()
        self.done = self._base + result.sum_id.step
        return result

    def settle(self, over: Callable[[], bool]) -> bool:
        """All that are there step on the last sum."""
        if self.done > self._begun_at:
            self._await_last_step()
            self._store_last()
        return True

    def _await_last_step(self) -> None:
        """A loop's body may take long after its last sum, as for an evaluation. As long as no worker has stepped, those
        that are present are waited for; once one has, the others have 60 s."""
        begun = time.monotonic()
        while True:
            there = sum(worker.present for worker in self.server.workers())
            late = time.monotonic() - begun >= _LAST_SECONDS
            if self._waits_for(1 if late else max(1, there)):
                return
            if late and there == 0:
                return  # getting the state fails next, and says why

    def store_last(self, until: float) -> None:
        if self.stored == self.done or (self.stored is None and self.done == self._begun_at):
            return
        while not self._waits_for(1):
            if not any(worker.present for worker in self.server.workers()):
                raise StateError("no worker is left that has the state")
            if time.monotonic() >= until:
                raise StateError("no worker has finished the step in time")
        self._store_last()

    def _waits_for(self, count: int) -> bool:
        try:
            self.server.wait(count, timeout=_LOOK_SECONDS)
        except InterruptedByCaller:
            raise
        except Error:
            return False
        return True

    def _store(self) -> None:
        self._store_last()

    def _store_last(self) -> None:
        """The last state is with the hub, where workers may get it, and in the checkpoint, if there is one."""
        after, state = self.server.state_view(timeout=_LAST_SECONDS)
        self.done = max(self.done, self._base + after.step)  # of a round that was interrupted as it ended
        if self.agreement.checkpoint:
            self._keep(after, state)
        self.server.offer(after, state)
        with self.change:  # a worker that joins begins with it, also when it finds no other worker
            self._state, self._last = state, after
        self._stored_at = time.monotonic()

    def _keep(self, after: SumId, state: Blob) -> None:
        checkpoint = self.server.checkpoint()
        self._write(state, after, self._base, checkpoint, self.server.job_id)
        self.server.stored(checkpoint)

    def close(self, *, finished: bool) -> None:
        super().close(finished=finished)
        if self._log is not None:
            self._log.close()
