# SPDX-License-Identifier: Apache-2.0
"""Gradients have the strides of their parameters, and states keep them."""

import pathlib
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import tarry.torch as tt  # noqa: E402
from tarry import StateError  # noqa: E402
from tarry.hub.client import Refused  # noqa: E402
from tarry.torch import state, strides  # noqa: E402
from tarry.torch.layout import Layout  # noqa: E402

CHANNELS: Any = torch.channels_last
SAMPLES, BATCH, PIECE, STEPS = 32, 16, 4, 6


class Odd(torch.nn.Module):
    """Parameters of every kind of strides, each used."""

    def __init__(self, flat: bool = False) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        torch.default_generator.manual_seed(2)
        made: dict[str, Any] = {
            "plain": torch.randn(5, 6),
            "transposed": torch.randn(6, 5).t(),
            "channels": torch.randn(4, 3, 2, 2).contiguous(memory_format=CHANNELS),
            "permuted": torch.randn(2, 3, 4, 5).permute(3, 1, 0, 2),
            "one_by_one": torch.randn(7, 4, 1, 1).contiguous(memory_format=CHANNELS),
            "row": torch.randn(1, 9),
            "scalar": torch.tensor(0.5),
            "empty": torch.randn(0, 3),
            "sliced": torch.randn(5, 8)[:, ::2],
        }
        for name, one in made.items():
            self.register_parameter(name, torch.nn.Parameter(one.contiguous() if flat else one))

    def forward(self, x: Any) -> Any:
        total = sum((one * weight).sum() for one, weight in zip(self.parameters(), self.weights(), strict=True))
        return (x * total).sum()

    def weights(self) -> list[Any]:
        """What each number counts: another one each, by its place in the tensor."""
        return [1e-2 * torch.arange(one.numel(), dtype=torch.float32).view(one.shape) for one in self.parameters()]


DENSE = ("plain", "transposed", "channels", "permuted", "one_by_one", "row", "scalar")


def adam(model: Any, fused: bool) -> Any:
    """PyTorch has AdamW in a fused form for CPUs since 2.4."""
    if fused and not hasattr(torch, "compile"):
        pytest.skip("of PyTorch 2")
    return torch.optim.AdamW(model.parameters(), lr=1e-2, **({"fused": True} if fused else {}))


def loss_of(model: Any, x: Any) -> Any:
    return model(x) * 1e-2


def train(model: Any, optimizer: Any, steps: int = STEPS, **options: Any) -> None:
    data = torch.randn(SAMPLES, 1, generator=torch.Generator().manual_seed(4))
    with tt.join(model, optimizer, data=data, batch=BATCH, piece=PIECE, shuffle=False, **options) as job:
        for step in job.steps(steps):
            step.compute(lambda x: (loss_of(model, x), len(x)))
            for name, one in model.named_parameters():
                if name in DENSE:
                    assert one.grad.stride() == one.stride(), name
            optimizer.step()


def alone(model: Any, optimizer: Any) -> None:
    data = torch.randn(SAMPLES, 1, generator=torch.Generator().manual_seed(4))
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        begin = step * BATCH % SAMPLES
        for x in data[begin : begin + BATCH].split(PIECE):
            (loss_of(model, x) / BATCH).backward()
        optimizer.step()


def apart(ours: Any, other: Any) -> float:
    """A fused optimizer of PyTorch alone goes wrong with parameters that have gaps in memory, so those are left out."""
    known = dict(other.named_parameters())
    pairs = [(one.detach(), known[name].detach()) for name, one in ours.named_parameters() if name in DENSE]
    return max(float((one - its).abs().max()) for one, its in pairs)


@pytest.mark.parametrize("fused", [False, True])
def test_a_training_is_that_of_pytorch_alone(fused: bool) -> None:
    ours, other, flat = Odd(), Odd(), Odd(flat=True)
    train(ours, adam(ours, fused))
    alone(other, adam(other, fused))
    alone(flat, adam(flat, fused))
    assert apart(ours, other) < 1e-5 and apart(ours, flat) < 1e-5


