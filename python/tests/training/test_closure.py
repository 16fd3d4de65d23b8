# SPDX-License-Identifier: Apache-2.0
"""Steps by a function of a batch: the same training as by a loop over pieces."""

from typing import Any

import pytest

pytest.importorskip("torch")
import torch

import tarry.torch as tt

STEPS = 7


def train(by_function: bool, where: str) -> "tuple[torch.Tensor, list[dict[str, float]]]":
    torch.default_generator.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(0.3), torch.nn.Linear(3, 1))
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.05)
    inputs = torch.randn(50, 4)
    loss_of = torch.nn.MSELoss(reduction="sum")

    def of_batch(batch: "list[torch.Tensor]") -> "tuple[torch.Tensor, float, dict[str, float]]":
        x, y = batch
        return loss_of(model(x), y), len(y), {"largest": float(x.abs().max())}

    told: list[dict[str, float]] = []
    with tt.join(
        model, optimizer, data=(inputs, inputs[:, :1]), batch=20, piece=4, metrics=("largest",), reproducible=True,
        sum=where,
    ) as job:  # fmt: skip
        if by_function:
            while step := job.step(of_batch, STEPS):
                optimizer.step()
                told.append(step.metrics)
            assert job.step(of_batch, STEPS) is None
        else:
            for step in job.steps(STEPS):
                for piece in step:
                    with piece:
                        loss, weight, metrics = of_batch(piece.batch)
                        piece.add(**metrics)
                        piece.backward(loss, weight=weight)
                optimizer.step()
                told.append(step.metrics)
        assert job.done == STEPS
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach(), told


@pytest.mark.parametrize("where", ["everywhere", "server"])
def test_a_function_of_a_batch_is_as_good_as_a_loop(where: str) -> None:
    (one, metrics), (other, others) = train(True, where), train(False, where)
    assert torch.equal(one, other)
    for ours, theirs in zip(metrics, others, strict=True):
        assert {**ours, "seconds": 0} == {**theirs, "seconds": 0}
    assert len(metrics) == STEPS
