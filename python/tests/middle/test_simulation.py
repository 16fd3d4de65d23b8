# SPDX-License-Identifier: Apache-2.0
"""Rounds in virtual time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tarry


@given(
    workers=st.integers(1, 6),
    chunks=st.integers(1, 6),
    pieces=st.integers(1, 3),
    straggler=st.sampled_from(["none", "slow:1,5", "exp:0.2", "slow:1,2+exp:0.1"]),
    seed=st.integers(0, 1 << 32),
)
def test_without_copies_a_round_takes_as_long_as_its_slowest_worker(
    workers: int, chunks: int, pieces: int, straggler: str, seed: int
) -> None:
    plan = tarry.Plan(workers, chunks, pieces=pieces, replication=1, seed=seed)
    found = tarry.simulate(plan, rounds=3, straggler=straggler, seed=seed, pick="plan")
    drawn = tarry.Straggler(straggler, workers, seed=seed)
    base = 0.0 if "exp" in straggler else 1 / pieces  # it says itself what a chunk takes
    for number in range(3):
        times = [
            sum(
                drawn.seconds(number, worker, position, int(unit), base, pieces=pieces)
                for position, unit in enumerate(plan.order_of(worker))
            )
            for worker in range(workers)
        ]
        assert found["seconds"][number] == pytest.approx(max(times), abs=1e-7)
    assert np.all(found["exact"])


@given(
    workers=st.integers(2, 8),
    chunks=st.integers(1, 8),
    straggler=st.sampled_from(["none", "slow:1,5", "exp:0.2", "markov:0.2,0.5,5"]),
    pick=st.sampled_from(["plan", "share"]),
    seed=st.integers(0, 1 << 32),
)
def test_no_round_is_over_before_the_least_time_of_its_draws(
    workers: int, chunks: int, straggler: str, pick: str, seed: int
) -> None:
    plan = tarry.Plan(workers, chunks, pieces=2, replication=2, seed=seed)
    found = tarry.simulate(plan, rounds=3, straggler=straggler, seed=seed, pick=pick)  # type: ignore[arg-type]
    assert np.all(found["seconds"] >= found["balanced"] * (1 - 1e-9))
    assert np.all(found["copies_computed"] >= plan.units)
    assert np.all(found["workers_heard"] <= workers)


def test_the_same_arguments_give_the_same_table() -> None:
    plan = tarry.Plan(6, 6, pieces=4)
    first, second = (tarry.simulate(plan, rounds=5, straggler="slow:2,4+exp:0.05", seed=3) for _ in range(2))
    assert list(first) == list(second)
    for name in first:
        assert np.array_equal(first[name], second[name])


def test_a_round_that_comes_to_nothing_takes_for_ever() -> None:
    plan = tarry.Plan(2, 2, replication=1)
    found = tarry.simulate(plan, rounds=2, straggler="dead:1", bounds=False)
    assert np.all(np.isinf(found["seconds"]))
    assert not np.any(found["exact"])


def test_no_rounds_give_a_table_without_rows() -> None:
    found = tarry.simulate(tarry.Plan(2), rounds=0)
    assert "seconds" in found
    assert all(len(column) == 0 for column in found.values())


def test_bounds_are_left_out_on_demand() -> None:
    found = tarry.simulate(tarry.Plan(4), rounds=1, bounds=False)
    assert "balanced" not in found
    assert "matched" not in found


def test_a_deadline_leaves_out_what_came_later() -> None:
    plan = tarry.Plan(4, 4, replication=1)
    found = tarry.simulate(plan, rounds=1, straggler="slow:1,10", deadline=2.0, pick="plan")
    assert found["expected_error"][0] == pytest.approx(0.25)
    assert not found["exact"][0]


@pytest.mark.parametrize("way", ["star", "ring", "direct"])
def test_each_way_to_sum_can_be_simulated(way: str) -> None:
    plan = tarry.Plan(4, 4, pieces=4)
    found = tarry.simulate(plan, rounds=2, way=way, dimension=1000, latency=1e-4, bytes_per_second=1e9)
    assert np.all(np.isfinite(found["seconds"]))


def test_links_take_their_time() -> None:
    plan = tarry.Plan(2, 2, replication=1)
    settings = {"rounds": 1, "dimension": 1_000_000, "pick": "plan"}
    without = tarry.simulate(plan, **settings)  # type: ignore[arg-type]
    slow = tarry.simulate(plan, bytes_per_second=4e6, **settings)  # type: ignore[arg-type]
    assert slow["seconds"][0] >= without["seconds"][0] + 1.0  # 4 MB over 4 MB/s
    assert slow["upload_bytes"][0] >= 2 * 4_000_000


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"way": "around"}, "way is 'around'"),
        ({"upload": "half"}, "upload is 'half'"),
        ({"latency": -1.0}, "latency is -1"),
        ({"dimension": -1}, "dimension must be a whole number from 1 to 1099511627776, not '-1'"),
        ({"chunk_seconds": "1"}, "chunk_seconds is '1'"),
        ({"bytes_per_second": 0.0}, ""),
    ],
)
def test_what_cannot_be_is_an_error(wanted: dict[str, object], said: str) -> None:
    with pytest.raises(tarry.ArgumentError) as raised:
        tarry.simulate(tarry.Plan(2), rounds=1, **wanted)  # type: ignore[arg-type]
    assert said in str(raised.value)
