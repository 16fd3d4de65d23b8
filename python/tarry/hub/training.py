# SPDX-License-Identifier: Apache-2.0
"""A training as the hub knows it: the plan and the server that it makes of an agreement, its rounds and checkpoints."""

import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from ..errors import ArgumentError, CoverageError, DifferError, Error, FileError, InterruptedByCaller, StateError
from ..notices import Notice
from ..plan import Plan
from ..results import Round, SumId
from ..server import Server
from ..settings import ServerSettings
from . import storage
from .agreement import Agreement

# How long the last of those that are there may take to step on the last sum, once the others have.
_LAST_SECONDS = 60.0
_MOST_REPLICATION = 8
_LOOK_SECONDS = 0.2  # between two looks who may still come


@dataclasses.dataclass(frozen=True)
class HubSettings:
    """How a hub serves a training.

    workers      how many there are, or may come
    listen       where its server listens
    credentials  a folder of `tarry keys`; None: plain text, on this machine alone
    start        seconds that the first round waits for all workers
    patience     seconds that a round waits where too few workers are left
    silence      seconds without an answer after which a worker counts as lost
    observe      called after each round
    tell         called with a line of text on what happened
    """

    workers: int
    listen: str
    credentials: str | None = None
    start: float = 60.0
    patience: float = 300.0
    silence: float = 2.0
    observe: Callable[[Round, int, int], None] | None = None
    tell: Callable[[str], None] | None = None


