# SPDX-License-Identifier: Apache-2.0
"""Sums that the server makes, by the hub alone: what it keeps, what it tells who is behind, and whose state it asks
for. Workers are of NumPy here."""

import itertools
import pathlib
import threading
from typing import Literal

import numpy as np
import pytest

import tarry
from tarry.hub import Agreement, Client, Hub, blob, storage
from tarry.hub.head import HEAD_NUMBERS, NOBODY, Head, read_head, write_head
from tarry.hub.kept import MOST_SUMS, Kept
from tarry.hub.settings import HubSettings, default_listen

DIMENSION, UNITS = 10, 4


def an_agreement(checkpoint: str = "", sum: Literal["server", "everywhere"] = "server") -> Agreement:
    return Agreement(
        dimension=DIMENSION, units=UNITS, samples=100, batch=8, piece=2, seed=1, replication=0, parts=1,
        settings={"sum": sum, "reproducible": True}, engine="direct", exact=0,
        model="weight (10,)", options="", checkpoint=checkpoint, checkpoint_seconds=0.0,
    )  # fmt: skip


def a_state(steps: int) -> bytes:
    """Small beside a sum: a newer one is soon wanted."""
    return blob.join({"__metadata__": {"steps": str(steps)}}, b"")


def a_sum(step: int) -> np.ndarray:
    return np.full(DIMENSION, float(step), dtype=np.float32)


def kept_after(steps: int, *, state: bytes = bytes(1000)) -> Kept:
    kept = Kept(0, state)
    for step in range(steps):
        kept.add(a_sum(step))
    return kept


def has(kept: Kept) -> list[int]:
    """Steps whose sums are there, each its own."""
    found = [step for step in range(kept.done + 1) if kept.sum_of(step) is not None]
    assert all(np.array_equal(kept.sum_of(step), a_sum(step)) for step in found)  # type: ignore[arg-type]
    return found


# ---- what is kept ----


def test_sums_since_the_state_are_never_forgotten() -> None:
    kept = kept_after(3 * MOST_SUMS)
    assert kept.step == 0 and kept.done == 3 * MOST_SUMS
    assert has(kept) == list(range(3 * MOST_SUMS))


def test_with_a_newer_state_the_last_few_stay() -> None:
    kept = kept_after(3 * MOST_SUMS)
    kept.renew(3 * MOST_SUMS - 2, b"newer")
    assert (kept.step, kept.state) == (3 * MOST_SUMS - 2, b"newer")
    kept = kept_after(3 * MOST_SUMS)
    kept.renew(2 * MOST_SUMS + 1, bytes(1000))
    assert has(kept) == list(range(2 * MOST_SUMS, 3 * MOST_SUMS))
    kept.add(a_sum(3 * MOST_SUMS))
    assert has(kept) == list(range(2 * MOST_SUMS + 1, 3 * MOST_SUMS + 1))


def test_a_newer_state_is_wanted_when_more_than_a_few_sums_are_there() -> None:
    assert not kept_after(MOST_SUMS - 1).outgrown and kept_after(MOST_SUMS).outgrown
    kept = kept_after(MOST_SUMS)
    kept.renew(1, bytes(1000))
    assert not kept.outgrown


def test_few_are_fewer_where_sums_are_large() -> None:
    """Of 40 bytes each, and the state's are 10 or 50: four times as many are one sum, or five."""
    assert not kept_after(0, state=bytes(10)).outgrown and kept_after(1, state=bytes(10)).outgrown
    assert not kept_after(4, state=bytes(50)).outgrown and kept_after(5, state=bytes(50)).outgrown


@pytest.mark.parametrize("step", [-1, 0, 3, 6])
def test_a_state_that_is_no_newer_or_can_not_be_is_left(step: int) -> None:
    kept = kept_after(5)
    kept.renew(3, b"known")
    kept.renew(step, b"other")
    assert (kept.step, kept.state) == (3, b"known")


def test_a_head_is_read_as_it_was_written() -> None:
    numbers = np.zeros(HEAD_NUMBERS + 3, dtype=np.float32)
    for head in (Head(0, NOBODY), Head(2**31 - 1, 1023), Head(0x7FA00000, 0)):  # the last one is a number of no value
        write_head(numbers, head)
        assert read_head(numbers.copy()) == head
        assert not numbers[HEAD_NUMBERS:].any()


# ---- a hub and its workers ----


class Doing:
    """A worker that counts rounds; what it was given, and what it was asked."""

    def __init__(
        self, hub: Hub, number: int, agreement: Agreement, *, gives: bool = True, fails_at: int | None = None
    ) -> None:
        """fails_at: the step in which its numbers are NaN."""
        self.client = Client(hub.address)
        self.number, self.gives, self.fails_at = number, gives, fails_at
        self.heads: list[Head] = []
        self.sums: dict[int, np.ndarray] = {}
        welcome = self.client.join(number, agreement, lambda: a_state(0))
        self.state = welcome.state
        self.worker = tarry.Worker(welcome.server, insecure=True, worker=number)

    def begin(self, steps: int) -> None:
        self.client.steps(steps)
        self.thread = threading.Thread(target=self._work)
        self.thread.start()

    def _work(self) -> None:
        for task in self.worker:
            assert task.parameters is not None
            head = read_head(task.parameters)
            if not self.heads or self.heads[-1].step != head.step:
                self.heads.append(head)
                self.sums[head.step - 1] = task.parameters[HEAD_NUMBERS:].copy()
                if head.asked == self.number and self.gives:
                    self._give(head.step)
            task.gradient[:] = np.nan if head.step == self.fails_at else (head.step + 1) * (task.unit + 1)

    def _give(self, step: int) -> None:
        self.client.give(step, lambda: a_state(step))
        self.client.status()  # it has come

    def end(self) -> None:
        self.worker.close()
        self.thread.join()
        self.client.close()


