# SPDX-License-Identifier: Apache-2.0
"""Server and workers over the loopback."""

import pathlib
import socket
import threading
import time
from typing import Any

import numpy as np
import pytest
from network import computes, serving
from oracle import Gradients, assert_sum, eventually

import tarry

PLAN = tarry.Plan(3, 6, replication=2)


def ones(count: int = 1) -> Any:
    return np.ones(count, dtype=np.float32)


def test_sums_are_exact_over_connections() -> None:
    gradients = Gradients(PLAN, 500, 20, 1)
    with serving(PLAN, 500, parameters=20) as (server, crew):
        for _ in range(3):
            crew.hire(computes(gradients.compute))
        server.wait(timeout=20)
        for number in range(4):
            parameters = np.random.default_rng(number).standard_normal(20).astype(np.float32)
            result = server.round(parameters)
            assert (result.number, result.exact) == (number, True)
            assert_sum(result.sum, gradients, parameters)
        assert all(one.present and one.arrivals == 1 for one in server.workers())


def test_sums_are_exact_with_parts() -> None:
    plan = tarry.Plan(4, 8, replication=3, parts=2)
    gradients = Gradients(plan, 50, 3, 1)
    with serving(plan, 50, parameters=3) as (server, crew):
        for _ in range(4):
            crew.hire(computes(gradients.compute))
        server.wait(timeout=20)
        result = server.round(ones(3))
        assert result.parts == 2
        assert_sum(result.sum, gradients, ones(3))


def test_a_worker_hears_of_its_job() -> None:
    heard: list[tarry.Job] = []
    numbers: list[int | None] = []

    def prepare(job: tarry.Job) -> None:
        heard.append(job)

    def body(worker: tarry.Worker) -> None:
        assert worker.number is None
        for task in worker:
            numbers.append(worker.number)
            task.gradient[:] = task.worker

    plan = tarry.Plan(2, replication=1)
    with serving(plan, 7, parameters=3, job=b"what to do") as (server, crew):
        crew.hire(body, prepare=prepare, worker=1)
        crew.hire(body, prepare=prepare, worker=0)
        server.wait(timeout=20)
        assert server.round(ones(3)).sum == pytest.approx([1.0] * 7)
    assert sorted(heard) == [tarry.Job(worker, 2, 3, 7, b"what to do", "server") for worker in range(2)]
    assert sorted(set(numbers), key=str) == [0, 1]


def test_a_worker_that_closes_is_left_out_and_another_takes_its_place() -> None:
    gradients = Gradients(PLAN, 5, 1, 1)
    staff: list[tarry.Worker] = []

    def body(worker: tarry.Worker) -> None:
        staff.append(worker)
        computes(gradients.compute)(worker)

    with serving(PLAN, 5, parameters=1) as (server, crew):
        for number in range(3):
            crew.hire(body if number == 0 else computes(gradients.compute), worker=number)
        server.wait(timeout=20)
        assert_sum(server.round(ones()).sum, gradients, ones())
        staff[0].leave()
        assert eventually(lambda: not server.workers()[0].present)
        assert_sum(server.round(ones()).sum, gradients, ones())
        crew.hire(computes(gradients.compute), worker=0)
        server.wait(timeout=20)
        assert server.workers()[0].arrivals == 2
        assert_sum(server.round(ones()).sum, gradients, ones())


def test_too_few_workers_are_a_coverage_error_and_more_may_come() -> None:
    plan = tarry.Plan(2, 2, replication=1)
    gradients = Gradients(plan, 5, 1, 1)
    with serving(plan, 5, parameters=1) as (server, crew):
        crew.hire(computes(gradients.compute), worker=0)
        server.wait(1, timeout=20)
        with pytest.raises(tarry.CoverageError, match="round 0"):
            server.round(ones())
        crew.hire(computes(gradients.compute), worker=1)
        server.wait(timeout=20)
        assert_sum(server.round(ones()).sum, gradients, ones())


