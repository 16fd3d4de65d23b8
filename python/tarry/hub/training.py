# SPDX-License-Identifier: Apache-2.0
"""A training as the hub knows it: from an agreement the plan and its rounds, for as long as steps are wanted."""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterable, Set
from typing import Any

from ..errors import ArgumentError, CoverageError, DifferError, FileError, InterruptedByCaller, StateError
from ..notices import Notice
from ..plan import Plan
from . import storage
from .agreement import Agreement
from .among_workers import AmongWorkers
from .at_server import AtServer
from .broken import BrokenPieceError
from .buffers import Buffers
from .data_summary import compare_with_checkpoint
from .leaving import Leaving
from .nonfinite import NonFinite
from .private import check_private
from .secure import check_secure
from .settings import HubSettings
from .sums import Setup, Sums

# By the name that `sum` has in settings.
SUMS: dict[str, type[Sums]] = {"everywhere": AmongWorkers, "server": AtServer}
_MOST_REPLICATION = 8
_LOOK_SECONDS = 0.2  # between two looks who may still come
_KEPT_ORDERS = 16  # epochs or steps, for workers that come late to one


class Orders:
    """Digests of the indices that workers have drawn from samplers, which must be the same. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[int, tuple[int, str]] = {}  # who was first, and what it drew

    def hold(self, worker: int, place: int, what: str, digest: str) -> str:
        """How a worker's indices differ from those of the first that told of these, in words; "": they do not."""
        with self._lock:
            first, known = self._known.setdefault(place, (worker, digest))
            while len(self._known) > _KEPT_ORDERS:
                del self._known[min(self._known)]
        if known == digest:
            return ""
        return (
            f"worker {worker} has drawn other samples for {what} than worker {first}. Their samplers differ, or have a "
            "state that is not the training's seed. sampler=f(seed, step) gives the indices of a step by a function"
        )


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
        self.buffers = Buffers(settings.say)
        self.nonfinite = NonFinite(agreement, settings.say)
        self.orders = Orders()
        self._decided = 0  # steps that are done when the round in progress is, or more
        self._limit: int | None = None  # the number of the last step, whatever workers want
        self._leaving = Leaving()
        self._taking_last: float | None = None  # when waiting for a last state ends; None: none is taken
        self.last_is_taken = False  # or the rounds have ended without it
        self.last_problem = ""  # why it was not taken
        self.notice = ""  # what the first worker should hear of its data
        found = storage.read(agreement.checkpoint) if agreement.checkpoint else None
        if found is not None:
            self._check(found)
            self.notice = compare_with_checkpoint(found.agreement, agreement)
        if agreement.dp:
            check_private(agreement)
        if agreement.secure:
            has_credentials = settings.security.credentials is not None
            check_secure(agreement, settings.workers, settings.listen, has_credentials=has_credentials)
        self._plan = plan = plan_of(settings.workers, agreement)
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
        private = found.agreement.get("dp")
        if private and not self.agreement.dp:
            raise ArgumentError(
                f"{self.agreement.checkpoint} is of a training with dp={private!r}: without it the next steps would "
                "have no noise, and nothing would be private. Give the same dp, or begin a new training"
            )

    @property
    def done(self) -> int:
        """Steps of the model."""
        return self.sums.done

    @property
    def address(self) -> str:
        return self.sums.server.addresses[0]

    @property
    def is_settled(self) -> bool:
        """True if all wanted steps are done and the hub has the state after them, or if the training has failed."""
        with self.change:
            return self.failure is not None or (self.settled == self.done and not self._more_or_end())

    @property
    def ended(self) -> str:
        """Why it has failed, with the step; "": it has not."""
        if self.failure is None:
            return ""
        return f"the training has ended after step {self.done} of {self.wanted}: {self.failure}"

    def want(self, steps: int) -> None:
        """A worker wants so many steps of the model in all."""
        with self.change:
            self.wanted = max(self.wanted, steps)
            self.change.notify_all()

    @property
    def target(self) -> int:
        """Steps that there will be, as far as is known."""
        return self.wanted if self._limit is None else min(self.wanted, self._limit)

    # ---- rounds ----

    def run(self) -> None:
        """Runs rounds until `end`. What ends the training is `failure`."""
        try:
            self.sums.server.open()
            begun = False
            while True:
                with contextlib.suppress(InterruptedByCaller):
                    if not self._await_more():
                        break
                    if not begun:
                        self._await_workers()
                        begun = True
                    elif self._is_allowed():
                        self._run_round()
            self._store_last()
        except InterruptedByCaller:
            pass
        except Exception as error:
            self.end(error)
        with self.change:
            self.last_is_taken = True
            self.change.notify_all()
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
        if due and self._settle():
            self._say_spent()
            with self.change:
                self.settled = self.done
                self.change.notify_all()
        with self.change:
            self.change.wait_for(self._more_or_end)
            return not self._is_ending

    @property
    def _is_ending(self) -> bool:
        return self._ending or self._taking_last is not None

    def _more_or_end(self) -> bool:
        return self._is_ending or self.done < self.target

    def _settle(self) -> bool:
        with self.change:
            is_undone = self._limit is not None and 0 < self._leaving.newest < self.done
        if not is_undone:
            return self.sums.settle(self._more_or_end)
        try:  # all workers left while a step was summed: no worker has the state after it
            if self.agreement.checkpoint:
                self.sums.store_last(time.monotonic())
        except (StateError, FileError) as error:
            self.settings.say(f"no checkpoint after step {self.done}: {error}")
        return True

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
            if self._taking_last is not None:
                return None
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
        self.buffers.forget(self.sums.oldest, self.done)
        self.nonfinite.forget(self.sums.oldest)
        with self.change:
            self.change.notify_all()
        if self.settings.observe is not None:
            self.settings.observe(result, self.done, self.target)
        self.sums.store_if_due()

    # ---- an end before the last step ----

    def stop(self) -> None:
        """The step in progress is the last one, for all workers."""
        with self.change:
            self._end_after(max(self.done, self._decided))

    def _end_after(self, steps: int) -> None:
        self._limit = steps if self._limit is None else min(self._limit, steps)
        self.change.notify_all()

    def leave(self, worker: int, done: int, there: Set[int]) -> bool:
        """This worker has left its loop after so many steps. Waits until it is known what the others do. False: they go
        on without it. True: all have left, and the last state is stored."""
        with self.change:
            self._leaving.leave(worker, done)
        self.look_who_is_left(there)
        with self.change:
            self.change.wait_for(lambda: self._limit is not None or self._ending or self.others_go_on(done))
            limit = self._limit
            if limit is not None:
                self.change.wait_for(lambda: self.settled >= limit or self._ending)
        return limit is not None or self._ending

    def others_go_on(self, after: int) -> bool:
        return self._leaving.others_go_on(after, self.done)

    def follows(self, worker: int, done: int, there: Set[int]) -> bool | None:
        """As `goes_on`, for a worker that has got the state of another one in place of its last step."""
        with self.change:
            waits = self._leaving.may_follow(worker, done, there) and not self.others_go_on(done)
        self.look_who_is_left(there)
        known = self.goes_on(done)
        return None if waits and known else known

    def is_in_step(self, worker: int, done: int) -> None:
        """It is in the step after so many."""
        with self.change:
            self._leaving.go_on(worker, done)
            self.change.notify_all()

    def forget(self, worker: int, there: Set[int]) -> None:
        """It is gone."""
        with self.change:
            self._leaving.forget(worker)
        self.look_who_is_left(there)

    def look_who_is_left(self, there: Set[int]) -> None:
        """Ends the training if all that are there have left their loops."""
        with self.change:
            if self._limit is not None or not self._leaving.is_over(there):
                return
            self._end_after(self.done)
        self._interrupt()

    def take_last_state(self, seconds: float) -> None:
        """No more rounds; the newest state that workers give within so many seconds is stored. `last_is_taken` becomes
        true then. Does not wait."""
        with self.change:
            if self._taking_last is None:
                self._taking_last = time.monotonic() + seconds
            self.change.notify_all()
        self._interrupt()

    @property
    def wants_last(self) -> bool:
        """True while a last state is waited for."""
        return self._taking_last is not None and not self.last_is_taken

    def told_of_last(self) -> str:
        if not self.agreement.checkpoint:
            return ""
        stored, problem = self.sums.stored, ""
        if self.last_problem:
            problem = f"; the state after step {self.done} is not stored: {self.last_problem}"
        if stored is None:
            return f"{problem}; the next run begins with step 0, since {self.agreement.checkpoint} was not written"
        return f"{problem}; the next run continues after step {stored} from {self.agreement.checkpoint}"

    def _store_last(self) -> None:
        while self._taking_last is not None and self.agreement.checkpoint:
            try:
                self.sums.store_last(self._taking_last)
                return
            except InterruptedByCaller:
                if self._ending:
                    return
            except (StateError, FileError) as error:
                self.last_problem = str(error)
                return

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
        if isinstance(failure, BrokenPieceError) and self.failure is None and self.settings.give_up is not None:
            self.settings.give_up()
        with self.change:
            self.failure = self.failure or failure
            self._ending = True
            self.change.notify_all()
        self._interrupt()

    def _interrupt(self) -> None:
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

    @property
    def lasting(self) -> int:
        """Workers that are there, or may still come."""
        return self.settings.workers - len(self._left_out)

    # ---- what is told ----

    def status(self) -> dict[str, Any]:
        workers: list[Any] = []
        with contextlib.suppress(StateError):  # it is closed
            workers = [worker._asdict() for worker in self.sums.server.workers()]
        return {
            "done": self.done,
            "wanted": self.target,
            "workers": workers,
            "failure": None if self.failure is None else str(self.failure),
            "privacy": None if self.sums.private is None else self.sums.private.status(),
            "clamped": self.sums.clamped,
            "saturation": self.sums.saturation,
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
