# SPDX-License-Identifier: Apache-2.0
"""Steps among workers, whose library says what the test says."""

import types
from typing import Any
from unittest import mock

import pytest

pytest.importorskip("torch")
import tarry
from tarry.results import SumId
from tarry.torch.among_workers import AmongWorkers
from tarry.torch.sums import Summed


def among(done: int, last: int, step: int) -> AmongWorkers:
    """Of a worker that begins after `done` steps, of which the server knows `last`, and is given the sum of `step`."""
    task = types.SimpleNamespace(is_step=True, step=step, sum=[1.0], give=lambda: None)
    worker: Any = types.SimpleNamespace(take=mock.Mock(return_value=task))
    standing, client = mock.Mock(done=done), mock.Mock()
    return AmongWorkers(standing, client, SumId(last, 0, 0, 0) if last else None, mock.Mock(return_value=worker))


@pytest.mark.parametrize(("done", "last"), [(0, 0), (7, 0), (7, 7), (12, 5)])
def test_a_step_is_the_next_one(done: int, last: int) -> None:
    assert isinstance(among(done, last, last + 1).take(), Summed)
    for step in (last, last + 2):
        with pytest.raises(
            tarry.Error, match=f"the sum of step {done - last + step} came to a model that has taken {done} steps"
        ):
            among(done, last, step).take()