def test_patience_waits_for_who_is_missing() -> None:
    plan = tarry.Plan(2, 2, replication=1)
    gradients = Gradients(plan, 5, 1, 1)
    seen: list[str] = []

    def see(notice: tarry.Notice) -> None:
        seen.append(notice.kind)

    with serving(plan, 5, parameters=1, patience=20.0, observe=see) as (
        server,
        crew,
    ):
        crew.hire(computes(gradients.compute), worker=0)
        server.wait(1, timeout=20)

        def hire() -> None:
            if eventually(lambda: "waiting" in seen):
                crew.hire(computes(gradients.compute), worker=1)

        thread = threading.Thread(target=hire)
        thread.start()
        assert_sum(server.round(ones()).sum, gradients, ones())
        thread.join()


def test_notices_tell_who_comes_and_what_becomes_of_rounds() -> None:
    seen: list[tarry.Notice] = []
    heard: list[tarry.Notice] = []
    plan = tarry.Plan(1)
    with serving(plan, 1, observe=seen.append) as (server, crew):
        crew.hire(computes(lambda task: task.gradient.fill(1)), observe=heard.append)
        server.wait(timeout=20)
        server.round(ones())
        assert eventually(lambda: "round" in [one.kind for one in seen])
    kinds = [one.kind for one in seen]
    assert kinds.index("joined") < kinds.index("signal") < kinds.index("round")
    joined = seen[kinds.index("joined")]
    assert (joined.worker, joined.arrival, joined.absence) == (0, "first", "")
    assert heard[0].kind == "connected"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_exception_in_observe_ends_nothing() -> None:
    def observe(_notice: tarry.Notice) -> None:
        raise ZeroDivisionError

    with serving(tarry.Plan(1), 1, observe=observe) as (server, crew):
        crew.hire(computes(lambda task: task.gradient.fill(1)), observe=observe)
        server.wait(timeout=20)
        assert server.round(ones()).exact


def test_an_exception_in_prepare_is_raised_by_take() -> None:
    def prepare(_job: tarry.Job) -> None:
        raise ZeroDivisionError("prepare")

    with tarry.Server(tarry.Plan(1), 1, listen="127.0.0.1:0", insecure=True) as server:
        server.open()
        with tarry.Worker(server.addresses[0], insecure=True, prepare=prepare) as worker:
            with pytest.raises(ZeroDivisionError, match="prepare"):
                worker.take(20)
            assert worker.ended
            with pytest.raises(ZeroDivisionError, match="prepare"):
                worker.take(20)


def test_no_task_in_time_is_a_state_error_and_no_end() -> None:
    with tarry.Server(tarry.Plan(1), 1, listen="127.0.0.1:0", insecure=True) as server:
        server.open()
        with tarry.Worker(server.addresses[0], insecure=True) as worker:
            for _ in range(2):
                with pytest.raises(tarry.StateError, match="no task came in time"):
                    worker.take(0.15)
                assert not worker.ended


def test_a_task_is_to_be_given_back_before_the_next_one() -> None:
    def body(worker: tarry.Worker) -> None:
        task = worker.take(20)
        assert task is not None
        with pytest.raises(tarry.StateError, match="the task before was not given back"):
            worker.take()
        task.gradient[:] = 1
        assert task.give()
        assert worker.take(20) is None

    with serving(tarry.Plan(1), 1) as (server, crew):
        crew.hire(body)
        server.wait(timeout=20)
        assert server.round(ones()).sum == pytest.approx([1.0])


