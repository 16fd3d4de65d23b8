# SPDX-License-Identifier: Apache-2.0
"""Scripts that join several times: in phases, at once, after a failure, and in a notebook whose cell has failed."""

import contextlib
import dataclasses
import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Generator
from typing import Any

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "training"))
import runs

torch: Any = pytest.importorskip("torch")
from test_hub import AGREEMENT, changed  # noqa: E402
from test_training import ends  # noqa: E402

import tarry.torch as tt  # noqa: E402
from tarry import Error, StateError  # noqa: E402
from tarry.hub import ON_THIS_MACHINE, Agreement, Client, Hub, Security, address, blob  # noqa: E402
from tarry.hub.client import Refused  # noqa: E402
from tarry.hub.settings import HubSettings, default_listen  # noqa: E402

SCRIPT = pathlib.Path(__file__).parent / "scripts" / "phases"


def phases(lines: list[str], first: tuple[str, int], second: tuple[str, int], workers: int) -> None:
    """All workers have done both trainings, with the same bits."""
    found = ends(lines)
    for name, steps in (first, second):
        of_all = {found[f"{worker}{name}"] for worker in range(workers)}
        assert len(of_all) == 1 and next(iter(of_all))[0] == str(steps), lines
    assert found[f"0{first[0]}"] != found[f"0{second[0]}"]


def test_a_second_phase_trains_on_and_who_dies_in_it_comes_back(tmp_path: pathlib.Path) -> None:
    """The worker's new process begins with the first phase, which is over."""
    ended = runs.run(str(SCRIPT), "phases", tmp_path, workers=3, options=("--restarts", 1))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = [line.partition("] ")[2] for line in ended.stdout.splitlines()]
    assert "is started again (1 of 1 times)" in ended.stderr
    phases(lines, ("a", 10), ("b", 20), 3)
    assert lines.count("steps of the head 30") == 3


def test_two_trainings_at_once() -> None:
    lines = runs.succeed(str(SCRIPT), "at-once", workers=2)
    phases(lines, ("c", 8), ("d", 8), 2)


