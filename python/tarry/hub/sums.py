# SPDX-License-Identifier: Apache-2.0
"""Where the sums of a training are made, as the hub has it."""

import abc
import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any

from ..errors import FileError, StateError
from ..notices import Notice
from ..plan import Plan
from ..results import Round, SumId
from ..server import Server
from ..settings import ServerSettings
from . import storage
from .agreement import Agreement
from .blob import Blob
from .private import Private
from .secure import job_text, rules_of
from .settings import HubSettings

_LATE_STEPS = 4  # a worker that is further behind gets a state


@dataclasses.dataclass(frozen=True)
class Setup:
    """What a training is made of.

    found    the checkpoint that it goes on from; None: there is none
    observe  hears what the server notices
    change   is notified when what others wait for is there
    """

    settings: HubSettings
    agreement: Agreement
    plan: Plan
    found: storage.Checkpoint | None
    observe: Callable[[Notice], None]
    change: threading.Condition


class Sums(abc.ABC):
    """The server, its rounds, and the states of the model that workers give and get.

    Rounds, `store_if_due`, `settle` and `close` are for one thread, everything else for any.

    done    steps of the model
    private what stands between the sums and all who use them; None: nothing
    clamped numbers of gradients that were beyond the bound of secure sums
    saturation  their share of all numbers in the step that had the most of them
    """

    server: Server
    done: int
    private: Private | None = None
    clamped: int = 0
    saturation: float = 0.0

    def __init__(self, setup: Setup) -> None:
        self.settings, self.agreement = setup.settings, setup.agreement
        self.plan, self.change = setup.plan, setup.change
        self._observe = setup.observe
        self._stored_at = time.monotonic()
        # Steps of the state in the file; None: none was written.
        self.stored: int | None = None if setup.found is None else setup.found.base + setup.found.after.step

    def _make_server(self, parameters: int, **more: Any) -> Server:
        """Each piece is computed by whoever is soonest, but where sums are to repeat to the bit."""
        wanted: ServerSettings = {"silence": self.settings.silence, **self.agreement.settings}
        if not self.agreement.reproducible:
            wanted["pick"] = "share"
        if self.agreement.is_compressed:
            wanted["compress_seed"] = self.agreement.seed % (1 << 64)
            wanted["compress_exact"] = self.agreement.exact
        if self.agreement.secure:
            more |= {"secure": rules_of(self.agreement), "job": job_text(self.agreement)}
        return Server(
            self.plan,
            self.agreement.dimension,
            parameters=parameters,
            listen=self.settings.listen,
            **self.settings.security.of_server().library(self.settings.listen),
            patience=self.settings.patience,
            observe=self._observe,
            **wanted,
            **more,
        )

    # ---- states ----

    @abc.abstractmethod
    def for_newcomer(self) -> tuple[Blob, SumId | None] | None:
        """A state that a worker may begin with, and the sum that it has stepped on (None: it is the server's first).
        None: there is none yet."""

    @abc.abstractmethod
    def begin_with(self, state: bytes) -> None:
        """The first worker's state, where `for_newcomer` has none."""

    @abc.abstractmethod
    def drop_states(self) -> None:
        """After `close`: states take no memory any more."""

    def renew(self, step: int, ask: Callable[[], bytes]) -> bool:
        """The hub gets the state of a worker that has taken so many steps, by `ask`, if it wants that. False: it does
        not, as where the library sees to states."""
        return False

    def after(self, step: int) -> tuple[str, Blob]:
        """For a worker that has taken so many steps, and has not got the sum of the next one: 'sum' and that, as bytes;
        'newer' and a state that is further, where it is not there any more; or 'none': it was not made yet. Raises
        StateError."""
        raise StateError("workers make the sums themselves")

    @property
    def oldest(self) -> int:
        """The first step whose sum may still be a worker's next one."""
        return max(0, self.done - _LATE_STEPS)

    # ---- rounds ----

    @abc.abstractmethod
    def run_round(self) -> Round:
        """One step more. Raises as Server.round."""

    @abc.abstractmethod
    def settle(self, over: Callable[[], bool]) -> bool:
        """After the last step that is wanted: its state is stored. False: it is not, and `over` says so.

        over    whether that is not wanted any more, as when more steps are; `change` is notified when it may be
        """

    @abc.abstractmethod
    def store_last(self, until: float) -> None:
        """When no round runs any more: stores the newest state that workers give, if it is newer than the stored one.
        Waits for a worker that is about to take its last step. Raises StateError, FileError, InterruptedByCaller."""

    def store_if_due(self) -> None:
        """Between rounds: a checkpoint. One that can't be stored now does not end the training; the last one is still
        there."""
        if not self.agreement.checkpoint or not self._store_is_due():
            return
        try:
            self._store()
        except (StateError, FileError) as error:
            self._stored_at = time.monotonic()
            self.settings.say(f"no checkpoint after step {self.done}: {error}")

    def _store_is_due(self) -> bool:
        return time.monotonic() - self._stored_at >= self.agreement.checkpoint_seconds

    @abc.abstractmethod
    def _store(self) -> None:
        """Raises StateError, FileError."""

    def _write(self, state: Blob, after: SumId, base: int, server: bytes, job_id: bytes) -> None:
        storage.write(
            self.agreement.checkpoint,
            storage.Checkpoint(
                state,
                after,
                base,
                server,
                job_id,
                self.settings.workers,
                self.agreement.kept(),
                None if self.private is None else self.private.mark(),
            ),
        )
        self.stored = base + after.step

    def close(self, *, finished: bool) -> None:
        """After the last round has ended."""
        self.server.close(finished=finished)
        if self.private is not None:
            self.private.close()
