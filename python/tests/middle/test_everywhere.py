# SPDX-License-Identifier: Apache-2.0
"""Workers that all get the sum, and step on it as a task."""

import contextlib
import threading
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st
from network import Crew, Model, serving
from oracle import eventually

import tarry

PLAN = tarry.Plan(3, 6, replication=2)
D = 20


def gradient(unit: int, numbers: Any) -> Any:
    """Of a unit at these parameters: pulls them to a place of the unit's."""
    return (0.01 * (numbers - np.sin(unit + np.arange(len(numbers))))).astype(np.float32)


def serial(plan: tarry.Plan, dimension: int, steps: int) -> Any:
    """What one process comes to."""
    numbers = np.zeros(dimension)
    for _ in range(steps):
        numbers = numbers - sum(0.01 * (numbers - np.sin(unit + np.arange(dimension))) for unit in range(plan.units))
    return numbers


def do(task: tarry.Task, model: Model) -> None:
    if task.is_step:
        assert task.parameters is None
        assert task.spans == []
        with pytest.raises(tarry.StateError, match="a step, and has no gradient"):
            _ = task.gradient
        model.step(task)
    else:
        assert task.parameters is None
        task.gradient[:] = gradient(task.unit, model.numbers)


@contextlib.contextmanager
def training(plan: tarry.Plan, dimension: int, **wanted: Any) -> Generator[tuple[tarry.Local, list[Model]]]:
    models = [Model(dimension) for _ in range(plan.workers)]
    with tarry.Local(
        plan, dimension, lambda task: do(task, models[task.worker]), sum="everywhere", replicas=models, **wanted
    ) as local:
        yield local, models


