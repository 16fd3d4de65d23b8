# SPDX-License-Identifier: Apache-2.0
"""The hub of a run: in this process, or on another machine."""

import argparse
import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from ..errors import Error, SystemResourceError
from ..hub import Client, Hub, Member, Security
from ..hub import address as addresses
from ..hub.broken import BrokenPieceError
from ..hub.settings import HubSettings, default_listen, listen_beside
from ..results import Round

_LOOK_SECONDS = 0.02
_ASK_SECONDS = 0.5  # between two questions how the training is
_PATIENCE_SECONDS = 300.0  # that the hub of another machine may come later


@dataclasses.dataclass(frozen=True)
class Progress:
    done: int = 0  # steps
    wanted: int = 0
    failure: str | None = None  # that ended the training
    # A worker's number and its traceback, if no worker can compute a piece.
    trace: tuple[int, str] | None = None

    @property
    def complete(self) -> bool:
        return self.failure is None and self.done >= self.wanted > 0


class Coordinator(Protocol):
    """What the launcher of some workers wants of the hub."""

    first: int  # of the workers that are started here,
    workers: int  # and all there are
    address: str  # of the hub, as workers here reach it
    security: Security

    def begin(self) -> None:
        """From now on it may tell how the training is; once."""
        ...

    def leave_out(self, worker: int) -> None:
        """It is not started any more."""
        ...

    def why_over(self) -> str:
        """Why the run is over, whatever workers here do; "": it is not."""
        ...

    def is_used(self) -> bool:
        """Whether others need what runs here."""
        ...

    def has_failed(self) -> bool:
        """Whether the training has ended so that no worker can go on with it."""
        ...

    def progress_if_broken(self) -> "Progress | None":
        """If no worker can compute a piece, and the hub is in this process."""
        ...

    def progress(self) -> Progress: ...

    def chief(self) -> int | None:
        """The worker that is the chief; None: this launcher does not know."""
        ...

    def take_last_state(self, seconds: float, waits: Callable[[], None]) -> str:
        """Ends the steps, and stores the newest state that workers give within so many seconds; `waits` is called now
        and then before that is done. Says where the next run continues; "": this launcher does not know."""
        ...

    def close(self, why: str = "") -> None:
        """`why`: before the training's end."""
        ...


def security_of(wanted: argparse.Namespace) -> Security:
    return Security(wanted.credentials, wanted.insecure, wanted.force)


class OwnHub:
    """In this process; workers of other machines may come where --listen says so."""

    first = 0

    def __init__(
        self,
        wanted: argparse.Namespace,
        observe: Callable[[Round, int, int], None],
        tell: Callable[[str], None],
        give_up: Callable[[], None],
    ) -> None:
        """Raises Error."""
        here, self.workers = wanted.here, wanted.workers
        listen = wanted.listen or default_listen()
        self.security = security_of(wanted)
        for worker in range(here if wanted.listen else 0):  # what they lack is told before anything is started
            self.security.of_worker(worker)
        self._hub = Hub(
            listen,
            HubSettings(
                self.workers,
                listen_beside(listen),
                security=self.security,
                here=here,
                start=wanted.start,
                patience=wanted.patience,
                silence=wanted.silence,
                observe=observe,
                tell=tell,
                give_up=give_up,
            ),
        )
        self.address = self._hub.address
        self._is_open = wanted.listen is not None
        if self._is_open:
            host, port = addresses.split(self.address)
            try:
                self.address = addresses.joined(addresses.seen_from_outside(wanted.advertise or host), port)
            except Error:
                self._hub.close(finished=False)
                raise
            tell(f"the hub is at {self.address}; on other machines: tarry run -n N --connect {self.address} ..")

    def begin(self) -> None: ...

    def leave_out(self, worker: int) -> None:
        self._hub.leave_out(worker)

    def why_over(self) -> str:
        return ""

    def is_used(self) -> bool:
        return self._is_open and self._hub.is_used

    def has_failed(self) -> bool:
        training = self._hub.training
        return training is not None and training.failure is not None

    def progress_if_broken(self) -> Progress | None:
        progress = self.progress()
        return None if progress.trace is None else progress

    def progress(self) -> Progress:
        training = self._hub.training
        if training is None:
            return Progress()
        failure = training.failure
        trace = None
        if isinstance(failure, BrokenPieceError):
            trace = failure.first.worker, failure.first.traceback
        return Progress(training.done, training.target, None if failure is None else str(failure), trace)

    def chief(self) -> int | None:
        return self._hub.chief

    def take_last_state(self, seconds: float, waits: Callable[[], None]) -> str:
        training = self._hub.training
        if training is not None and training.agreement.checkpoint:
            self._hub.take_last_state(seconds)
            while not self._hub.last_is_taken:
                waits()
                time.sleep(_LOOK_SECONDS)
        return self._hub.told_of_last

    def close(self, why: str = "") -> None:
        if why:
            self._hub.close(finished=False, why=why)
        else:
            self._hub.close()