@pytest.mark.parametrize("fused", [False, True])
def test_a_resume_keeps_strides_and_the_training(fused: bool, tmp_path: pathlib.Path) -> None:
    """The optimizer's state, too: a fused step goes through it in the order of memory."""
    ours, other = Odd(), Odd()
    train(ours, adam(ours, fused), steps=3, checkpoint=tmp_path / "run.ckpt")
    resumed = Odd()
    optimizer = adam(resumed, fused)
    train(resumed, optimizer, checkpoint=tmp_path / "run.ckpt")
    alone(other, adam(other, fused))
    assert apart(resumed, other) < 1e-5
    for name, one in resumed.named_parameters():
        assert one.stride() == dict(Odd().named_parameters())[name].stride(), name
        if name in DENSE:
            assert optimizer.state[one]["exp_avg"].stride() == one.stride(), name


def test_an_optimizer_gets_the_strides_of_its_parameters_with_any_state() -> None:
    """As a checkpoint has it that a contiguous model wrote."""
    ours, flat = Odd(), Odd(flat=True)
    optimizer, its = adam(ours, False), adam(flat, False)
    alone(flat, its)
    optimizer.load_state_dict(its.state_dict())
    strides.restride(optimizer)
    for own, other in zip(ours.parameters(), flat.parameters(), strict=True):
        assert torch.equal(optimizer.state[own]["exp_avg"], its.state[other]["exp_avg"])
    assert optimizer.state[ours.transposed]["exp_avg"].stride() == ours.transposed.stride()


def test_states_have_strides() -> None:
    given = {name: one.detach() for name, one in Odd().named_parameters()}
    found, _ = state.decode(state.encode(given, {}))
    for name, one in given.items():
        assert torch.equal(found[name], one)
        if name in DENSE:
            assert found[name].stride() == one.stride(), name


def test_members_have_the_same_strides() -> None:
    """The line of a parameter that differs is what the refusal shows."""
    lines = Layout(Odd(), (), ()).describe().splitlines()
    flat = Layout(Odd(flat=True), (), ()).describe().splitlines()
    differ = [(one, its) for one, its in zip(lines, flat, strict=True) if one != its]
    assert {one.split()[0] for one, _ in differ} == {"transposed", "channels", "permuted"}
    assert differ[0] == (
        "transposed (5, 6) float32, strides (1, 5)",
        "transposed (5, 6) float32, strides (6, 1)",
    )


def test_matrices_have_rows_in_memory() -> None:
    """What low rank is made of: a transposed parameter is the transposed matrix."""
    expected = [(5, 6), (6, 5), (4, 12), (2, 60), (7, 4), (1, 10), (5, 4)]  # row and scalar are one vector
    assert Layout(Odd(), (), ()).matrices() == expected


def test_strides_that_change_after_join_are_told() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 2), torch.nn.Flatten())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with (
        pytest.raises(
            StateError, match=r"0\.weight was with strides \(12, 4, 2, 1\) and is with strides \(12, 1, 6, 3\)"
        ),
        tt.join(model, optimizer, data=torch.randn(8, 3, 2, 2), batch=8, piece=4) as job,
    ):
        model.to(memory_format=CHANNELS)
        for step in job.steps(1):
            step.compute(lambda x: (model(x).sum(), len(x)))


def test_a_worker_with_other_strides_is_refused(tmp_path: pathlib.Path) -> None:
    """As one that goes on from the other's checkpoint is."""
    ours = Odd()
    train(ours, adam(ours, False), steps=1, checkpoint=tmp_path / "run.ckpt")
    flat = Odd(flat=True)
    with pytest.raises(Refused, match=r"transposed .*strides \(6, 1\).*transposed .*strides \(1, 5\)"):
        train(flat, adam(flat, False), steps=2, checkpoint=tmp_path / "run.ckpt")
