# SPDX-License-Identifier: Apache-2.0
"""Whether all workers have the same bits after a step, and what becomes of one that does not.

Workers tell digests of their state after some steps, and ask later what came of it. Most are right. In a tie, the side
of the chief (worker 0) is. A worker that differs gets the state of one that is right, after the same step. If it
differs once more, it is refused, unless the difference may have come with a state that it got from another worker.
"""

import collections
import threading
from collections.abc import Callable, Mapping, Set
from typing import Any, NamedTuple

from ..errors import Error

_FIRST = (1, 2, 4, 8, 16)  # steps after which workers tell digests
_EACH = 32  # and then. A digest of 1e8 parameters takes 0.1 to 0.2 s, and so some milliseconds of each step
_STEPS_KEPT = 4
_MOST_DIGITS, _MOST_KIND = 64, 400  # letters
_WAIT_SECONDS = 10.0  # of a worker that differs, for the state of another
CHIEF = 0
_ADVICE = (
    "Train on machines of one kind, with the same PyTorch and as many threads. With ATEN_CPU_CAPABILITY=default for "
    "all workers, different processors often compute alike"
)


def is_due(done: int) -> bool:
    """True if workers compare what they have after so many steps."""
    return done in _FIRST or (done > 0 and done % _EACH == 0)


class Digest(NamedTuple):
    """What a worker has after a step.

    of    names the sum that it has stepped on: workers may go back, and make a step again
    bits  of its state
    """

    of: str
    bits: str


