# SPDX-License-Identifier: Apache-2.0
"""What a piece loads, and pieces of one sample that a batch norm refuses."""

import pathlib
import sys
import warnings
from typing import Any

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "training"))
import runs

torch: Any = pytest.importorskip("torch")

import tarry.torch as tt  # noqa: E402
from tarry import Error  # noqa: E402

SCRIPT = str(pathlib.Path(__file__).parent / "scripts" / "lone")
kinds = torch.utils.data


class Counted(kinds.Dataset):  # type: ignore[misc]
    """Counts what is read of it."""

    def __init__(self) -> None:
        self.x = torch.randn(32, 4)
        self.read = 0

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> dict[str, Any]:
        self.read += 1
        return {"x": self.x[index], "noise": torch.rand(1)}


@pytest.mark.parametrize("loaders", [0, 1])
def test_a_piece_is_loaded_once(loaders: int) -> None:
    data, model = Counted(), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tt.join(
        model, optimizer, data=data, batch=16, piece=4, loaders=loaders, data_check="off"
    ) as job:  # fmt: skip
        for step in job.steps(2):
            for piece in step:
                before = piece.batch
                with piece:
                    assert piece.batch is before and torch.equal(piece.batch["noise"], before["noise"])
                    piece.backward(model(piece.batch["x"]).sum() + piece.batch["noise"].sum(), weight=4)
            optimizer.step()
    assert data.read == (0 if loaders else 32)


def normed() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))


def heard(samples: int, model: Any = None, **options: Any) -> str:
    """What join warns of."""
    model = normed() if model is None else model
    data = kinds.TensorDataset(torch.randn(samples, 4))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        tt.join(model, torch.optim.SGD(model.parameters(), lr=0.1), data=options.pop("of", data), **options).close()
    return " ".join(str(one.message) for one in found if "batch norm" in str(one.message))


def test_pieces_of_one_sample_are_told_at_join() -> None:
    last = "the last batch of each epoch has 1 sample, and a piece of it has only one. Give join drop_last=True"
    assert last in heard(65, batch=16, piece=8)
    assert "has 9 samples, and a piece of it has only one. Give join drop_last" in heard(25, batch=16, piece=8)
    every = heard(64, batch=17, piece=8)
    assert "each batch has 17 samples" in every and "drop_last=True does not help" in every
    assert "each batch" in heard(64, batch=4, piece=1)
    data = kinds.TensorDataset(torch.randn(65, 4))
    sampler = kinds.WeightedRandomSampler(torch.ones(65), 65)
    assert "the last batch of an epoch has 1 sample" in heard(65, batch=16, piece=8, sampler=sampler)
    loader = kinds.DataLoader(data, batch_size=16, shuffle=True)
    assert "Give join drop_last=True" in heard(65, of=loader, piece=8)


def test_pieces_that_no_batch_norm_refuses_are_not_told() -> None:
    assert heard(65, batch=16, piece=8, drop_last=True) == ""
    assert heard(64, batch=16, piece=8) == ""
    assert heard(66, batch=16, piece=8) == ""
    assert heard(65, torch.nn.Linear(4, 1), batch=16, piece=8) == ""
    assert heard(65, normed().eval(), batch=16, piece=8) == ""
    loader = kinds.DataLoader(kinds.TensorDataset(torch.randn(65, 4)), batch_size=16, drop_last=True)
    assert heard(65, of=loader, piece=8) == ""


@pytest.mark.filterwarnings("ignore:the last batch")
def test_a_piece_that_a_batch_norm_refuses_names_drop_last() -> None:
    model = normed()
    with (
        pytest.raises(Error, match=r"step 1, piece 0 has one sample, and a batch norm .* drop_last=True"),
        tt.join(model, torch.optim.SGD(model.parameters(), lr=0.1), data=torch.randn(17, 4), batch=16, piece=8) as job,
    ):
        for step in job.steps(2):
            step.compute(lambda x: (model(x).sum(), len(x)))


def test_it_ends_all_workers_once() -> None:
    ended = runs.run(SCRIPT, workers=3)
    assert ended.returncode == 1
    assert "Give join drop_last=True" in ended.stderr.splitlines()[0] + ended.stderr.splitlines()[1]
    last = ended.stderr.strip().splitlines()[-1]
    assert "Error: step 2, piece 0 has one sample" in last and "drop_last" in last
