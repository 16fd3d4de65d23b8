# SPDX-License-Identifier: Apache-2.0
"""Plans against brute force."""

import pathlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import q_by_states, worst_conditioning

import tarry


@st.composite
def small_plans(draw: st.DrawFn) -> tarry.Plan:
    workers = draw(st.integers(1, 5))
    replication = draw(st.integers(1, min(3, workers)))
    return tarry.Plan(
        workers,
        draw(st.integers(1, 5)),
        replication=replication,
        parts=draw(st.integers(1, replication)),
        design=draw(st.sampled_from(["random", "cyclic"])),
        order=draw(st.sampled_from(["optimal", "random", "as-is"])),
        seed=draw(st.integers(0, 2**32)),
    )


@given(small_plans())
def test_each_unit_has_its_copies_and_each_order_what_the_worker_holds(plan: tarry.Plan) -> None:
    held = plan.assignment()
    assert held.shape == (plan.workers, plan.units)
    assert np.all(held.sum(axis=0) == plan.settings.replication)
    for worker in range(plan.workers):
        order = plan.order_of(worker)
        assert sorted(order) == list(np.flatnonzero(held[worker]))
    table = plan.table()
    assert len(table["worker"]) == held.sum()
    for worker, position, unit in zip(table["worker"], table["position"], table["unit"], strict=True):
        assert plan.order_of(int(worker))[position] == unit


@given(small_plans())
def test_q_is_that_of_all_states_and_not_below_its_bound(plan: tarry.Plan) -> None:
    for copies in range(1, plan.settings.replication + 1):
        q = plan.q(copies)
        assert q == q_by_states(plan, copies)
        assert plan.q_bound(copies) <= q


@given(small_plans())
def test_workers_that_share_a_unit_decode_it_as_well_as_the_plan_says(plan: tarry.Plan) -> None:
    matrix = plan.decode_matrix()
    assert matrix.shape == (plan.parts, plan.workers)
    found = plan.conditioning()
    assert found.complete
    assert found.worst == pytest.approx(worst_conditioning(plan, plan.parts), rel=1e-9)
    assert found.median <= found.worst


@given(small_plans())
def test_so_many_workers_may_die_whichever_they_are(plan: tarry.Plan) -> None:
    assert plan.endures == plan.settings.replication - plan.parts


@given(small_plans())
def test_the_same_settings_give_the_same_plan(plan: tarry.Plan) -> None:
    settings = plan.settings
    again = tarry.Plan(
        settings.workers,
        settings.chunks,
        replication=settings.replication,
        parts=settings.parts,
        design={0: "cyclic", 2: "random"}[settings.design],
        order={0: "optimal", 1: "random", 2: "as-is"}[settings.order],
        seed=settings.seed,
    )
    for worker in range(plan.workers):
        assert np.array_equal(plan.order_of(worker), again.order_of(worker))
    assert np.array_equal(plan.decode_matrix(), again.decode_matrix())


def test_pieces_make_units_of_chunks() -> None:
    with tarry.Plan(4, 6, pieces=3, replication=2) as plan:
        assert (plan.workers, plan.chunks, plan.pieces, plan.units) == (4, 6, 3, 18)
        assert np.all(plan.assignment().sum(axis=0) == 2)


def test_each_unit_has_three_copies_where_there_are_workers() -> None:
    assert [tarry.Plan(workers).settings.replication for workers in (1, 2, 3, 9)] == [1, 2, 3, 3]


def test_chunks_are_as_many_as_workers_unless_they_are_said() -> None:
    assert tarry.Plan(5).chunks == 5


def test_racks_keep_copies_apart() -> None:
    plan = tarry.Plan(6, 12, replication=2, racks=3)
    held = plan.assignment()
    assert np.all(held[:3].sum(axis=0) == 1)
    assert np.all(held[3:].sum(axis=0) == 1)


def test_a_file_says_who_holds_what(tmp_path: pathlib.Path) -> None:
    (tmp_path / "held").write_text("0 1\n1 2\n2 0\n")
    plan = tarry.Plan(3, 3, file=tmp_path / "held", order="as-is")
    assert [list(plan.order_of(worker)) for worker in range(3)] == [[0, 1], [1, 2], [2, 0]]


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"workers": 0}, tarry.ArgumentError, "workers"),
        ({"workers": -1}, tarry.ArgumentError, "workers is -1"),
        ({"workers": 2.5}, tarry.ArgumentError, "workers is 2.5"),
        ({"workers": "8"}, tarry.ArgumentError, "workers is '8'"),
        ({"chunks": 0}, tarry.ArgumentError, "chunks"),
        ({"pieces": 0}, tarry.ArgumentError, "pieces"),
        ({"workers": 2, "replication": 3}, tarry.ArgumentError, "replication"),
        ({"replication": 2, "parts": 3}, tarry.ArgumentError, "parts"),
        ({"design": "cycle"}, tarry.ArgumentError, "design is 'cycle'; it can be 'cyclic'"),
        ({"design": "file"}, tarry.ArgumentError, "needs file"),
        ({"order": "best"}, tarry.ArgumentError, "order is 'best'; it can be 'optimal'"),
        ({"racks": -2}, tarry.ArgumentError, "racks is -2"),
        ({"seed": -1}, tarry.ArgumentError, "seed is -1"),
        ({"file": "/nowhere/held"}, tarry.FileError, "/nowhere/held"),
        ({"racks": "/nowhere/racks"}, tarry.FileError, "/nowhere/racks"),
    ],
)
def test_what_cannot_be_is_said_with_its_name(settings: dict[str, object], error: type[Exception], said: str) -> None:
    with pytest.raises(error) as raised:
        tarry.Plan(**settings)  # type: ignore[arg-type]
    assert said in str(raised.value)


def test_a_malformed_file_is_a_format_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / "held").write_text("zero\n")
    with pytest.raises(tarry.FormatError, match="held"):
        tarry.Plan(1, 1, file=tmp_path / "held")


def test_questions_out_of_range_are_errors() -> None:
    plan = tarry.Plan(3, 3, replication=2)
    for ask in (
        lambda: plan.order_of(3),
        lambda: plan.order_of(-1),
        lambda: plan.q(0),
        lambda: plan.q(3),
        lambda: plan.q_bound(3),
    ):
        with pytest.raises(tarry.ArgumentError):
            ask()