@given(
    workers=st.integers(1, 4),
    chunks=st.integers(1, 5),
    replication=st.integers(1, 3),
    dimension=st.integers(1, 40),
    seed=st.integers(0, 1 << 32),
)
@profile(max_examples=max(20, profile().max_examples // 10))
def test_all_have_the_same_parameters_to_the_bit_and_those_of_one_process(
    workers: int, chunks: int, replication: int, dimension: int, seed: int
) -> None:
    plan = tarry.Plan(workers, chunks, replication=min(workers, replication), seed=seed)
    with training(plan, dimension) as (local, models):
        for number in range(3):
            result = local.round()
            assert (result.number, result.exact, result.sum) == (number, True, None)
            assert result.sum_id.step == number + 1
        local.wait(timeout=20)
        assert all(model.steps == 3 for model in models)
        assert all(np.array_equal(model.numbers, models[0].numbers) for model in models)
        assert models[0].numbers == pytest.approx(serial(plan, dimension, 3), abs=1e-5)


def test_the_last_sum_and_the_state_after_it_are_at_hand() -> None:
    with training(PLAN, D) as (local, models):
        with pytest.raises(tarry.StateError, match="nothing was summed yet"):
            local.sum()
        first = local.round().sum_id
        before = -local.sum(timeout=20)
        after, state = local.state(timeout=20)
        assert after == first
        local.wait(timeout=20)  # until all have stepped
        assert state == models[0].save()
        assert before == pytest.approx(models[0].numbers)
        assert tarry.SumId(1, first.term, first.attempt, first.digest) == first


def test_a_run_goes_on_from_a_checkpoint_and_its_state() -> None:
    with training(PLAN, D) as (local, models):
        for _ in range(3):
            local.round()
        local.wait(timeout=20)
        saved = local.checkpoint()
        last, state = local.state(timeout=20)

    models = [Model(D) for _ in range(PLAN.workers)]
    for model in models:
        model.load(state)
        model.last = last
    with tarry.Local(
        PLAN, D, lambda task: do(task, models[task.worker]), sum="everywhere", replicas=models, checkpoint=saved
    ) as local:
        local.stored(local.checkpoint())
        for number in range(3, 5):
            assert local.round().number == number
        local.wait(timeout=20)
        assert all(model.steps == 5 for model in models)
    with training(PLAN, D) as (straight, others):
        for _ in range(5):
            straight.round()
        straight.wait(timeout=20)
    assert np.allclose(models[0].numbers, others[0].numbers, rtol=0, atol=1e-6)


def test_parameters_and_sums_are_not_the_servers() -> None:
    with training(PLAN, D) as (local, _):
        for given_parameters, out in ((np.zeros(D, dtype=np.float32), None), (None, np.zeros(D, dtype=np.float32))):
            with pytest.raises(tarry.ArgumentError, match="where everyone gets the sum"):
                local.round(given_parameters, out=out)
    with tarry.Local(PLAN, D, lambda task: None) as local:
        for ask in (local.sum, local.state):
            with pytest.raises(tarry.StateError, match="its workers have no parameters"):
                ask()


def test_each_worker_needs_a_replica() -> None:
    with pytest.raises(tarry.ArgumentError, match="each of the 3 workers needs a replica"):
        tarry.Local(PLAN, D, lambda task: None, sum="everywhere", replicas=[Model(D)])


def test_an_exception_in_save_is_raised() -> None:
    class Broken(Model):
        def save(self) -> bytes:
            raise ZeroDivisionError("save")

    models = [Broken(D) for _ in range(PLAN.workers)]
    with tarry.Local(PLAN, D, lambda task: do(task, models[task.worker]), sum="everywhere", replicas=models) as local:
        local.round()
        with pytest.raises(tarry.StateError):
            local.state(timeout=0.3)
        with pytest.raises(ZeroDivisionError, match="save"):
            local.round()


# ---- over the network ----


def hire(crew: Crew, worker: int | None = None, **settings: Any) -> Model:
    """A worker that trains a model of its own."""
    model = Model(D)

    def body(worker: tarry.Worker) -> None:
        for task in worker:
            do(task, model)

    def prepare(job: tarry.Job) -> Model:
        assert (job.sum, job.dimension) == ("everywhere", D)
        return model

    crew.hire(body, prepare=prepare, worker=worker, listen="127.0.0.1:0", **settings)
    return model


def test_workers_sum_with_each_other_over_connections() -> None:
    committed: list[tarry.SumId] = []
    with serving(PLAN, D, sum="everywhere", log=committed.append) as (server, crew):
        models = [hire(crew) for _ in range(3)]
        server.wait(timeout=20)
        for _ in range(4):
            assert server.round().exact
        server.wait(timeout=20)
        assert server.state(timeout=20)[1] == models[0].save()
        assert -server.sum(timeout=20) == pytest.approx(models[0].numbers - serial_state(3), abs=1e-5)
    assert [one.step for one in committed] == [1, 2, 3, 4]
    assert all(np.array_equal(model.numbers, models[0].numbers) for model in models)
    assert models[0].numbers == pytest.approx(serial(PLAN, D, 4), abs=1e-5)


def serial_state(steps: int) -> Any:
    return serial(PLAN, D, steps)


def test_a_joiner_loads_the_state_of_the_others() -> None:
    with serving(PLAN, D, sum="everywhere") as (server, crew):
        models = [hire(crew, worker) for worker in range(2)]
        server.wait(2, timeout=20)
        for _ in range(3):
            server.round()
        models.append(hire(crew, 2))
        server.wait(timeout=20)
        assert models[2].loads >= 1
        assert np.array_equal(models[2].numbers, models[0].numbers)
        server.round()
        server.wait(timeout=20)
        assert all(model.steps == 4 for model in models)


def test_what_nobody_has_is_loaded_from_the_server() -> None:
    with serving(PLAN, D, sum="everywhere") as (server, crew):
        for worker in range(3):
            hire(crew, worker)
        server.wait(timeout=20)
        for _ in range(2):
            server.round()
        server.wait(timeout=20)
        saved, job = server.checkpoint(), server.job_id
        after, state = server.state(timeout=20)
    log: list[tarry.SumId] = []
    with serving(
        PLAN,
        D,
        sum="everywhere",
        checkpoint=saved,
        job_id=job,
        log=log.append,
        last=(after, after),
        term=after.term + 1,
    ) as (server, crew):
        server.offer(after, state)
        server.stored(server.checkpoint())
        models = [hire(crew, worker) for worker in range(3)]
        server.wait(timeout=20)
        assert all(model.save() == state for model in models)
        assert server.round().sum_id.step == 3
        server.wait(timeout=20)
    assert models[0].numbers == pytest.approx(serial(PLAN, D, 3), abs=1e-5)


def test_an_exception_in_load_is_raised_by_take() -> None:
    errors: list[BaseException] = []

    class Broken(Model):
        def load(self, state: bytes) -> None:
            raise ZeroDivisionError("load")

    with serving(PLAN, D, sum="everywhere") as (server, crew):
        for worker in range(2):
            hire(crew, worker)
        server.wait(2, timeout=20)
        for _ in range(3):  # who lacks one sum alone fetches that, and loads no state
            server.round()

        def work() -> None:
            broken = Broken(D)
            try:
                with tarry.Worker(
                    crew.address, insecure=True, prepare=lambda job: broken, worker=2, listen="127.0.0.1:0"
                ) as worker:
                    for task in worker:
                        do(task, broken)
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        assert eventually(lambda: server.round().exact and bool(errors))
        assert [str(error) for error in errors] == ["load"]
        assert server.round().exact
        thread.join(20)


def test_an_exception_in_log_is_raised_by_the_round() -> None:
    def log(_committed: tarry.SumId) -> None:
        raise ZeroDivisionError("log")

    with serving(PLAN, D, sum="everywhere", log=log) as (server, crew):
        for worker in range(3):
            hire(crew, worker)
        server.wait(timeout=20)
        with pytest.raises(ZeroDivisionError, match="log"):
            server.round()


def test_a_worker_without_a_replica_hears_that_it_needs_one() -> None:
    with tarry.Server(PLAN, D, listen="127.0.0.1:0", insecure=True, sum="everywhere") as server:
        server.open()
        with (
            tarry.Worker(server.addresses[0], insecure=True) as worker,
            pytest.raises(tarry.StateError, match="`prepare` has to give a replica"),
        ):
            worker.take(20)