def sum_after(step: int) -> np.ndarray:
    """That of the step."""
    return np.full(DIMENSION, (step + 1) * UNITS * (UNITS + 1) / 2, dtype=np.float32)


def train(hub: Hub, workers: "list[Doing]", steps: int) -> None:
    """Until so many steps are done."""
    for worker in workers:
        worker.begin(steps)
    training = hub.training
    assert training is not None
    with training.change:
        assert training.change.wait_for(lambda: training.done == steps or training.failure is not None, timeout=60)
    assert training.failure is None


def test_each_round_brings_the_sum_before() -> None:
    with Hub(default_listen(), HubSettings(2, default_listen())) as hub:
        workers = [Doing(hub, number, an_agreement()) for number in range(2)]
        train(hub, workers, 6)
        for worker in workers:
            assert worker.state == (None if worker.number == 0 else a_state(0))
            assert worker.heads[0].step == 0 and not worker.sums.pop(-1).any()
            assert all(np.array_equal(found, sum_after(step)) for step, found in worker.sums.items())
            worker.end()


def test_who_is_behind_is_told_what_it_lacks() -> None:
    """The sum of each of the last few steps, or the state that is there."""
    with Hub(default_listen(), HubSettings(1, default_listen())) as hub:
        worker = Doing(hub, 0, an_agreement())
        train(hub, [worker], 12)
        asker = Client(hub.address)
        asker.join(0, an_agreement(), bytes)
        kind, done, payload = asker.after(0)
        assert kind == "newer" and done == 12
        steps = int(blob.metadata(payload)["steps"])
        assert steps >= 8  # it was asked for one every fourth round at least
        kind, _, payload = asker.after(11)
        assert kind == "sum" and np.array_equal(np.frombuffer(payload, dtype=np.float32), sum_after(11))
        assert asker.after(12) == ("none", 12, b"")
        asker.close()
        newcomer = Client(hub.address)
        state = newcomer.join(0, an_agreement(), bytes).state
        assert state == a_state(steps)
        newcomer.close()
        worker.end()


def test_another_worker_is_asked_where_one_gives_no_state() -> None:
    with Hub(default_listen(), HubSettings(2, default_listen())) as hub:
        workers = [Doing(hub, number, an_agreement(), gives=number == 1) for number in range(2)]
        train(hub, workers, 24)
        asked = {head.step: head.asked for worker in workers for head in worker.heads if head.asked != NOBODY}
        steps = sorted(asked)
        assert {asked[step] for step in steps} == {0, 1}
        assert all(later - earlier >= 4 for earlier, later in itertools.pairwise(steps))
        known = Client(hub.address)
        state = known.join(0, an_agreement(), bytes).state
        assert state is not None and asked[int(blob.metadata(state)["steps"])] == 1
        known.close()
        for worker in workers:
            worker.end()


def test_a_checkpoint_is_a_workers_state_and_is_gone_on_from(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "run.ckpt"
    for begun, steps in ((0, 8), (8, 12)):
        with Hub(default_listen(), HubSettings(1, default_listen())) as hub:
            worker = Doing(hub, 0, an_agreement(str(path)))
            assert worker.state == (a_state(begun) if begun else None)
            train(hub, [worker], steps)
            found = storage.read(str(path))
            assert found is not None and begun < found.base < steps and found.state == a_state(found.base)
            worker.client.finish(steps, lambda steps=steps: a_state(steps))
            found = storage.read(str(path))
            assert found is not None and found.base == steps and found.state == a_state(steps)
            assert found.after.step == 0
            worker.end()
            assert worker.heads[0].step == begun


def test_who_dies_before_it_gives_the_last_state_leaves_that_to_the_next() -> None:
    with Hub(default_listen(), HubSettings(2, default_listen())) as hub:
        workers = [Doing(hub, number, an_agreement(), gives=False) for number in range(2)]
        train(hub, workers, 3)
        first, second = (worker.client for worker in workers)

        def die() -> bytes:
            first.close()
            raise RuntimeError("it dies")

        with pytest.raises(RuntimeError):
            first.finish(3, die)
        second.finish(3, lambda: a_state(3))
        assert hub.training is not None and hub.training.settled == 3
        for worker in workers:
            worker.end()


def test_a_state_that_is_there_already_is_not_asked_for() -> None:
    with Hub(default_listen(), HubSettings(1, default_listen())) as hub:
        worker = Doing(hub, 0, an_agreement(), gives=False)
        train(hub, [worker], 3)
        states = iter([a_state(3)])
        for step in (3, 3, 2, 4, -1):
            worker.client.give(step, lambda: next(states))
        assert worker.client.after(3)[0] == "none"
        assert next(states, None) is None
        worker.end()


def test_where_workers_sum_nobody_asks_the_hub() -> None:
    """Who does is no worker of that training."""
    with Hub(default_listen(), HubSettings(1, default_listen())) as hub:
        client = Client(hub.address)
        client.join(0, an_agreement(sum="everywhere"), lambda: a_state(0))
        client.give(1, lambda: pytest.fail("it is asked for"))
        with pytest.raises(tarry.SystemResourceError, match="the hub is gone"):
            client.after(0)
        client.close()