def test_a_task_is_void_when_its_worker_is_closed() -> None:
    kept: list[tarry.Task] = []
    taken = threading.Event()

    def body(worker: tarry.Worker) -> None:
        task = worker.take(20)
        assert task is not None
        kept.append(task)
        taken.set()

    def compute(task: tarry.Task) -> None:
        assert taken.wait(20)
        task.gradient[:] = 1

    plan = tarry.Plan(2, replication=2)
    with serving(plan, 3) as (server, crew):
        crew.hire(body, worker=0)
        crew.hire(computes(compute), worker=1)
        server.wait(timeout=20)
        assert server.round(ones(3)).exact
        crew.threads[0].join(20)
        (task,) = kept
        assert task.cancelled
        for use in (lambda: task.gradient, lambda: task.parameters, lambda: task.spans, lambda: task.round):
            with pytest.raises(tarry.StateError, match="the worker is closed"):
                use()
        assert not task.give()


def test_arrays_outlive_the_worker() -> None:
    kept: list[Any] = []

    def compute(task: tarry.Task) -> None:
        kept.extend((task.gradient, task.parameters))
        task.gradient[:] = 2

    with serving(tarry.Plan(1), 10_000) as (server, crew):
        crew.hire(computes(compute))
        server.wait(timeout=20)
        server.round(ones(10_000))
    assert kept[0].sum() == 20_000
    kept[0][:] = 0
    assert kept[1].sum() == 10_000


def test_closing_from_another_thread_ends_take() -> None:
    with tarry.Server(tarry.Plan(1), 1, listen="127.0.0.1:0", insecure=True) as server:
        server.open()
        worker = tarry.Worker(server.addresses[0], insecure=True)
        ended: list[object] = []

        def take() -> None:
            try:
                ended.append(worker.take())
            except tarry.StateError as error:
                ended.append(str(error))

        thread = threading.Thread(target=take)
        thread.start()
        assert eventually(lambda: worker.number is not None)
        worker.close()
        thread.join(20)
        assert not thread.is_alive()
        assert ended in ([None], ["the worker is closed"])


def test_leaving_ends_the_loop() -> None:
    def body(worker: tarry.Worker) -> None:
        for task in worker:
            task.gradient[:] = 1
            worker.leave(5.0)

    with serving(tarry.Plan(2, replication=1), 1) as (server, crew):
        for _ in range(2):
            crew.hire(body)
        server.wait(timeout=20)
        assert server.round(ones()).sum == pytest.approx([2.0])
        crew.join()


def test_a_wait_that_is_over_and_one_that_is_interrupted() -> None:
    with tarry.Server(tarry.Plan(2), 1, listen="127.0.0.1:0", insecure=True) as server:
        with pytest.raises(tarry.StateError, match=r"waited 0\.1 s for 2 workers"):
            server.wait(timeout=0.1)
        server.interrupt()
        with pytest.raises(tarry.InterruptedByCaller):
            server.wait()
        with pytest.raises(tarry.ArgumentError, match="workers is 3, and the plan has 2"):
            server.wait(3)
        with pytest.raises(tarry.ArgumentError, match="timeout is -1"):
            server.wait(timeout=-1)


def test_a_checkpoint_is_taken_up_by_another_server() -> None:
    gradients = Gradients(PLAN, 5, 1, 1)
    with serving(PLAN, 5, parameters=1) as (server, crew):
        for _ in range(3):
            crew.hire(computes(gradients.compute))
        server.wait(timeout=20)
        for _ in range(3):
            server.round(ones())
        saved, job = server.checkpoint(), server.job_id
    with serving(PLAN, 5, parameters=1, checkpoint=saved, job_id=job) as (server, crew):
        with pytest.raises(tarry.StateError, match="checkpoint"):
            server.open()
        server.stored(server.checkpoint())
        for _ in range(3):
            crew.hire(computes(gradients.compute))
        server.wait(timeout=20)
        result = server.round(ones())
        assert result.number == 3
        assert_sum(result.sum, gradients, ones())


