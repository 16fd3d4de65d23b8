# SPDX-License-Identifier: Apache-2.0
"""A worker's side of the hub."""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ..control import Control
from ..errors import Error, FormatError, StateError, SystemResourceError
from ..results import SumId
from . import address as addresses
from .agreement import Agreement
from .blob import Blob
from .evaluation import Key
from .trust import ON_THIS_MACHINE, Member
from .wire import Closed, Message, Wire


@dataclasses.dataclass(frozen=True)
class Welcome:
    """What a worker begins with."""

    server: str  # its address
    worker: int
    workers: int
    last: SumId | None  # that `state` has stepped on; None: it is the first of this server
    state: bytes | None  # to load; None: the worker's own is the first
    over: bool = False  # all of its steps are done, and no server is there any more
    # With dp: keys by piece.
    draws: Mapping[int, bytes] = dataclasses.field(default_factory=dict[int, bytes], repr=False)
    notice: str = ""  # of its data; "": none


class Which(Protocol):
    """Which training of the worker's script it is."""

    number: int
    place: str  # the line of the script that joins
    again: bool  # the worker may have left this training before its end
    nested: bool  # it takes part in another one at the same time


NOBODY = Member(ON_THIS_MACHINE, None)


class Refused(StateError):
    """The hub does not take this worker; the text says why.

    ended  whether the training has failed, so that no worker can join it any more
    other  whether the others train something else
    """

    ended: bool = False
    other: bool = False


