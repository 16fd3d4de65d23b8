# SPDX-License-Identifier: Apache-2.0
"""Dtypes: what is summed as float32 says so, what overflows or changes is an error, and states have every dtype."""

import logging
import pathlib
from collections.abc import Callable
from typing import Any, cast

import pytest

torch: Any = pytest.importorskip("torch")

import tarry.torch as tt  # noqa: E402
from tarry import ArgumentError, Error, StateError  # noqa: E402
from tarry.torch import state  # noqa: E402

KNOWN = cast("dict[str, Any]", vars(torch))
DTYPES: list[tuple[str, Any]] = sorted(
    (str(one), one) for one in {one for one in KNOWN.values() if isinstance(one, torch.dtype)}
)
QUANTIZED = {"torch.qint8", "torch.quint8", "torch.qint32"}
# PyTorch itself can neither make nor copy tensors of these.
REFUSED = {"torch.quint4x2", "torch.quint2x4"}
DATA = (torch.linspace(-1, 1, 48).view(16, 3), torch.linspace(0, 1, 16).view(16, 1))


def network(dtype: Any = torch.float32) -> Any:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).to(dtype)


def train(
    model: Any, *, after: Callable[[Any], Any] | None = None, scale: float = 1.0, add: float = 0.0, **options: Any
) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with tt.join(model, optimizer, data=DATA, batch=8, piece=4, metrics=("extra",), **options) as job:
        if after is not None:
            after(model)
        for step in job.steps(2):
            for piece in step:
                with piece:
                    x, y = (one.to(next(model.parameters()).dtype) for one in piece.batch)
                    piece.add(extra=add)
                    piece.backward(((model(x) - y) ** 2).sum() * scale, weight=len(x))
            optimizer.step()


def test_float64_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="tarry.torch"):
        train(network())
        assert not caplog.records
        train(network(torch.float64))
    (record,) = caplog.records
    assert "0.weight and 3 more: gradients of float64 parameters are summed as float32" in record.getMessage()


def test_numbers_that_float32_does_not_have_are_told() -> None:
    with pytest.raises(Error, match=r"step 0, piece \d: extra is 1e\+39, and sums are float32, up to 3.4e\+38"):
        train(network(), add=1e39)
    with pytest.raises(Error, match=r"step 0, piece \d: the gradient of \S+ has \d\S+e\+\d\d, and sums are float32"):
        train(network(torch.float64), scale=1e45)

    class Constant(torch.nn.Module):
        """A large loss with a small gradient."""

        def __init__(self) -> None:
            super().__init__()  # pyright: ignore[reportUnknownMemberType]
            self.one = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))

        def forward(self, x: Any) -> Any:
            return self.one * x[:, :1] + 1e20

    with pytest.raises(Error, match=r"step 0, piece \d: loss is 4e\+40"):
        train(Constant())


def halved(model: Any) -> None:
    model.half()


def in_bfloat16(model: Any) -> None:
    model.to(torch.bfloat16)


def partly_double(model: Any) -> None:
    model[2].double()


def elsewhere(model: Any) -> None:
    model.to("meta")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (halved, r"torch\.float32 and is torch\.float16 now"),
        (in_bfloat16, r"torch\.float32 and is torch\.bfloat16 now"),
        (partly_double, r"2\.weight was torch\.float32 and is torch\.float64 now"),
        (elsewhere, r"on cpu and is on meta now|is another tensor"),
    ],
)
def test_a_model_that_changes_after_join_is_told(change: Any, words: str) -> None:
    with pytest.raises(StateError, match=words):
        train(network(), after=change)


def test_complex_numbers_are_refused_with_advice() -> None:
    model = network()
    model.w = torch.nn.Parameter(torch.randn(2, dtype=torch.complex64))
    with pytest.raises(ArgumentError, match=r"parameter w has numbers of torch.complex64.*view_as_real"):
        train(model)
    model = network()
    model.register_buffer("phase", torch.randn(2, dtype=torch.complex64))
    with pytest.raises(ArgumentError, match=r"buffer phase has numbers of torch.complex64.*view_as_real"):
        train(model, buffers="phase")


def a_tensor(name: str, dtype: Any) -> Any:
    """With every bit pattern of a byte, as far as the dtype has it."""
    if name in QUANTIZED:
        return torch.quantize_per_tensor(torch.linspace(-1, 1, 12).view(3, 4), 0.02, 3, dtype)
    numbers = torch.arange(256, dtype=torch.uint8)
    return (numbers % 2).bool() if dtype == torch.bool else numbers.view(dtype)


def bits(one: Any) -> bytes:
    return (one.int_repr() if one.is_quantized else one.reshape(-1).view(torch.uint8)).numpy().tobytes()


@pytest.mark.parametrize("name,dtype", [pair for pair in DTYPES if pair[0] not in REFUSED])
def test_a_state_has_every_dtype_bit_for_bit(name: str, dtype: Any) -> None:
    given = {"own": a_tensor(name, dtype), "scalar": a_tensor(name, dtype).reshape(-1)[1], "none": torch.empty(0, 2)}
    if name in QUANTIZED:
        del given["scalar"]
    found, _ = state.decode(state.encode(given, {}))
    for place, one in given.items():
        assert found[place].dtype == one.dtype and found[place].shape == one.shape
        assert bits(found[place]) == bits(one), place
    if name in QUANTIZED:
        assert found["own"].q_scale() == 0.02 and found["own"].q_zero_point() == 3


def test_quantized_channels_and_conjugates() -> None:
    scales, zeros = torch.tensor([0.1, 0.2, 0.5], dtype=torch.float64), torch.tensor([0, 3, 1])
    channels = torch.quantize_per_channel(torch.linspace(-1, 1, 12).view(3, 4), scales, zeros, 0, torch.qint8)
    turned = torch.randn(4, dtype=torch.complex64).conj()
    found, _ = state.decode(state.encode({"channels": channels, "turned": turned}, {}))
    assert torch.equal(found["channels"].dequantize(), channels.dequantize())
    assert torch.equal(found["turned"], turned.resolve_conj())


def test_a_training_resumes_with_buffers_of_all_dtypes(tmp_path: pathlib.Path) -> None:
    """Those that PyTorch can copy, as loading does."""
    kept: dict[str, Any] = {}
    for name, dtype in DTYPES:
        try:
            kept[name.replace(".", "_")] = a_tensor(name, dtype).clone()
        except (RuntimeError, NotImplementedError):
            assert name.startswith(("torch.int", "torch.uint", "torch.q")), name
    assert len(kept) >= 13
    for again in (False, True):
        model = network()
        for name, one in kept.items():
            model.register_buffer(name, one.clone())
            if again and not one.is_quantized:
                getattr(model, name).view(torch.uint8).zero_()
        if again:
            with tt.join(
                model,
                torch.optim.SGD(model.parameters(), lr=0.01),
                data=DATA,
                batch=8,
                piece=4,
                metrics=("extra",),
                checkpoint=tmp_path / "run.ckpt",
            ):
                pass
        else:
            train(model, checkpoint=tmp_path / "run.ckpt")
        for name, one in kept.items():
            assert bits(getattr(model, name)) == bits(one), name