def test_workers_go_on_with_a_server_that_was_started_again() -> None:
    plan = tarry.Plan(2, replication=1)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    rounds: list[int] = []

    def compute(task: tarry.Task) -> None:
        rounds.append(task.round)
        task.gradient[:] = 1

    def make(**settings: Any) -> tarry.Server:
        return tarry.Server(plan, 1, listen=address, insecure=True, **settings)

    server = make()
    threads: list[threading.Thread] = []
    ended: list[str] = []

    def work() -> None:
        with tarry.Worker(address, insecure=True) as worker:
            for task in worker:
                compute(task)
            ended.append("over")

    for _ in range(2):
        threads.append(threading.Thread(target=work, daemon=True))
        threads[-1].start()
    server.wait(timeout=20)
    server.round(ones())
    saved, job = server.checkpoint(), server.job_id
    server.close(finished=False)
    with make(checkpoint=saved, job_id=job) as server:
        server.stored(server.checkpoint())
        server.wait(timeout=20)
        assert server.round(ones()).number == 1
    for thread in threads:
        thread.join(20)
    assert ended == ["over", "over"]
    assert sorted(rounds) == [0, 0, 1, 1]


def test_a_straggler_of_a_worker_takes_its_time() -> None:
    straggler = tarry.Straggler("shifted-exp:0.2,0.001", 1)
    with serving(tarry.Plan(1), 1) as (server, crew):
        crew.hire(computes(lambda task: task.gradient.fill(1)), straggler=straggler)
        server.wait(timeout=20)
        began = time.monotonic()
        server.round(ones())
        assert time.monotonic() - began >= 0.2


def test_workers_meet_over_a_unix_socket(tmp_path: pathlib.Path) -> None:
    address = f"unix:{tmp_path / 'hub'}"
    with tarry.Server(tarry.Plan(1), 1, listen=address, insecure=True) as server:
        assert server.addresses == [address]

        def work() -> None:
            with tarry.Worker(address, insecure=True) as worker:
                for task in worker:
                    task.gradient[:] = 4

        thread = threading.Thread(target=work)
        thread.start()
        server.wait(timeout=20)
        server.note(0, 10, "half way")
        assert server.round(ones()).sum == pytest.approx([4.0])
        status = server.status()
        assert (status["version"], status["sum"], status["unlisted"]) == (1, None, {})
        assert (status["run"]["rounds_done"], status["run"]["rounds"], status["run"]["note"]) == (1, 10, "half way")
        assert [(worker["worker"], worker["state"]) for worker in status["workers"]] == [(0, "resting")]
    thread.join(20)
    assert not thread.is_alive()


def test_an_observer_may_ask_how_the_run_stands() -> None:
    """It is called by the thread that would answer."""
    seen: list[tuple[str, int]] = []

    def observe(notice: tarry.Notice) -> None:
        if notice.kind == "joined":
            server.note(0, 1, "somebody came")
            seen.append((server.status()["run"]["note"], len(server.workers())))

    with tarry.Server(tarry.Plan(1), 1, listen="127.0.0.1:0", insecure=True, observe=observe) as server:
        server.open()
        with tarry.Worker(server.addresses[0], insecure=True) as worker:
            thread = threading.Thread(target=worker.take)
            thread.start()
            server.wait(timeout=20)
        thread.join(20)
    assert seen == [("somebody came", 1)]