class Training:
    """From the first agreement on. Threads: `run` is for one; everything else for any."""

    def __init__(self, settings: HubSettings, agreement: Agreement) -> None:
        """Raises ArgumentError, FormatError, FileError, SystemResourceError."""
        self.settings = settings
        self.agreement = agreement
        self.base = 0
        self.last: SumId | None = None
        self.first_state: bytes | None = None  # of the model, where it is not the workers' own
        self.done = 0  # steps of the model
        self.wanted = 0
        self.failure: Exception | None = None
        self.settled = -1  # steps after which all that are there have the same state, and a checkpoint of it
        self.change = threading.Condition()
        self._ending = False
        self._left_out: frozenset[int] = frozenset()
        self._lacking = ""  # what the round in progress waits for; "": it does not wait for workers
        self._compared = -1  # the step whose digests these are, by piece: of which worker, and what
        self._digests: dict[str, tuple[int, str]] = {}
        self._log: storage.SumLog | None = None
        self._stored_at = time.monotonic()
        found = storage.read(agreement.checkpoint) if agreement.checkpoint else None
        if found is not None:
            self._check(found)
        self._plan = _plan_of(settings.workers, agreement)
        if agreement.checkpoint:
            self._log = storage.SumLog(agreement.checkpoint + ".log")
        same = found if found is not None and self._fits(found) else None
        self.server = self._make_server(same)
        if found is not None:
            self._go_on(found, same_server=same is not None)
        self.begun_at = self.done

    # ---- making ----

    def _check(self, found: storage.Checkpoint) -> None:
        """A checkpoint of another model can't be gone on from."""
        for name, ours in (("model", self.agreement.model), ("dimension", self.agreement.dimension)):
            theirs = found.agreement.get(name)
            if theirs != ours:
                detail = dataclasses.replace(self.agreement, model=str(theirs)).difference(self.agreement)
                raise ArgumentError(f"{self.agreement.checkpoint} is of {detail or 'another model'}")

    def _fits(self, found: storage.Checkpoint) -> bool:
        """Whether the server goes on, rather than a new one from the same state: its plan is the same, and the log has
        the sum that the state has stepped on."""
        same = found.agreement.get("units") == self.agreement.units
        same = same and found.workers == self.settings.workers
        same = same and found.agreement.get("parts") == self.agreement.parts
        known = found.after.step == 0 or (self._log is not None and found.after in self._log.entries)
        if same and not known:
            self._tell(f"{self.agreement.checkpoint}.log is not that of the checkpoint: it is begun anew")
        return same and known

    def _make_server(self, found: storage.Checkpoint | None) -> Server:
        """That of the checkpoint, or a new one."""
        last, term = None, 0
        if self._log is not None:
            term = self._log.term
            if found is not None:
                last = self._log.last
            elif self._log.entries:
                self._log.begin_anew()
        wanted: ServerSettings = {
            "sum": "everywhere",
            "silence": self.settings.silence,
            "reproducible": self.agreement.reproducible,
        }
        if not self.agreement.reproducible:
            wanted["pick"] = "share"
            if self.agreement.parts == 1:
                wanted["keep"] = "credited"
        return Server(
            self._plan,
            self.agreement.dimension,
            parameters=1,
            listen=self.settings.listen,
            credentials=self.settings.credentials,
            insecure=self.settings.credentials is None,
            checkpoint=found.server if found is not None else None,
            job_id=found.job_id if found is not None else None,
            log=self._log.append if self._log is not None else None,
            last=last,
            term=term,
            patience=self.settings.patience,
            observe=self._observe,
            **wanted,
        )

    def _go_on(self, found: storage.Checkpoint, *, same_server: bool) -> None:
        """From a checkpoint, of this server or of one with another plan."""
        self.first_state = found.state
        if same_server:
            self.base, self.last = found.base, found.after if found.after.step else None
            self.done = self.base + found.after.step
        else:
            self.base = self.done = found.base + found.after.step
        checkpoint = self.server.checkpoint()
        self._write(found.state, self.last or SumId(0, 0, 0, 0), checkpoint)
        if self.last is not None:
            self.server.offer(self.last, found.state)
        self._tell(f"resumed after step {self.done} from {self.agreement.checkpoint}")

    # ---- rounds ----

    @property
    def address(self) -> str:
        return self.server.addresses[0]

    def state_for_newcomers(self) -> tuple[bytes | None, SumId | None]:
        """With the sum that it has stepped on; None: it is the server's first."""
        with self.change:
            return self.first_state, self.last

    def want(self, steps: int) -> None:
        """A worker wants so many steps of the model in all."""
        with self.change:
            self.wanted = max(self.wanted, steps)
            self.change.notify_all()

    def run(self) -> None:
        """Runs rounds until `end`. What ends the training is `failure`."""
        try:
            self.server.open()
            if self._await_more():
                self._await_workers()
            while self._await_more():
                self._run_round()
        except InterruptedByCaller:
            pass
        except Exception as error:
            self.end(error)
        if self.failure is not None:
            self.server.close()  # workers hear that it is over, and ask why

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
            self.server.interrupt()

    def leave_out(self, workers: Iterable[int]) -> None:
        """These do not come any more. A round that lacks them is the last one."""
        self._left_out = frozenset(workers)
        lacking = self._lacking
        if not lacking or self._ending:
            return
        with contextlib.suppress(StateError):  # closed meanwhile
            if all(one.present or one.worker in self._left_out for one in self.server.workers()):
                self.end(CoverageError(f"{lacking}, and nobody comes back"))

    def close(self, *, finished: bool) -> None:
        """After `run` has returned."""
        self.server.close(finished=finished)
        if self._log is not None:
            self._log.close()

    def _await_workers(self) -> None:
        """All that may still come, for so long."""
        begun = time.monotonic()
        while (left := begun + self.settings.start - time.monotonic()) > 0:
            coming = self.settings.workers - len(self._left_out)
            with contextlib.suppress(StateError):
                self.server.wait(coming, timeout=min(left, _LOOK_SECONDS))
                if coming == self.settings.workers:
                    return
                break
        there = sum(worker.present for worker in self.server.workers())
        self._tell(
            f"{there} of {self.settings.workers} workers are there after {time.monotonic() - begun:.0f} s: they begin"
        )

    def _await_more(self) -> bool:
        """Waits until a step is wanted. False: none is any more."""
        with self.change:
            due = self.done >= self.wanted
        if due:
            self._settle()
        with self.change:
            while not self._ending and self.done >= self.wanted:
                self.change.wait()
            return not self._ending

    def _run_round(self) -> None:
        self._lacking = ""
        result = self.server.round()
        self._lacking = ""
        with self.change:
            self.done = self.base + result.sum_id.step
            self.change.notify_all()
        if self.settings.observe is not None:
            self.settings.observe(result, self.done, self.wanted)
        if self.agreement.checkpoint and time.monotonic() - self._stored_at >= self.agreement.checkpoint_seconds:
            self._store_meanwhile()

    def _settle(self) -> None:
        """All that are there step on the last sum, and their state is stored."""
        if self.done > self.begun_at:
            there = sum(worker.present for worker in self.server.workers())
            try:
                self.server.wait(max(1, there), timeout=_LAST_SECONDS)
            except Error as error:
                if isinstance(error, InterruptedByCaller):
                    raise
                self._tell(f"not all of {there} workers have the last step after {_LAST_SECONDS:g} s")
            after, state = self._store()
            with self.change:  # who comes now finds nobody else
                self.first_state, self.last = state, after
        with self.change:
            self.settled = self.done
            self.change.notify_all()

    # ---- checkpoints ----

    def _store_meanwhile(self) -> None:
        """A checkpoint that can't be stored now does not end the training; the last one is still there."""
        try:
            self._store()
        except (StateError, FileError) as error:
            self._stored_at = time.monotonic()
            self._tell(f"no checkpoint after step {self.done}: {error}")

    def _store(self) -> tuple[SumId, bytes]:
        """The last state is with the hub, where workers may get it, and in the checkpoint, if there is one."""
        after, state = self.server.state(timeout=_LAST_SECONDS)
        if self.agreement.checkpoint:
            self._write(state, after, self.server.checkpoint())
        self.server.offer(after, state)
        self._stored_at = time.monotonic()
        return after, state

    def _write(self, state: bytes, after: SumId, checkpoint: bytes) -> None:
        storage.write(
            self.agreement.checkpoint,
            storage.Checkpoint(
                state, after, self.base, checkpoint, self.server.job_id, self.settings.workers, self.agreement.message()
            ),
        )
        self.server.stored(checkpoint)

    # ---- what is told ----

    def status(self) -> dict[str, Any]:
        return {
            "done": self.done,
            "wanted": self.wanted,
            "workers": [worker._asdict() for worker in self.server.workers()],
        }

    def _observe(self, notice: Notice) -> None:
        if notice.kind == "joined" and notice.arrival != "first":
            self._tell(f"worker {notice.worker} is back")
        elif notice.kind == "left-out" and notice.absence in ("gone", "silent", "differs"):
            self._tell(f"worker {notice.worker} is lost ({notice.absence}); the others go on")
        elif notice.kind in ("refused", "waiting"):
            self._lacking = notice.text if notice.kind == "waiting" else self._lacking
            self._tell(f"{notice.kind}: {notice.text}")

    def _tell(self, text: str) -> None:
        if self.settings.tell is not None:
            self.settings.tell(text)


def _plan_of(workers: int, agreement: Agreement) -> Plan:
    replication = agreement.replication or min(workers, _MOST_REPLICATION)
    if replication > workers:
        raise ArgumentError(f"replication {replication} is more than the {workers} workers")
    return Plan(
        workers, agreement.units, replication=replication, parts=agreement.parts, seed=agreement.seed % (1 << 64)
    )


def default_listen() -> str:
    """A name on this machine that nobody else has."""
    return f"unix:@tarry-{os.getpid()}-{os.urandom(6).hex()}"