class Client:
    """A connection to the hub. One thread at a time."""

    def __init__(
        self,
        address: str,
        member: Member = NOBODY,
        *,
        patience: float = 60.0,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        """Tries to connect for `patience` seconds; over TCP as the member. Where that takes long, `tell` hears so.

        Raises SystemResourceError; Refused, ArgumentError, FileError and FormatError for credentials.
        """
        self._address = address
        self.training_failed = False  # as the hub has said
        self._control = Control(connect=address, patience=patience, **member.library(address))
        try:
            self._wire = _connect(self._control, address, tell)
        except BaseException:
            self._control.close()
            raise

    def join(
        self,
        worker: int | None,
        agreement: Agreement,
        first_state: Callable[[], bytes],
        *,
        kind: str = "",
        which: Which | None = None,
    ) -> Welcome:
        """Agrees on the training; `first_state` is asked for where this worker is the first. `kind` says in words what
        decides the bits that this worker computes. `which` is None for the first training of the script. Raises
        Refused."""
        told: Message = {"training": 0, "place": "", "again": False, "nested": False}
        if which is not None:
            told = {"training": which.number, "place": which.place, "again": which.again, "nested": which.nested}
        self._send({"type": "join", "worker": worker, "agreement": agreement.message(), "kind": kind} | told)
        message, state = self._answer("state", "welcome")
        own = message["type"] == "state"
        if own:
            self._send({"type": "state"}, first_state())
            message, state = self._answer("welcome")
        last = SumId(**message["last"]) if message["last"] is not None else None
        over = message["over"] is True
        server = "" if over else _reached(message["server"], self._address)
        draws = {int(piece): bytes.fromhex(key) for piece, key in message["draws"].items()}
        begins_with = None if own else state
        return Welcome(server, message["worker"], message["workers"], last, begins_with, over, draws, message["notice"])

    def attend(self, first: int | None, count: int) -> tuple[int, int]:
        """Looks after so many workers, from `first` on (None: the hub chooses). Gives the first one, and how many there
        are on all machines. Raises Refused."""
        self._send({"type": "attend", "first": first, "count": count})
        message, _ = self._answer("attended")
        return message["first"], message["workers"]

    def leave_out(self, worker: int) -> None:
        """Of those that this side attends: it does not come any more."""
        self._send({"type": "leave-out", "worker": worker})

    def steps(self, steps: int) -> None:
        """This worker wants so many steps of the model in all."""
        self._send({"type": "steps", "steps": steps})

    def compare(self, worker: int, step: int, digests: dict[int, str]) -> None:
        """Digests of pieces that this worker computed, to be held to those of others. Raises Error if one differs."""
        self._send({"type": "digests", "worker": worker, "step": step, "digests": digests})
        self._answer("compared")

    def tell_failed(self, piece: str, step: str, **told: str) -> None:
        """This worker failed in a piece, which all workers name alike, of this step. `told` has the other fields of a
        FailedPiece."""
        self._send({"type": "piece-failed", "piece": piece, "step": step} | told)
        self._answer("noted")

    def tell_buffers(self, step: int, names: list[str], values: Callable[[], bytes]) -> None:
        """A piece of this step has changed these buffers: the hub has them afterwards, from this worker or another."""
        self._send({"type": "buffers", "step": step, "names": names})
        self._answer_after_state(values, "enough")

    def buffers_of(self, step: int) -> bytes | None:
        """What a worker told of this step. None: the hub does not have it, or not any more."""
        self._send({"type": "buffers-of", "step": step})
        message, values = self._answer("buffers")
        return values if message["known"] else None

    def tell_nonfinite(self, step: int, unit: int, what: str) -> None:
        """The gradient of this piece is not finite, which `what` says in words: the hub knows it afterwards."""
        self._send({"type": "nonfinite", "step": step, "unit": unit, "what": what})
        self._answer("enough")

    def ask_nonfinite(self, step: int, *, marked: bool) -> None:
        """The sum of this step has such a piece (`marked`), or is not finite itself. The step is skipped. Raises Error
        if the training ends instead."""
        self._send({"type": "nonfinite-sum", "step": step, "marked": marked})
        try:
            self._answer("skip")
        except Error as error:
            self.training_failed = not isinstance(error, SystemResourceError)
            raise

    def fail(self, why: str) -> None:
        """This worker's piece fails, as it would at any other one: the training ends for all."""
        self.training_failed = True
        self._send({"type": "fail", "why": why})

    def tell_digest(self, step: int, of: str, bits: str, *, inherited: bool) -> None:
        """Of the state after so many steps, and of the last sum that it has stepped on. `inherited`: this worker has
        loaded another one's state since the last verdict. Does not wait."""
        self._send({"type": "state-digest", "step": step, "of": of, "bits": bits, "inherited": inherited})

    def ask_verdict(self, step: int, done: int, state: Callable[[], bytes]) -> tuple[str, bytes]:
        """What came of the digest after `step`: 'same', 'unknown' (ask again after the next step), or 'take' and the
        state that this worker has to have after the steps that it has `done`. The hub may ask for its own after as
        many. Raises Error: this worker is refused."""
        self._send({"type": "state-verdict", "step": step, "done": done})
        message, payload = self._answer_after_state(state, "verdict")
        return message["verdict"], payload

    def hold_order(self, worker: int, place: int, what: str, digest: str) -> None:
        """The digest of indices that this worker has drawn, for an epoch or a step that `what` names. Raises Error if
        another worker has drawn others."""
        self._send({"type": "order", "worker": worker, "place": place, "what": what, "digest": digest})
        self._answer("held")

    def after(self, step: int, state: Callable[[], bytes] | None = None) -> tuple[str, int, bytes]:
        """Where the server makes the sums: 'sum' and that of the next step after so many; 'newer' and a state that is
        further, where it is not there any more; or 'none': it was not made yet. Between them, how many steps there are.
        The hub may ask for the state after so many, if there is one."""
        self._send({"type": "after", "step": step, "gives": state is not None})
        message, payload = self._answer_after_state(state or bytes, "sum", "newer", "none")
        return message["type"], message["done"], payload

    def goes_on(self, step: int, state: Callable[[], bytes] | None = None, *, follows: bool = False) -> bool | None:
        """Whether there is a step after so many; None: that is not known yet. The hub may ask for the state after so
        many, if there is one.

        follows  this worker has got another one's state in place of its last step: it ends if all others have left
        """
        self._send({"type": "goes-on", "step": step, "gives": state is not None, "follows": follows})
        return self._answer_after_state(state or bytes, "goes-on")[0]["more"]

    def in_step(self, step: int) -> None:
        """This worker is in the step after so many, and waits for others. Does not wait itself."""
        self._send({"type": "in-step", "step": step})

    def chief(self) -> int:
        """The worker that is the chief now."""
        self._send({"type": "chief"})
        return self._answer("chief")[0]["chief"]

    def stop(self) -> None:
        """The step in progress is the last one, for all workers."""
        self._send({"type": "stop"})
        self._answer("stopped")

    def leave(self, step: int, state: Callable[[], bytes], told: Callable[[], object]) -> None:
        """This worker has left its loop after so many steps: waits until all others have left and a checkpoint is
        stored, or until they go on without it. `told` is called once that is on its way to the hub. The hub may ask for
        the state after so many."""
        self._send({"type": "leave", "step": step})
        told()
        self._answer_after_state(state, "left")

    def give(self, step: int, state: Callable[[], bytes]) -> None:
        """The state after so many steps, as the hub asked for, if it still wants that."""
        self._send({"type": "give", "step": step})
        message, _ = self._answer("state", "enough")
        if message["type"] == "state":
            self._send({"type": "state"}, state())

    def finish(self, steps: int, state: Callable[[], bytes]) -> None:
        """This worker is through with its steps, so many: waits until all that are there are, and a checkpoint is
        stored. The hub may ask for the state after them."""
        self._send({"type": "finish", "steps": steps})
        self._answer_after_state(state, "finished")

    def evaluate(
        self, key: Key, samples: int, pieces: int, told: tuple[int, dict[str, float]] | None
    ) -> tuple[int | None, dict[str, float]]:
        """A piece of an evaluation to be done, after that which was; None: the sums over all are there."""
        size = {"samples": samples, "pieces": pieces, "told": told}
        self._send({"type": "evaluate", "key": key, **size})
        message, _ = self._answer("evaluate")
        return message["piece"], message["sums"]

    def look_up(self, key: Key) -> dict[str, float]:
        """The sums of an evaluation; none, where they are not there."""
        self._send({"type": "evaluate", "key": key})
        return self._answer("evaluate")[0]["sums"]

    def status(self) -> Message:
        """What the hub knows of the training."""
        self._send({"type": "status"})
        return self._answer("status")[0]

    def why_over(self) -> Exception:
        """Why the run ended before its steps were done."""
        try:
            self.finish(-1, bytes)
        except Exception as error:
            self.training_failed = isinstance(error, Error) and not isinstance(error, SystemResourceError)
            return error
        return StateError("the run is over before its steps were done")

    def is_open(self) -> bool:
        """Whether the hub is there, as far as this machine knows."""
        return self._wire.is_open()

    def close(self) -> None:
        with contextlib.suppress(Closed):
            self._wire.send({"type": "bye"})
        self._control.close()

    def _send(self, message: Message, payload: Blob = b"") -> None:
        try:
            self._wire.send(message, payload)
        except Closed:
            raise _gone() from None

    def _answer_after_state(self, state: Callable[[], bytes], *wanted: str) -> tuple[Message, bytes]:
        """The answer, before which the hub may ask for this worker's state."""
        message, payload = self._answer("state", *wanted)
        if message["type"] != "state":
            return message, payload
        self._send({"type": "state"}, state())
        return self._answer(*wanted)

    def _answer(self, *wanted: str) -> tuple[Message, bytes]:
        try:
            message, payload = self._wire.receive()
        except Closed:
            raise _gone() from None
        except FormatError as error:
            raise SystemResourceError(f"{self._address} is no hub of this version: {error}") from None
        kind: Any = message.get("type")
        if kind == "refused":
            refused = Refused(message["why"])
            refused.ended, refused.other = message.get("ended") is True, message.get("other") is True
            raise refused
        if kind == "failed":
            raise Error(message["why"])
        if kind not in wanted:
            raise StateError(f"the hub says {kind!r} where {' or '.join(wanted)} is due")
        return message, payload


def _gone() -> Exception:
    return SystemResourceError("the hub is gone, and with it the training's coordinator")


def _connect(control: Control, address: str, tell: Callable[[str], None] | None) -> Wire:
    try:
        while isinstance(found := control.accept(), str):
            if tell is not None:
                tell(f"no hub at {address} yet: {found.removeprefix(f'{address}: ')}")
        return Wire(found)
    except Closed as closed:
        raise SystemResourceError(f"no hub at {address}: {str(closed).removeprefix(f'{address}: ')}") from None
    except StateError as error:
        why = str(error).removeprefix(f"{address}: ")
        raise Refused(f"the hub at {address} does not take this credential: {why}") from None


def _reached(server: str, hub: str) -> str:
    """The server is on the hub's machine: it is reached by the name that the hub was."""
    if addresses.is_unix(server):
        return server
    return addresses.joined(addresses.split(hub)[0], addresses.split(server)[1])