def test_several_addresses_are_listened_on() -> None:
    with tarry.Server(tarry.Plan(1), 1, listen=["127.0.0.1:0", "127.0.0.1:0"], insecure=True) as server:
        assert len(set(server.addresses)) == 2


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"listen": "127.0.0.1:0", "insecure": False}, tarry.ArgumentError, "credentials"),
        ({"listen": "0.0.0.0:0"}, tarry.ArgumentError, "plain text is for loopback"),
        ({"listen": "127.0.0.1:notaport"}, tarry.FormatError, "notaport"),
        ({"listen": []}, tarry.ArgumentError, "listen"),
        ({"job_id": b"short"}, tarry.ArgumentError, "job_id has 5 bytes, and 16 are wanted"),
        ({"dimension": 0}, tarry.ArgumentError, ""),
        ({"dimension": -5}, tarry.ArgumentError, "dimension must be a whole number from 1 to 1099511627776, not '-5'"),
        ({"parameters": -5}, tarry.ArgumentError, "parameters is -5"),
        ({"checkpoint": b"nothing"}, tarry.FormatError, ""),
        ({"credentials": "/nowhere", "insecure": False}, tarry.FileError, "/nowhere"),
        ({"patience": -1}, tarry.ArgumentError, "patience is -1"),
    ],
)
def test_a_server_that_cannot_be_says_why(settings: dict[str, Any], error: type[Exception], said: str) -> None:
    wanted: dict[str, Any] = {"dimension": 1, "listen": "127.0.0.1:0", "insecure": True, **settings}
    with pytest.raises(error) as raised:
        tarry.Server(tarry.Plan(1), **wanted)
    assert said in str(raised.value)


def test_an_address_in_use_is_named() -> None:
    with (
        tarry.Server(tarry.Plan(1), 1, listen="127.0.0.1:0", insecure=True) as server,
        pytest.raises(tarry.SystemResourceError, match=server.addresses[0]),
    ):
        tarry.Server(tarry.Plan(1), 1, listen=server.addresses[0], insecure=True)


@pytest.mark.parametrize(
    ("connect", "settings", "error", "said"),
    [
        ("nowhere", {}, tarry.ArgumentError, "nowhere"),
        ("127.0.0.1:1", {"worker": -1}, tarry.ArgumentError, "worker is -1"),
        ("127.0.0.1:1", {"patience": -1.0}, tarry.ArgumentError, "patience is -1"),
        ("127.0.0.1:1", {"insecure": False}, tarry.ArgumentError, "credentials"),
    ],
)
def test_a_worker_that_cannot_be_says_why(
    connect: str, settings: dict[str, Any], error: type[Exception], said: str
) -> None:
    wanted: dict[str, Any] = {"insecure": True, **settings}
    with pytest.raises(error) as raised, tarry.Worker(connect, **wanted) as worker:
        worker.take(5)
    assert said in str(raised.value)


def test_a_server_that_is_not_there_ends_patience() -> None:
    with tarry.Worker("127.0.0.1:1", insecure=True, patience=0.2) as worker:
        with pytest.raises(tarry.SystemResourceError, match=r"127\.0\.0\.1:1"):
            worker.take(20)
        assert worker.ended


def test_a_closed_server_and_a_closed_worker_say_so() -> None:
    server = tarry.Server(tarry.Plan(1), 1, listen="127.0.0.1:0", insecure=True)
    worker = tarry.Worker(server.addresses[0], insecure=True)
    for one in (worker, server):
        one.close()
        one.close()
    for use in (lambda: server.addresses, lambda: server.job_id, server.open, lambda: server.round(ones())):
        with pytest.raises(tarry.StateError, match="the server is closed"):
            use()
    for use in (worker.take, worker.leave, lambda: worker.number):
        with pytest.raises(tarry.StateError, match="the worker is closed"):
            use()


def test_any_thread_may_look_at_workers_while_rounds_run() -> None:
    """A question of one thread does not take the place of another's."""
    over = threading.Event()
    seen: list[int] = []

    def look(server: tarry.Server) -> None:
        while not over.is_set():
            seen.append(sum(one.present for one in server.workers()))

    def body(worker: tarry.Worker) -> None:
        for task in worker:
            task.gradient[:] = 1

    with serving(tarry.Plan(2, 2, replication=2), 1) as (server, crew):
        for _ in range(2):
            crew.hire(body)
        server.wait(timeout=20)
        threads = [threading.Thread(target=look, args=(server,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(300):
                assert server.round(ones()).sum == pytest.approx([2.0])
        finally:
            over.set()
        for thread in threads:
            thread.join()
        assert set(seen) == {2}
