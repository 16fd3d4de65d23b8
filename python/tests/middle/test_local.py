# SPDX-License-Identifier: Apache-2.0
"""Server and workers in one process: sums against NumPy, and whatever may go wrong in compute."""

import gc
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import Gradients, assert_sum, eventually

import tarry

Floats = np.ndarray[Any, np.dtype[np.float32]]


def drawn(count: int, seed: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


@st.composite
def plans(draw: st.DrawFn) -> tarry.Plan:
    workers = draw(st.integers(1, 5))
    replication = draw(st.integers(1, workers))
    return tarry.Plan(
        workers,
        draw(st.integers(1, 6)),
        pieces=draw(st.integers(1, 3)),
        replication=replication,
        parts=draw(st.integers(1, min(3, replication))),
        design=draw(st.sampled_from(["random", "cyclic"])),
        order=draw(st.sampled_from(["optimal", "random", "as-is"])),
        seed=draw(st.integers(0, 1 << 32)),
    )


SETTINGS: list[dict[str, Any]] = [
    {},
    {"pick": "plan"},
    {"credit": "whole"},
    {"keep": "all"},
    {"reproducible": True},
    {"keep": "credited", "ahead": 1},
]


@given(
    plan=plans(),
    wanted=st.sampled_from(SETTINGS),
    dimension=st.integers(1, 30),
    parameters=st.integers(1, 4),
    straggler=st.sampled_from(["none", "none", "exp:0.0005", "slow:1,3+shifted-exp:0.0002,0.0005"]),
    seed=st.integers(0, 1 << 32),
)
def test_sums_are_exact(
    plan: tarry.Plan, wanted: dict[str, Any], dimension: int, parameters: int, straggler: str, seed: int
) -> None:
    if plan.parts > 1 and wanted.get("keep") == "credited":
        wanted = {}
    gradients = Gradients(plan, dimension, parameters, seed)
    delays = tarry.Straggler(straggler, plan.workers, seed=seed)
    settings: dict[str, Any] = {"parameters": parameters, "straggler": delays, **wanted}
    with tarry.Local(plan, dimension, gradients.compute, **settings) as local:
        for number in range(2):
            given_parameters = drawn(parameters, seed + number)
            result = local.round(given_parameters)
            assert (result.number, result.exact, result.expected_error) == (number, True, 0.0)
            assert result.copies_needed >= plan.units
            assert_sum(result.sum, gradients, given_parameters)


def surviving(plan: tarry.Plan, failing: set[tuple[int, int]]) -> list[int]:
    """How many copies each unit keeps for certain: of workers that fail nowhere."""
    held = plan.assignment()
    held[[worker for worker, _ in failing]] = False
    return [int(count) for count in held.sum(axis=0)]


def possible(plan: tarry.Plan, failing: set[tuple[int, int]]) -> list[int]:
    """How many copies each unit keeps at most: those that do not fail."""
    held = plan.assignment()
    for worker, unit in failing:
        held[worker, unit] = False
    return [int(count) for count in held.sum(axis=0)]


@given(plan=plans(), failures=st.data(), seed=st.integers(0, 1 << 32))
def test_units_that_fail_are_left_to_others_or_leave_no_sum(plan: tarry.Plan, failures: Any, seed: int) -> None:
    places = [(worker, int(unit)) for worker in range(plan.workers) for unit in plan.order_of(worker)]
    failing: set[tuple[int, int]] = failures.draw(st.sets(st.sampled_from(places), max_size=3))
    gradients = Gradients(plan, 5, 2, seed)

    def compute(task: tarry.Task) -> None:
        if (task.worker, task.unit) in failing:
            task.give(failed=True)
        else:
            gradients.compute(task)

    parameters = drawn(2, seed)
    with tarry.Local(plan, 5, compute, parameters=2, pick="plan") as local:
        try:
            result = local.round(parameters)
        except tarry.CoverageError as error:
            assert min(surviving(plan, failing)) < plan.parts
            assert "round 0" in str(error)
        else:
            assert min(possible(plan, failing)) >= plan.parts
            assert_sum(result.sum, gradients, parameters)


def test_the_sum_goes_where_it_is_wanted() -> None:
    plan = tarry.Plan(3)
    gradients = Gradients(plan, 4, 4, 1)
    parameters = drawn(4, 1)
    out = np.empty((2, 2), dtype=np.float32)
    with tarry.Local(plan, 4, gradients.compute) as local:
        result = local.round(parameters.reshape(2, 2), out=out)
        assert result.sum is not None
        assert np.shares_memory(result.sum, out)
        assert_sum(out.reshape(-1), gradients, parameters)
        assert local.round(parameters).sum is not result.sum


def test_vectors_that_do_not_fit_are_errors_and_the_next_round_is_run() -> None:
    plan = tarry.Plan(3)
    gradients = Gradients(plan, 4, 2, 1)
    parameters = drawn(2, 1)
    with tarry.Local(plan, 4, gradients.compute, parameters=2) as local:
        for given_parameters, out, error in (
            (None, None, tarry.ArgumentError),
            (np.zeros(3, dtype=np.float32), None, ValueError),
            (np.zeros(2), None, TypeError),
            (parameters, np.zeros(2, dtype=np.float32), ValueError),
            (parameters, np.zeros(4), TypeError),
            (parameters, np.zeros(4, dtype=np.float32).data.toreadonly(), ValueError),
        ):
            with pytest.raises(error):
                local.round(given_parameters, out=out)
        both = np.zeros(4, dtype=np.float32)
        with pytest.raises(tarry.ArgumentError, match="out lies where the parameters do"):
            local.round(both[:2], out=both)
        assert_sum(local.round(parameters).sum, gradients, parameters)


def test_a_task_says_what_it_is() -> None:
    plan = tarry.Plan(2, 3, pieces=2, replication=1)
    seen: list[tuple[int, int, list[tarry.Span], int, bool]] = []

    def compute(task: tarry.Task) -> None:
        assert task.parameters is not None
        assert not task.parameters.flags.writeable
        assert (task.is_step, task.dimension, len(task.gradient)) == (False, 4, 4)
        with pytest.raises(tarry.StateError, match="no step, and has no sum"):
            _ = task.sum
        seen.append((task.worker, task.unit, task.spans, task.round, task.cancelled))
        task.gradient = np.ones(4, dtype=np.float32)
        task.gradient += 1

    with tarry.Local(plan, 4, compute, parameters=1) as local:
        assert local.round(np.zeros(1, dtype=np.float32)).sum == pytest.approx([12.0] * 4)
    assert sorted(unit for _, unit, *_ in seen) == list(range(6))
    for worker, unit, spans, number, cancelled in seen:
        assert plan.assignment()[worker, unit]
        assert (number, cancelled) == (0, False)
        assert spans == [tarry.Span(unit, 0, 1, 1)]


def test_a_span_is_a_range_of_samples() -> None:
    assert tarry.Span(3, 0, 1, 1).samples(10) == range(10)
    assert tarry.Span(3, 1, 2, 4).samples(10) == range(2, 7)
    shares = [sample for first in range(7) for sample in tarry.Span(0, first, 1, 7).samples(10)]
    assert shares == list(range(10))


def test_a_task_that_was_given_back_is_void() -> None:
    kept: list[tarry.Task] = []

    def compute(task: tarry.Task) -> None:
        task.gradient[:] = 0
        kept.append(task)
        task.give()

    with tarry.Local(tarry.Plan(1), 2, compute) as local:
        local.round(np.zeros(2, dtype=np.float32))
        assert kept[0].given
        for use in (kept[0].give, lambda: kept[0].gradient, lambda: kept[0].cancelled, lambda: kept[0].spans):
            with pytest.raises(tarry.StateError, match="given back"):
                use()


def test_an_exception_in_compute_is_raised_by_the_round_and_once() -> None:
    plan = tarry.Plan(4, replication=2)
    gradients = Gradients(plan, 3, 3, 1)
    broken = threading.Event()
    broken.set()

    def compute(task: tarry.Task) -> None:
        if broken.is_set():
            raise ZeroDivisionError(f"unit {task.unit}")
        gradients.compute(task)

    parameters = drawn(3, 1)
    with tarry.Local(plan, 3, compute) as local:
        for _ in range(3):
            with pytest.raises(ZeroDivisionError, match="unit"):
                local.round(parameters)
        broken.clear()
        assert_sum(local.round(parameters).sum, gradients, parameters)


def test_an_interrupt_ends_the_round_and_not_the_one_after() -> None:
    plan = tarry.Plan(2, replication=1)
    gradients = Gradients(plan, 3, 3, 1)
    entered, leave = threading.Event(), threading.Event()

    def compute(task: tarry.Task) -> None:
        entered.set()
        assert leave.wait(20)
        gradients.compute(task)

    parameters = drawn(3, 1)
    with tarry.Local(plan, 3, compute) as local:

        def interrupt() -> None:
            assert entered.wait(20)
            local.interrupt()

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(tarry.InterruptedByCaller):
            local.round(parameters)
        thread.join()
        leave.set()
        assert_sum(local.round(parameters).sum, gradients, parameters)
        local.interrupt()
        with pytest.raises(tarry.InterruptedByCaller):
            local.round(parameters)
        assert_sum(local.round(parameters).sum, gradients, parameters)


def test_what_a_straggler_computes_is_cancelled_when_nobody_needs_it() -> None:
    plan = tarry.Plan(2, 2, replication=2)
    heard: list[bool] = []
    entered = threading.Event()

    def compute(task: tarry.Task) -> None:
        if task.worker == 0 and task.round == 0:
            entered.set()
            heard.append(eventually(lambda: task.cancelled))
        assert entered.wait(20)
        task.gradient[:] = 1

    with tarry.Local(plan, 1, compute) as local:
        assert local.round(np.zeros(1, dtype=np.float32)).sum == pytest.approx([2.0])
        assert eventually(lambda: heard == [True])
        assert local.round(np.zeros(1, dtype=np.float32)).exact


def test_workers_tell_what_they_did() -> None:
    plan = tarry.Plan(3, 6, replication=1)
    with tarry.Local(plan, 1, lambda task: task.gradient.fill(1)) as local:
        for _ in range(2):
            local.round(np.zeros(1, dtype=np.float32))
        found = local.workers()
    assert [one.worker for one in found] == [0, 1, 2]
    assert all(one.present for one in found)
    assert sum(one.units for one in found) == 12


def test_costs_are_told_and_checked() -> None:
    plan = tarry.Plan(2, 4, replication=1)
    with tarry.Local(plan, 1, lambda task: task.gradient.fill(1)) as local:
        local.costs([1, 2, 3, 4])
        local.costs(np.ones(4, dtype=np.float32))
        local.costs(None)
        for costs in ([1.0], [1, 2, 3, -1], [1, 2, 3, float("nan")], [1, 2, 3, float("inf")]):
            with pytest.raises(tarry.ArgumentError, match="costs"):
                local.costs(costs)
        assert local.round(np.zeros(1, dtype=np.float32)).exact


def test_a_checkpoint_counts_rounds_on() -> None:
    plan = tarry.Plan(2)
    zeros = np.zeros(1, dtype=np.float32)
    with tarry.Local(plan, 1, lambda task: task.gradient.fill(1)) as local:
        for _ in range(3):
            local.round(zeros)
        saved = local.checkpoint()
        with pytest.raises(tarry.ArgumentError, match="a checkpoint of 3 bytes"):
            local.stored(b"abc")
        local.stored(saved)
    with tarry.Local(plan, 1, lambda task: task.gradient.fill(1), checkpoint=saved) as local:
        local.stored(local.checkpoint())
        assert local.round(zeros).number == 3
    with pytest.raises(tarry.FormatError):
        tarry.Local(plan, 1, lambda task: task.gradient.fill(1), checkpoint=saved[:-1])
    with pytest.raises(tarry.FormatError):
        tarry.Local(tarry.Plan(3), 1, lambda task: task.gradient.fill(1), checkpoint=saved)


@pytest.mark.parametrize(
    ("wanted", "exact", "error"), [({"deadline": 1.0}, False, 0.5), ({"error_limit": 0.6}, False, 0.5)]
)
def test_other_stop_rules_leave_out_what_is_missing(wanted: dict[str, Any], exact: bool, error: float) -> None:
    plan = tarry.Plan(2, 2, replication=1, order="as-is")
    late = threading.Event()

    def compute(task: tarry.Task) -> None:
        if task.worker == 1:
            late.wait(20)
        task.gradient[:] = 1

    with tarry.Local(plan, 1, compute, **wanted) as local:
        result = local.round(np.zeros(1, dtype=np.float32))
        late.set()
    assert (result.exact, result.expected_error) == (exact, pytest.approx(error))
    assert result.sum == pytest.approx([1.0])


def test_a_missing_share_is_filled_by_scale() -> None:
    plan = tarry.Plan(2, 2, replication=1)
    late = threading.Event()

    def compute(task: tarry.Task) -> None:
        if task.worker == 1:
            late.wait(20)
        task.gradient[:] = 1

    with tarry.Local(plan, 1, compute, deadline=1.0, fill="scale") as local:
        result = local.round(np.zeros(1, dtype=np.float32))
        late.set()
    assert result.sum == pytest.approx([2.0])


@pytest.mark.parametrize(
    ("form", "least", "most"),
    [
        ({"compress": "int4"}, 0.05, 0.3),
        ({"compress": "topk", "compress_share": 0.3}, 0.5, 2),
        ({"compress": "sign"}, 1, 8),
        ({"compress": "powersgd", "compress_rank": 6, "compress_matrices": [(30, 30), (1, 40), (10, 5)]}, 0.5, 9),
    ],
)
def test_what_rounding_lost_comes_with_the_next_sums(form: dict[str, Any], least: float, most: float) -> None:
    """So that what all sums are off by does not grow with the rounds; in sign it does as their root."""
    drawn = np.random.default_rng(1).normal(0.5, 1, (4, 3000)).astype(np.float32)
    rounds, total = 40, np.zeros(3000)

    def compute(task: tarry.Task) -> None:
        task.gradient[:] = drawn[task.worker]

    with tarry.Local(tarry.Plan(4, 4, replication=1), 3000, compute, parameters=1, pick="plan", **form) as local:
        for _ in range(rounds):
            found: Any = local.round(np.zeros(1, dtype=np.float32)).sum
            total += found
    one = drawn.sum(axis=0)
    assert least < np.linalg.norm(total - rounds * one) / np.linalg.norm(one) < most


def test_workers_compute_with_a_view_that_follows_the_parameters() -> None:
    """All with the same, to the bit; what rounding lost is in the next change."""
    seen: dict[int, set[bytes]] = {}
    lock = threading.Lock()

    def compute(task: tarry.Task) -> None:
        parameters: Any = task.parameters
        with lock:
            seen.setdefault(task.round, set()).add(parameters.tobytes())
        task.gradient[:] = parameters

    x = drawn(3000, 1)
    with tarry.Local(tarry.Plan(4, 4, replication=2), 3000, compute, compress_down="int8") as local:
        for _ in range(20):
            found: Any = local.round(x).sum
            assert np.abs(found / 4 - x).max() < 1e-3
            x = x + np.float32(0.01) * drawn(3000, 2)
    assert len(seen) == 20 and all(len(views) == 1 for views in seen.values())


def test_sampled_sums_are_right_in_the_mean() -> None:
    """Each chunk has a number of its own, which is 0 or 1/p times its gradient."""
    size = np.array([1, 1, 1, 5], dtype=np.float32)
    rounds, total, sampled = 1000, np.zeros(4), set[int]()

    def compute(task: tarry.Task) -> None:
        task.gradient[:] = 0
        task.gradient[task.unit] = size[task.unit]

    plan = tarry.Plan(2, 4, replication=2)
    with tarry.Local(plan, 4, compute, parameters=1, sample_chunks=2, sample_seed=3) as local:
        for _ in range(rounds):
            result = local.round(np.zeros(1, dtype=np.float32))
            found: Any = result.sum
            assert np.count_nonzero(found) == result.chunks_sampled and result.exact
            sampled.add(result.chunks_sampled)
            total += found
    spread = size / np.sqrt(rounds)  # the chance is a half
    assert np.all(np.abs(total / rounds - size) <= 5 * spread + 0.02)
    assert len(sampled) > 2


def test_a_closed_runtime_says_so() -> None:
    local = tarry.Local(tarry.Plan(2), 1, lambda task: None)
    local.close()
    local.close()
    for use in (
        lambda: local.round(np.zeros(1, dtype=np.float32)),
        local.wait,
        local.workers,
        local.interrupt,
        local.checkpoint,
        lambda: local.costs(None),
        lambda: local.stored(b""),
        local.state,
        local.sum,
    ):
        with pytest.raises(tarry.StateError, match="the local runtime is closed"):
            use()


def test_compute_cannot_close_what_waits_for_it() -> None:
    heard: list[str] = []

    def compute(task: tarry.Task) -> None:
        try:
            local.close()
        except tarry.StateError as error:
            heard.append(str(error))
        task.gradient[:] = 1

    with tarry.Local(tarry.Plan(1), 1, compute) as local:
        assert local.round(np.zeros(1, dtype=np.float32)).exact
    assert heard == ["a compute function can't close the runtime that waits for it"]


def test_closing_in_the_middle_of_a_round_ends_it() -> None:
    entered = threading.Event()

    def compute(task: tarry.Task) -> None:
        entered.set()
        eventually(lambda: task.cancelled)

    local = tarry.Local(tarry.Plan(2, replication=1), 1, compute)
    errors: list[Exception] = []

    def run() -> None:
        try:
            local.round(np.zeros(1, dtype=np.float32))
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert entered.wait(20)
    local.close()
    thread.join(20)
    assert not thread.is_alive()
    assert [type(error) for error in errors] == [tarry.InterruptedByCaller]


def test_arrays_outlive_the_runtime() -> None:
    kept: list[Any] = []

    def compute(task: tarry.Task) -> None:
        kept.append(task.gradient)
        kept.append(task.parameters)
        task.gradient[:] = 3

    with tarry.Local(tarry.Plan(2), 1000, compute) as local:
        local.round(np.ones(1000, dtype=np.float32))
    gc.collect()
    assert all(np.all(np.isfinite(one)) for one in kept)
    kept[0][:] = 5
    assert kept[0].sum() == 5000


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_runtime_that_nobody_has_any_more_ends() -> None:
    before = set(threading.enumerate())
    local = tarry.Local(tarry.Plan(3), 1, lambda task: task.gradient.fill(1))
    local.round(np.zeros(1, dtype=np.float32))
    gone = weakref.ref(local)
    del local
    gc.collect()
    assert gone() is None
    assert eventually(
        lambda: not [one for one in set(threading.enumerate()) - before if one.name.startswith("tarry-worker")]
    )


def test_many_come_and_go() -> None:
    plan = tarry.Plan(2)
    began = time.monotonic()
    for _ in range(50):
        with tarry.Local(plan, 1, lambda task: task.gradient.fill(1)) as local:
            local.round(np.zeros(1, dtype=np.float32))
    assert time.monotonic() - began < 30
    assert eventually(lambda: not [one for one in threading.enumerate() if one.name == "tarry-calls"])