class Drift:
    """Any thread."""

    def __init__(
        self,
        say: Callable[[str], None],
        kind_of: Callable[[int], str],
        there: Callable[[], Set[int]],
        wait_seconds: float = _WAIT_SECONDS,
    ) -> None:
        """
        kind_of  of a worker: what decides its bits, in words
        there    the workers that are connected
        """
        self._say, self._kind_of, self._there, self._wait_seconds = say, kind_of, there, wait_seconds
        self._change = threading.Condition()
        self._told: dict[int, dict[int, Digest]] = {}  # by step and worker
        self._right: dict[int, Digest] = {}  # of the steps that are decided
        self._since: dict[int, int] = {}  # steps that there were when a worker joined
        self._place: dict[int, int] = {}  # the step after which a worker was heard of last
        self._inherited: set[tuple[int, int]] = set()  # step and worker, of `told`: perhaps another worker's bits
        self._differing: dict[int, int] = {}  # since which step; the others' state is still to come
        self._gave_up: set[int] = set()  # workers of these that have waited for a state, and none came
        self._blamed: dict[int, int] = {}  # after which step a worker differed by itself
        self._renewed: dict[int, int] = {}  # after which step it got the others' state
        self._refused: dict[int, tuple[str, str]] = {}  # its kind, and why
        self._state: tuple[int, bytes] | None = None  # of a worker that is right, after so many steps
        self._giver: int | None = None  # who was asked for one
        self._over = False

    # ---- who is there ----

    def join(self, worker: int, done: int, kind: str) -> None:
        """A process takes part as this worker; its state is that of others. Raises Error."""
        with self._change:
            known, why = self._refused.get(worker, ("", ""))
            if why and kind == known:
                raise Error(why)
            self._leave(worker)
            if why:
                del self._refused[worker], self._blamed[worker]
            self._since[worker] = done

    def leave(self, worker: int) -> None:
        with self._change:
            self._leave(worker)
            self._since.pop(worker, None)

    def _leave(self, worker: int) -> None:
        self._place.pop(worker, None)
        if self._giver == worker:
            self._giver = None
        since = self._differing.pop(worker, None)
        self._gave_up.discard(worker)
        if since is not None:
            self._renewed[worker] = since  # if it comes back, it begins with the others' state
            self._forget_state()
        self._change.notify_all()

    def end(self) -> None:
        """Nobody waits any longer."""
        with self._change:
            self._over = True
            self._change.notify_all()

    # ---- what workers say ----

    def tell(self, worker: int, step: int, digest: Digest, *, inherited: bool = False) -> None:
        """A worker has this after so many steps.

        inherited  it has loaded another worker's state since it was found to be right
        """
        with self._change:
            self._place[worker] = max(step, self._place.get(worker, 0))
            if worker in self._differing or worker in self._refused:
                return
            told = self._told.setdefault(step, {})
            if any(one.of != digest.of for one in told.values()):
                told.clear()  # of a step that is made again
                self._right.pop(step, None)
            told[worker] = digest
            self._inherited.discard((step, worker))
            if inherited:
                self._inherited.add((step, worker))
            right = self._right.get(step)
            if right is not None and right != digest:
                self._judge(worker, step)
            for old in sorted(self._told)[:-_STEPS_KEPT]:
                del self._told[old]
                self._right.pop(old, None)
                self._inherited = {one for one in self._inherited if one[0] != old}
            self._change.notify_all()

    def ask(self, worker: int, step: int, done: int) -> tuple[str, bytes]:
        """What has come of what this worker told after `step`; it has done so many by now.

        'same', or 'unknown': it is to ask again after its next step. 'give': its own state after the steps that it has
        done is wanted (`give`). 'take': its state has to be this one, which is of another worker after as many steps.
        Raises Error: the worker is refused.
        """
        with self._change:
            self._place[worker] = done
            self._decide(step)
            if worker in self._refused:
                raise Error(self._refused[worker][1])
            if worker in self._differing:
                return self._correct(worker, done)
            told = self._told.get(step, {})
            # If no other worker is left that may tell a digest, this one is as right as can be.
            is_right = (
                worker in told and self._right.get(step, told[worker] if len(told) == 1 else None) == told[worker]
            )
            if is_right and self._wants_state(done):
                self._giver = worker
                return "give", b""
            return ("same" if step in self._right and not self._differing else "unknown"), b""

    def give(self, done: int, state: bytes) -> None:
        """The state of a worker that is right, after so many steps."""
        with self._change:
            self._giver = None
            if self._differing:
                self._state = done, state
            self._change.notify_all()

    # ---- judging ----

    def _decide(self, step: int) -> None:
        """Once all have told of it that will, or somebody has told of a later step."""
        told = self._told.get(step, {})
        if step in self._right or len(told) < 2:
            return
        awaited = self._there() - told.keys() - self._differing.keys() - self._refused.keys()
        late = any(self._since.get(one, step) < step and self._place.get(one, 0) <= step for one in awaited)
        if late and max(self._told) == step:
            return
        counts = collections.Counter(told.values())
        most = max(counts.values())
        first = [digest for digest, count in counts.items() if count == most]
        chief = told.get(CHIEF)
        if chief is None or chief not in first:
            chief = next(told[one] for one in sorted(told) if told[one] in first)
        self._right[step] = chief
        for worker, digest in sorted(told.items()):
            if digest != self._right[step]:
                self._judge(worker, step)
        self._change.notify_all()

    def _judge(self, worker: int, step: int) -> None:
        """It differs after this step."""
        if worker in self._differing or worker in self._refused:
            return
        right = min((one for one, digest in self._told[step].items() if digest == self._right[step]), default=CHIEF)
        if step <= self._renewed.get(worker, 0):
            return  # told before it got the others' state
        kinds = f"Worker {worker} is {self._kind_of(worker)}; worker {right} is {self._kind_of(right)}"
        inherited = (step, worker) in self._inherited
        before = self._blamed.get(worker)
        if inherited or before is None:
            self._differing[worker] = step
            for later in [one for one in self._told if one > step]:
                self._told[later].pop(worker, None)
            since = ", perhaps by a state that it got from a third worker" if inherited else ""
            self._say(
                f"after step {step} worker {worker} has other parameters or buffers than worker {right}{since}: it "
                f"gets the others' state. {kinds}"
            )
            if not inherited:
                self._blamed[worker] = step
            return
        why = (
            f"worker {worker} had other parameters or buffers than the others after step {before}, got their state, "
            f"and differs again after step {step}: it is refused. {kinds}. {_ADVICE}"
        )
        self._refused[worker] = self._kind_of(worker), why
        self._say(why)

    # ---- correcting ----

    def _wants_state(self, done: int) -> bool:
        """True if a worker that differs is no further than that, and no state is on its way that it could take."""
        if self._giver is not None:
            return False
        waiting = [self._place.get(one, 0) for one in self._differing]
        known = -1 if self._state is None else self._state[0]
        return any(place <= done and known < place for place in waiting)

    def _correct(self, worker: int, done: int) -> tuple[str, bytes]:
        """Waits for a state after as many steps, as long as others may give it."""

        def others() -> bool:
            return bool(self._there() - self._differing.keys() - self._refused.keys() - {worker})

        def came() -> bool:
            known = self._state is not None and self._state[0] >= done
            return known or self._over or worker not in self._differing or not others()

        # The others may have nothing to ask any more, for example after a lost step, and then they give no state before
        # the next digest. A worker waits for that once, and later only for a state that is on its way.
        if not self._change.wait_for(came, timeout=0 if worker in self._gave_up else self._wait_seconds):
            self._gave_up.add(worker)
            self._change.wait_for(lambda: came() or self._giver is None)
        state = self._state
        if worker in self._differing and state is not None and state[0] == done:
            del self._differing[worker]
            self._gave_up.discard(worker)
            self._renewed[worker] = done
            self._forget_state()
            return "take", state[1]
        if not others():  # nobody is left from whom it differs
            self._differing.pop(worker, None)
            return "same", b""
        return "unknown", b""

    def _forget_state(self) -> None:
        if not self._differing:
            self._state = None


def digest_told(message: Mapping[str, Any]) -> Digest:
    """What a worker told. Raises ValueError."""
    of: Any = message["of"]
    bits: Any = message["bits"]
    if not all(isinstance(one, str) and len(one) <= _MOST_DIGITS for one in (of, bits)):
        raise ValueError("no digest of a state")
    return Digest(of, bits)


def kind_told(told: Any) -> str:
    """What a worker told of itself, fit to be shown. Raises ValueError."""
    if not isinstance(told, str):
        raise ValueError("a kind of worker is a text")
    return "".join(one for one in told if one.isprintable())[:_MOST_KIND]
