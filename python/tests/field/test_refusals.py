# SPDX-License-Identifier: Apache-2.0
"""What join and steps cannot work with is refused by a sentence that says what to do."""

import collections
from typing import Any, cast

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")

import tarry.torch as tt  # noqa: E402
from tarry import ArgumentError, StateError  # noqa: E402

X = torch.randn(64, 4)
Y = X.sum(1, keepdim=True)


class Frame:
    """Reads columns by [name] and rows by .iloc, as a pandas DataFrame does."""

    columns = ("x", "y")
    iloc = None

    def __len__(self) -> int:
        return 64

    def __getitem__(self, name: str) -> Any:
        raise KeyError(name)


class Stream(torch.utils.data.IterableDataset):  # type: ignore[misc]
    def __len__(self) -> int:
        return 64

    def __iter__(self) -> Any:
        return iter(X)


def join(data: Any, **options: Any) -> Any:
    model = torch.nn.Linear(4, 1)
    known: dict[str, Any] = {"batch": 16, "piece": 4}
    return tt.join(model, torch.optim.SGD(model.parameters(), lr=0.1), data=data, **(known | options))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (
            {"x": X, "y": Y},
            r"a dict with the keys 'x', 'y', .* a tuple of tensors, as \(data\['x'\], data\['y'\]\), or",
        ),
        (collections.UserDict({"x": X}), r"a UserDict with the keys 'x'"),
        ({"train": Stream(), "test": Stream()}, r"keys 'train', 'test', .*one of its datasets, as data\['train'\]"),
        ([X, Y], r"a list of 2 tensors with 64 rows each, which would be 2 samples.*data=tuple\(data\)"),
        ([X], r"a list of 1 tensors"),
        ((X.numpy(), Y.numpy()), r"a tuple of 2 arrays .*data=tuple\(map\(torch\.as_tensor, data\)\)"),
        ((X, np.zeros(64)), r"a tuple of 2 arrays"),
        (Frame(), r"a Frame, whose \[i\] is a column"),
        (Stream(), r"a Stream, which is an IterableDataset"),
        (torch.utils.data.DataLoader(Stream(), 16), r"a Stream, which is an IterableDataset"),
    ],
)
def test_data_of_other_kinds_are_told(data: Any, why: str) -> None:
    with pytest.raises(ArgumentError, match=why):
        join(data)


@pytest.mark.parametrize(
    "data", [[*X], [X[:5], *[X[:3]] * 15], {place: X[place] for place in range(64)}, X.numpy(), [(X, Y)] * 16]
)
def test_data_by_number_are_taken(data: Any) -> None:
    join(data).close()


def test_columns_to_evaluate_are_told() -> None:
    with join(X) as job, pytest.raises(ArgumentError, match="a list of 2 tensors"):
        job.evaluate([X, X], cast(Any, len))


def test_lists_of_few_samples_that_a_batch_has_are_taken() -> None:
    join([torch.zeros(9), torch.zeros(9)], batch=2, piece=1).close()


def embedding(sparse: bool) -> Any:
    torch.default_generator.manual_seed(1)
    return torch.nn.EmbeddingBag(20, 3, mode="sum", sparse=sparse)


@pytest.mark.parametrize("kind", ["SGD", "Adagrad"])
def test_sparse_gradients_are_summed_as_dense_ones(kind: str) -> None:
    words = torch.randint(0, 20, (64, 5), generator=torch.Generator().manual_seed(1))
    plain = embedding(sparse=True)
    optimizer = getattr(torch.optim, kind)(plain.parameters(), lr=0.1)
    for begin in (0, 32, 0):
        optimizer.zero_grad()
        (plain(words[begin : begin + 32]).square().sum() / 32).backward()
        optimizer.step()
    model = embedding(sparse=True)
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.1)
    with tt.join(model, optimizer, data=words, batch=32, piece=8, shuffle=False) as job:
        for step in job.steps(3):
            step.compute(lambda batch: (model(batch).square().sum(), len(batch)))
            optimizer.step()
    torch.testing.assert_close(model.weight, plain.weight, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("as_other", [False, True])
def test_sparse_adam_is_told_at_join(as_other: bool) -> None:
    model = embedding(sparse=True)
    sparse = torch.optim.SparseAdam(list(model.parameters()), lr=0.1)
    plain = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizers = (plain, sparse) if as_other else (sparse,)
    with pytest.raises(
        ArgumentError, match=r"the optimizer is a SparseAdam, .*pass torch\.optim\.Adam, SGD or Adagrad"
    ):
        tt.join(model, *optimizers, data=torch.zeros(16, 5, dtype=torch.int64), batch=8, piece=4)


def test_lazy_modules_are_told_at_join() -> None:
    model = torch.nn.LazyLinear(2)
    with pytest.raises(ArgumentError, match="the parameter weight has no shape yet: call the model on one batch"):
        tt.join(model, torch.optim.SGD(model.parameters(), lr=0.1), data=X, batch=8, piece=4)


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("at_piece", [0, 1])
def test_parameters_that_are_frozen_on_the_way_are_told(everything: bool, at_piece: int) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(job: tt.Job) -> None:
        for step in job.steps(2):
            for place, piece in enumerate(step):
                if step.number == 1 and place == at_piece:
                    (model if everything else model[1]).requires_grad_(False)
                with piece:
                    piece.backward(model(piece.batch).sum(), weight=4)
            optimizer.step()

    name = r"0\.weight" if everything else r"1\.weight"
    why = rf"the parameter {name} no longer wants a gradient \(requires_grad_\(False\)\): .* or join again"
    with (
        tt.join(model, optimizer, data=X, batch=16, piece=4) as job,
        pytest.raises(StateError, match=why),
    ):
        train(job)