def test_the_hub_of_another_launcher_serves_all_trainings() -> None:
    """Process 0 has it, to the end of its script."""
    known = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": f"several-{os.getpid()}"}
    processes = [
        subprocess.Popen(
            [sys.executable, f"{SCRIPT}.py", "both"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
            env=runs.environment(RANK=str(rank), **known),
        )
        for rank in range(2)
    ]  # fmt: skip
    outputs = [process.communicate(timeout=runs.LIMIT_SECONDS)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    lines = "".join(outputs).splitlines()
    phases(lines, ("a", 10), ("b", 20), 2)
    phases(lines, ("c", 8), ("d", 8), 2)


# ---- the hub ----


@contextlib.contextmanager
def clients(hub: Hub, count: int, security: Security = ON_THIS_MACHINE) -> Generator[list[Client]]:
    found = [Client(hub.address, security.of_worker(0)) for _ in range(count)]
    try:
        yield found
    finally:
        for one in found:
            one.close()


@dataclasses.dataclass
class Which:
    number: int
    place: str
    again: bool = False
    nested: bool = False


def join(
    client: Client, worker: int, training: int, agreement: Agreement = AGREEMENT, place: str = "a.py:1", **more: bool
) -> Any:
    return client.join(worker, agreement, lambda: blob.join({}, b"state"), which=Which(training, place, **more))


@pytest.fixture
def hub() -> Generator[Hub]:
    with Hub(default_listen(), HubSettings(2, default_listen())) as made:
        yield made


def test_trainings_come_one_after_the_other(hub: Hub) -> None:
    with clients(hub, 3) as (first, second, third):
        with pytest.raises(Refused, match="worker 0 wants to join training 1, and there are 0 so far"):
            join(first, 0, 1)
        servers = {join(one, worker, number).server for one, worker, number in ((second, 0, 0), (third, 0, 1))}
        assert len(servers) == 2


def test_workers_that_join_in_another_order_are_refused(hub: Hub) -> None:
    with clients(hub, 4) as (first, second, third, fourth):
        join(first, 0, 0)
        join(second, 0, 1, place="a.py:7")
        join(third, 1, 0, place="b.py:1")  # another script, as before
        with pytest.raises(Refused, match=r"worker 1 joins at a.py:9, and worker 0 at a.py:7. .* in the same order"):
            join(fourth, 1, 1, place="a.py:9")


def test_a_checkpoint_is_of_one_training(hub: Hub, tmp_path: pathlib.Path) -> None:
    """The second one would find that all of its steps are done."""
    agreement = changed(checkpoint=str(tmp_path / "run.ckpt"))
    with clients(hub, 3) as (first, second, third):
        join(first, 0, 0, agreement)
        with pytest.raises(Refused, match=r"run.ckpt' is the file of training 1 .* this is training 2: give each"):
            join(second, 0, 1, agreement)
        assert hub.training is not None
        hub.training.end(Error("a disk is full"))
        join(third, 0, 1, agreement)  # after a failure it may continue from the file


def test_a_training_that_failed_is_over_and_another_may_begin(hub: Hub) -> None:
    with clients(hub, 3) as (first, second, third):
        join(first, 0, 0)
        assert hub.training is not None
        hub.training.want(12)
        hub.training.end(Error("a disk is full"))
        with pytest.raises(Refused, match="has ended after step 0 of 12: a disk is full") as refused:
            join(second, 1, 0)
        assert refused.value.ended
        join(third, 0, 1)


def test_a_training_that_all_have_left_gives_its_last_state(hub: Hub) -> None:
    agreement = changed(sum="server")
    with clients(hub, 3) as (first, second, third):
        join(first, 0, 0, agreement)
        first.finish(0, lambda: b"")
        join(second, 0, 1, agreement)
        left = hub.training
        first.close()
        sessions = hub._sessions  # pyright: ignore[reportPrivateUsage]
        runs.await_true("its server ends", lambda: sessions[0].is_over)
        assert not sessions[1].is_over and hub.training is left
        welcome = join(third, 1, 0, agreement)
        assert welcome.over and welcome.server == "" and welcome.state == blob.join({}, b"state")
        third.steps(100)
        assert third.status()["wanted"] == 0


def test_servers_have_ports_one_after_the_other() -> None:
    """As firewalls need them. One that is left behind makes room."""
    plain = Security(None, True)
    with Hub("127.0.0.1:0", HubSettings(1, "127.0.0.1:0", security=plain)) as other:
        port = address.split(other.address)[1]
    settings = HubSettings(2, f"127.0.0.1:{port + 1}", security=plain, start=60)
    with Hub("127.0.0.1:0", settings) as hub, clients(hub, 4, plain) as (first, second, third, fourth):
        ports = [address.split(join(first, 0, 0).server)[1], address.split(join(second, 0, 1, nested=True).server)[1]]
        assert ports == [port + 1, port + 2]
        for one in (first, second):
            one.finish(0, lambda: b"")
            one.close()
        assert address.split(join(third, 0, 2).server)[1] == port + 1
        late = threading.Timer(0.2, third.close)
        third.finish(0, lambda: b"")
        late.start()
        assert address.split(join(fourth, 1, 3).server)[1] == port + 1  # it has waited for worker 0 to leave
        for number in range(4, 14):  # the port is free once the server has ended
            fourth.finish(0, lambda: b"")
            fourth.close()
            fourth = Client(hub.address, plain.of_worker(0))
            assert address.split(join(fourth, 1, number).server)[1] == port + 1
        fourth.close()


# ---- jobs of one process ----


class Bench:
    def __init__(self) -> None:
        torch.manual_seed(1)
        self.model = torch.nn.Linear(3, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def join(self, **more: Any) -> Any:
        return tt.join(self.model, self.optimizer, data=torch.ones(16, 3), batch=8, piece=2, **more)

    def train(self, job: Any, steps: int) -> None:
        def loss_of(batch: Any) -> Any:
            return self.model(batch).sum(), len(batch)

        while job.step(loss_of, steps):
            self.optimizer.step()


@pytest.mark.parametrize("how", ["in a piece", "after a step", "before all", "in with"])
def test_a_job_that_a_failed_cell_left_behind_is_closed(how: str) -> None:
    """The next cell joins again with the same model and optimizer."""
    made = Bench()
    left = made.join()
    with pytest.raises(ZeroDivisionError), left if how == "in with" else contextlib.nullcontext():
        for step in left.steps(5 if how != "before all" else 0):
            for piece in step:
                with piece:
                    piece.backward(made.model(piece.batch).sum() / (how != "in a piece"), weight=2)
                    _ = 1 // (how != "in a piece")
            made.optimizer.step()
            _ = 1 / 0
        _ = 1 / 0
    job = made.join()
    made.train(job, 3)
    assert job.done == 3
    with pytest.raises(StateError, match="the job is closed"):
        made.train(left, 9)
    left.close()  # does nothing: the new job's guards stay
    made.train(job, 4)
    job.close()
    made.optimizer.step()


def test_a_job_that_others_take_part_in_is_not_closed_by_a_join(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("HUB", hub.address), ("WORKER", "0"), ("WORKERS", "2")):
        monkeypatch.setenv(f"TARRY_{name}", value)
    hub.leave_out(1)
    made, other = Bench(), Bench()
    job = made.join()
    _ = next(iter(job.steps(5)))
    with pytest.raises(StateError, match=r"another training of this model, after step 0. Close that job first"):
        made.join()
    failed: list[str] = []

    def in_a_thread() -> None:
        try:
            other.join()
        except StateError as error:
            failed.append(str(error))

    thread = threading.Thread(target=in_a_thread)
    thread.start()
    thread.join()
    assert "call join in one thread for all of them" in failed[0]
    with other.join() as more:
        other.train(more, 3)
    job.close()
    with made.join() as again:
        made.train(again, 2)
    assert (again.joined.number, again.done) == (2, 2)


def test_a_worker_that_failed_joins_the_same_training_again(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("HUB", hub.address), ("WORKER", "0"), ("WORKERS", "2")):
        monkeypatch.setenv(f"TARRY_{name}", value)
    hub.leave_out(1)
    made = Bench()
    with pytest.raises(ZeroDivisionError), made.join(sum="server") as job:
        made.train(job, 3)
        _ = 1 / 0
    with made.join(sum="server") as job:
        assert (job.joined.number, job.done) == (0, 3)
        made.train(job, 4)
    with pytest.raises(Error, match="a disk is full"), made.join(sum="server") as job:
        assert (job.joined.number, job.done) == (1, 0)
        made.train(job, 3)
        training = hub.training
        assert training is not None
        training.end(Error("a disk is full"))
        made.train(job, 6)
    with made.join(sum="server") as job:  # that one is over for all
        assert (job.joined.number, job.done) == (2, 0)


def test_a_worker_that_failed_in_one_fold_joins_the_next(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next join is for another training, as its data say, or the training has failed for all since."""
    for name, value in (("HUB", hub.address), ("WORKER", "0"), ("WORKERS", "2")):
        monkeypatch.setenv(f"TARRY_{name}", value)
    hub.leave_out(1)
    made = Bench()
    for fold in range(3):
        with pytest.raises(ZeroDivisionError), made.join(sum="server", seed=fold) as job:
            assert (job.joined.number, job.done) == (fold, 0)
            made.train(job, 2)
            _ = 1 / 0
    training = hub.training
    assert training is not None
    training.end(Error("a disk is full"))
    with made.join(sum="server", seed=2) as job:
        assert (job.joined.number, job.done) == (3, 0)
