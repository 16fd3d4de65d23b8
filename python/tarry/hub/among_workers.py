# SPDX-License-Identifier: Apache-2.0
"""Sums that the workers make among themselves: no vector passes the hub, and a log has the sums' names."""

import time
from collections.abc import Callable

from ..errors import Error, InterruptedByCaller
from ..results import Round, SumId
from ..server import Server
from . import storage
from .sums import Setup, Sums

# How long the last of those that are there may take to step on the last sum, once the others have.
_LAST_SECONDS = 60.0
_NONE = SumId(0, 0, 0, 0)


class AmongWorkers(Sums):
    """Workers have the parameters, step on each sum, and get each other's states by the library.

    The model has taken `_base` steps before the server's first.
    """

    def __init__(self, setup: Setup) -> None:
        """Raises ArgumentError, FormatError, FileError, SystemResourceError."""
        super().__init__(setup)
        self._base = self.done = 0
        self._state: bytes | None = None  # of the model, where it is not the workers' own
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
        same = all(found.agreement.get(name) == getattr(self.agreement, name) for name in ("sum", "units", "parts"))
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
            sum="everywhere",
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

    def for_newcomer(self) -> tuple[bytes, SumId | None] | None:
        with self.change:
            return None if self._state is None else (self._state, self._last)

    def begin_with(self, state: bytes) -> None:
        with self.change:
            self._state = state

    # ---- rounds ----

    def run_round(self) -> Round:
        result = self.server.round()
        self.done = self._base + result.sum_id.step
        return result

    def settle(self, over: Callable[[], bool]) -> bool:
        """All that are there step on the last sum."""
        if self.done > self._begun_at:
            there = sum(worker.present for worker in self.server.workers())
            try:
                self.server.wait(max(1, there), timeout=_LAST_SECONDS)
            except InterruptedByCaller:
                raise
            except Error:
                self.settings.say(f"not all of {there} workers have the last step after {_LAST_SECONDS:g} s")
            after, state = self._store_last()
            with self.change:  # who comes now finds nobody else
                self._state, self._last = state, after
        return True

    def _store(self) -> None:
        self._store_last()

    def _store_last(self) -> tuple[SumId, bytes]:
        """The last state is with the hub, where workers may get it, and in the checkpoint, if there is one."""
        after, state = self.server.state(timeout=_LAST_SECONDS)
        if self.agreement.checkpoint:
            self._keep(after, state)
        self.server.offer(after, state)
        self._stored_at = time.monotonic()
        return after, state

    def _keep(self, after: SumId, state: bytes) -> None:
        checkpoint = self.server.checkpoint()
        self._write(state, after, self._base, checkpoint, self.server.job_id)
        self.server.stored(checkpoint)

    def close(self, *, finished: bool) -> None:
        super().close(finished=finished)
        if self._log is not None:
            self._log.close()
