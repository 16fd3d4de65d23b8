# SPDX-License-Identifier: Apache-2.0
"""Stragglers that are injected."""

import pytest

import tarry


def test_nobody_is_delayed_by_none() -> None:
    straggler = tarry.Straggler("none", 3)
    assert [straggler.seconds(0, worker, 0, 0, 0.5) for worker in range(3)] == [0.5, 0.5, 0.5]


def test_so_many_are_so_much_slower() -> None:
    straggler = tarry.Straggler("slow:1,5", 4)
    assert sorted(straggler.seconds(0, worker, 0, 0, 0.1) for worker in range(4)) == pytest.approx([0.1, 0.1, 0.1, 0.5])


def test_the_dead_never_end() -> None:
    straggler = tarry.Straggler("dead:1", 3)
    dead = [worker for worker in range(3) if straggler.is_dead(worker)]
    assert len(dead) == 1
    assert straggler.seconds(0, dead[0], 0, 0, 0.1) == float("inf")


def test_the_same_seed_draws_the_same() -> None:
    first, second, other = (tarry.Straggler("exp:0.01", 2, seed=seed) for seed in (7, 7, 8))
    drawn = [[one.seconds(number, 1, 0, 0, 0.0) for number in range(20)] for one in (first, second, other)]
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]


def test_pieces_share_what_a_chunk_is_delayed_by() -> None:
    straggler = tarry.Straggler("slow:1,3", 1)
    assert straggler.seconds(0, 0, 0, 0, 0.25, pieces=4) == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("spec", "workers", "error"),
    [
        ("slower:1", 4, tarry.FormatError),
        ("slow:9,2", 4, tarry.ArgumentError),
        ("trace:/nowhere/trace", 4, tarry.FileError),
    ],
)
def test_a_spec_that_cannot_be_is_an_error(spec: str, workers: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        tarry.Straggler(spec, workers)


def test_a_worker_that_there_is_not_is_an_error() -> None:
    straggler = tarry.Straggler("none", 2)
    with pytest.raises(tarry.ArgumentError, match="worker 2 of 2"):
        straggler.seconds(0, 2, 0, 0, 1.0)
    with pytest.raises(tarry.ArgumentError, match="worker -1 of 2"):
        straggler.is_dead(-1)
    with pytest.raises(tarry.ArgumentError, match="base is -1"):
        straggler.seconds(0, 0, 0, 0, -1.0)