class OtherHub:
    """On another machine: a thread asks it how the training is, and so knows whether it is there."""

    def __init__(
        self, wanted: argparse.Namespace, observe: Callable[[Progress], None], tell: Callable[[str], None]
    ) -> None:
        """Connects. Raises Error."""
        self.address: str = wanted.connect
        self.security = security_of(wanted)
        self._observe = observe
        member: Member = self.security.of_workers(wanted.first)
        self._client = Client(self.address, member, patience=_PATIENCE_SECONDS, tell=tell)
        try:
            self.first, self.workers = self._client.attend(wanted.first, wanted.here)
            for worker in range(self.first, self.first + wanted.here):
                self.security.of_worker(worker)
        except BaseException:
            self._client.close()
            raise
        self._lock = threading.Condition()
        self._leaving: set[int] = set()
        self._known = Progress()
        self._asked, self._answered = 0, 0  # questions
        self._over = ""
        self._closing = False
        self._thread = threading.Thread(target=self._talk, name="tarry-run-hub", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def leave_out(self, worker: int) -> None:
        with self._lock:
            self._leaving.add(worker)

    def why_over(self) -> str:
        return self._over

    def is_used(self) -> bool:
        return False

    def has_failed(self) -> bool:
        return self.progress().failure is not None

    def progress_if_broken(self) -> Progress | None:
        return None

    def progress(self) -> Progress:
        """As it is now, or was when the hub was last there."""
        with self._lock:
            asked = self._asked
            self._lock.notify_all()
            self._lock.wait_for(lambda: self._answered > asked or self._over != "", timeout=addresses.GONE_SECONDS)
            return self._known

    def chief(self) -> int | None:
        return None

    def take_last_state(self, seconds: float, waits: Callable[[], None]) -> str:
        return ""  # the others go on

    def close(self, why: str = "") -> None:
        with self._lock:
            self._closing = True
            self._lock.notify_all()
        if self._thread.ident is not None:
            self._thread.join(timeout=2 * addresses.GONE_SECONDS)
        self._client.close()

    def _talk(self) -> None:
        told: set[int] = set()
        try:
            while True:
                with self._lock:
                    closing, leaving = self._closing, self._leaving - told
                    self._asked += 1
                for worker in sorted(leaving):
                    self._client.leave_out(worker)
                told |= leaving
                if closing:
                    return
                self._hear(self._client.status())
                with self._lock:
                    if self._over:
                        return
                    self._lock.wait(_ASK_SECONDS)
        except SystemResourceError:
            self._end(f"the hub at {self.address} is gone: its process has ended, or its machine is not reached")
        except Exception as error:  # of this side, or of a hub that says something else: it has to end the run, too
            self._end(f"the conversation with the hub at {self.address} broke off: {error!r}")

    def _end(self, why: str) -> None:
        with self._lock:
            self._over = why
            self._lock.notify_all()

    def _hear(self, status: Any) -> None:
        with self._lock:
            self._known = Progress(status["done"], status["wanted"], status["failure"])
            self._answered = self._asked
            if status["over"] is not None:
                self._over = f"the hub at {self.address} has ended: {status['over']}"
            self._lock.notify_all()
        self._observe(self._known)
