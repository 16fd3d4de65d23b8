# SPDX-License-Identifier: Apache-2.0
"""A training as the hub knows it: from an agreement the plan and its rounds, for as long as steps are wanted."""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterable
from typing import Any

from ..errors import ArgumentError, CoverageError, DifferError, InterruptedByCaller, StateError
from ..notices import Notice
from ..plan import Plan
from . import storage
from .agreement import Agreement
from .among_workers import AmongWorkers
from .at_server import AtServer
from .private import check_private
from .secure import check_secure
from .settings import HubSettings
from .sums import Setup, Sums

# By the name that `sum` has in settings.
SUMS: dict[str, type[Sums]] = {"everywhere": AmongWorkers, "server": AtServer}
_MOST_REPLICATION = 8
_LOOK_SECONDS = 0.2  # between two looks who may still come


class Training:
    """From the first agreement on. Threads: `run` is for one; everything else for any."""

    def __init__(self, settings: HubSettings, agreement: Agreement) -> None:
        """Raises ArgumentError, FormatError, FileError, SystemResourceError."""
        self.settings = settings
        self.agreement = agreement
        self.wanted = 0
        self.failure: Exception | None = None
        self.settled = -1  # steps after which all that are there have the same state, and a checkpoint of it
        self.change = threading.Condition()
        self._ending = False
        self._left_out: frozenset[int] = frozenset()
        self._lacking = ""  # what the round in progress waits for; "": it does not wait for workers
        self._compared = -1  # the step whose digests these are, by piece: of which worker, and what
        self._digests: dict[str, tuple[int, str]] = {}
        self._decided = 0  # steps that the budget allows, as far as was asked
        self._limit: int | None = None  # steps after which it allows none
        found = storage.read(agreement.checkpoint) if agreement.checkpoint else None
        if found is not None:
            self._check(found)
        if agreement.dp:
            check_private(agreement)
        if agreement.secure:
            has_credentials = settings.security.credentials is not None
            check_secure(agreement, settings.workers, settings.listen, has_credentials=has_credentials)
        self._plan = plan = plan_of(settings.workers, agreement)
        if agreement.sum not in SUMS:
            raise ArgumentError(f"sum is {agreement.sum!r}, and there are {', '.join(SUMS)}")
        self.sums = SUMS[agreement.sum](Setup(settings, agreement, plan, found, self._observe, self.change))
        if found is not None:
            settings.say(f"resumed after step {self.done} from {agreement.checkpoint}")

    def _check(self, found: storage.Checkpoint) -> None:
        """A checkpoint of another model can't be gone on from."""
        for name, ours in (("model", self.agreement.model), ("dimension", self.agreement.dimension)):
            theirs = found.agreement.get(name)
            if theirs != ours:
                detail = dataclasses.replace(self.agreement, model=str(theirs)).difference(self.agreement)
                raise ArgumentError(f"{self.agreement.checkpoint} is of {detail or 'another model'}")

    @property
    def done(self) -> int:
        """Steps of the model."""
        return self.sums.done

    @property
    def address(self) -> str:
        return self.sums.server.addresses[0]

    def want(self, steps: int) -> None:
        """A worker wants so many steps of the model in all."""
        with self.change:
            self.wanted = max(self.wanted, steps)
            self.change.notify_all()

    # ---- rounds ----

    def run(self) -> None:
        """Runs rounds until `end`. What ends the training is `failure`."""
        try:
            self.sums.server.open()
            if self._await_more():
                self._await_workers()
            while self._await_more():
                if self._is_allowed():
                    self._run_round()
        except InterruptedByCaller:
            pass
        except Exception as error:
            self.end(error)
        if self.failure is not None:
            self.sums.server.close()  # workers hear that it is over, and ask why

    def _await_workers(self) -> None:
        """All that may still come, for so long."""
        server = self.sums.server
        begun = time.monotonic()
        while (left := begun + self.settings.start - time.monotonic()) > 0:
            coming = self.settings.workers - len(self._left_out)
            with contextlib.suppress(StateError):
                server.wait(coming, timeout=min(left, _LOOK_SECONDS))
                if coming == self.settings.workers:
                    return
                break
        there = sum(worker.present for worker in server.workers())
        self.settings.say(
            f"{there} of {self.settings.workers} workers are there after {time.monotonic() - begun:.0f} s: they begin"
        )

    def _await_more(self) -> bool:
        """Waits until a step is wanted. False: none is any more."""
        with self.change:
            due = not self._more_or_end()
        if due and self.sums.settle(self._more_or_end):
            self._say_spent()
            with self.change:
                self.settled = self.done
                self.change.notify_all()
        with self.change:
            self.change.wait_for(self._more_or_end)
            return not self._ending

    def _more_or_end(self) -> bool:
        return self._ending or self.done < (self.wanted if self._limit is None else min(self.wanted, self._limit))

    def _is_allowed(self) -> bool:
        """Whether the budget, where there is one, allows the next step. If not, the training ends as after its last."""
        private = self.sums.private
        spent = private is not None and private.spent
        with self.change:
            if spent:
                self._limit = self.done
            else:
                self._decided = self.done + 1
            self.change.notify_all()
        if spent:
            self.settings.say(f"the budget ends the training after step {self.done}")
        return not spent

    def goes_on(self, step: int) -> bool | None:
        """Whether there is one more after so many; None: that is not known yet."""
        with self.change:
            if self._limit is not None:
                return step < self._limit
            return True if self._decided > step or self._ending else None

    def keys_of(self, worker: int) -> dict[str, str]:
        """Those by which a worker draws the samples of its pieces."""
        private = self.sums.private
        return {} if private is None else private.keys_of([int(unit) for unit in self._plan.order_of(worker)])

    def _run_round(self) -> None:
        self._lacking = ""
        result = self.sums.run_round()
        self._lacking = ""
        with self.change:
            self.change.notify_all()
        if self.settings.observe is not None:
            self.settings.observe(result, self.done, self.wanted)
        self.sums.store_if_due()

    # ---- the end ----

    def compare(self, worker: int, step: int, digests: dict[str, str]) -> None:
        """Copies of pieces, of which coded parts are made, must be the same to the bit at all workers."""
        with self.change:
            if step > self._compared:
                self._compared, self._digests = step, {}
            for unit, digest in digests.items() if step == self._compared else ():
                other, known = self._digests.setdefault(unit, (worker, digest))
                if known != digest:
                    why = (
                        f"piece {unit} of step {step} is not the same at workers {other} and {worker}. With "
                        f"{self.agreement.parts} parts its copies must have the same bits: something in it is random "
                        "and not seeded by tarry.torch, or their machines compute differently"
                    )
                    break
            else:
                return
        self.end(DifferError(why))

    def end(self, failure: Exception | None = None) -> None:
        """Ends the rounds; of several failures the first is kept."""
        with self.change:
            self.failure = self.failure or failure
            self._ending = True
            self.change.notify_all()
        with contextlib.suppress(StateError):  # it is closed where the training has failed
            self.sums.server.interrupt()

    def leave_out(self, workers: Iterable[int]) -> None:
        """These do not come any more. A round that lacks them is the last one."""
        self._left_out = frozenset(workers)
        lacking = self._lacking
        if not lacking or self._ending:
            return
        with contextlib.suppress(StateError):  # closed meanwhile
            if all(one.present or one.worker in self._left_out for one in self.sums.server.workers()):
                self.end(CoverageError(f"{lacking}, and nobody comes back"))

    def close(self, *, finished: bool) -> None:
        """After `run` has returned."""
        self.sums.close(finished=finished)

    # ---- what is told ----

    def status(self) -> dict[str, Any]:
        workers: list[Any] = []
        with contextlib.suppress(StateError):  # it is closed
            workers = [worker._asdict() for worker in self.sums.server.workers()]
        return {
            "done": self.done,
            "wanted": self.wanted,
            "workers": workers,
            "failure": None if self.failure is None else str(self.failure),
            "privacy": None if self.sums.private is None else self.sums.private.status(),
            "clamped": self.sums.clamped,
        }

    def _say_spent(self) -> None:
        if self.sums.private is not None and self.done > 0:
            self.settings.say(self.sums.private.told())

    def _observe(self, notice: Notice) -> None:
        if notice.kind == "joined" and notice.arrival != "first":
            self.settings.say(f"worker {notice.worker} is back")
        elif notice.kind == "left-out" and notice.absence in ("gone", "silent", "differs"):
            self.settings.say(f"worker {notice.worker} is lost ({notice.absence}); the others go on")
        elif notice.kind in ("refused", "waiting"):
            self._lacking = notice.text if notice.kind == "waiting" else self._lacking
            self.settings.say(f"{notice.kind}: {notice.text}")


def plan_of(workers: int, agreement: Agreement) -> Plan:
    """The same at all who make it. Raises ArgumentError.

    Where sums are secure a piece has two copies: a worker that colludes with the hub knows the pieces that it may be
    given.
    """
    most = _MOST_REPLICATION if not agreement.secure else 2 if workers > 2 else 1
    replication = agreement.replication or min(workers, most)
    if replication > workers:
        raise ArgumentError(f"replication {replication} is more than the {workers} workers")
    return Plan(
        workers, agreement.units, replication=replication, parts=agreement.parts, seed=agreement.seed % (1 << 64)
    )
