# SPDX-License-Identifier: Apache-2.0
"""Samples that other processes load in advance."""

import os
import pathlib
import signal
from typing import Any

import pytest
import runs
from test_training import EACH_SUM

torch = pytest.importorskip("torch")

import tarry.torch as tt  # noqa: E402
from tarry import ArgumentError, Error  # noqa: E402
from tarry.torch.loader import Loader  # noqa: E402
from tarry.torch.prefetch import Prefetcher  # noqa: E402

WORKERS = 3


class Squares:
    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> tuple[int, int]:
        if index == 999:
            os.kill(os.getpid(), signal.SIGKILL)
        return index * index, os.getpid()


def samples_of(step: int, unit: int) -> list[int]:
    return [] if unit == 5 else [100 * step + unit]


def test_what_is_expected_is_loaded_elsewhere_and_the_rest_here() -> None:
    made = Prefetcher(Loader(Squares(), None), lambda _unit: 1, samples_of, 1)
    made.expect([3, 1, 5, 4])
    for step in range(3):
        for unit, elsewhere in ((3, True), (9, False), (1, True), (4, True), (3, False)):
            value, pid = made.load(step, unit)
            assert int(value[0]) == (100 * step + unit) ** 2
            assert (int(pid[0]) != os.getpid()) == elsewhere, (step, unit)
    made.close()


def test_a_process_that_dies_is_told() -> None:
    made = Prefetcher(Loader(Squares(), None), lambda _unit: 1, lambda _step, _unit: [999], 1)
    made.expect([0])
    with pytest.raises(Error, match="a process that loads samples has died"):
        made.load(0, 0)
    made.close()


def told(lines: list[str], word: str) -> list[list[str]]:
    return [line.split()[1:] for line in lines if line.startswith(word + " ")]


@EACH_SUM
def test_whoever_loads_them_pieces_are_the_same(where: str) -> None:
    """Random numbers of the dataset and of the model alike."""
    found: list[list[list[str]]] = []
    for loaders in (0, 2):
        lines = runs.succeed("loading", 20, loaders, "--sum", where, workers=WORKERS)
        ends = told(lines, "end")
        assert len(ends) == WORKERS and ends[0] == ends[1] == ends[2], lines
        found.append(ends)
        there = [int(there) / (int(here) + int(there)) for here, there in told(lines, "loaded")]
        assert len(there) == WORKERS and (min(there) > 0.6 if loaders else max(there) == 0), lines
    assert found[0] == found[1]


def is_there(pid: int) -> bool:
    return pathlib.Path(f"/proc/{pid}").exists()


def test_who_loads_ends_with_its_worker() -> None:
    with runs.running("loading", 100_000, 2, workers=1) as process:
        pid = int(runs.await_line(process, "begins").split()[-1])
        loaders = runs.children(pid)
        assert len(loaders) >= 2
        os.kill(pid, signal.SIGKILL)
        runs.await_true("a process is left", lambda: not any(is_there(one) for one in loaders))


def test_what_the_dataset_raises_is_told() -> None:
    ended = runs.run("loading", 20, 2, "--break", workers=1)
    assert ended.returncode != 0 and "OSError: sample 17 can't be read" in ended.stderr


@pytest.mark.parametrize(("data", "loaders"), [(torch.zeros(8, 2), 2), (Squares(), -1)])
def test_counts_that_can_not_be_are_told(data: Any, loaders: int) -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ArgumentError, match="processes that load samples"):
        tt.join(model, optimizer, data=data, batch=4, piece=2, loaders=loaders)
