# SPDX-License-Identifier: Apache-2.0
"""Values in the state of a training come back with the types that they had."""

import collections
import enum
import os
import pathlib
import random
import subprocess
import sys
from typing import Any, NamedTuple, cast

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")

import tarry.torch as tt  # noqa: E402
from tarry import FormatError  # noqa: E402
from tarry.torch import state  # noqa: E402


class Pair(NamedTuple):
    x: int
    y: Any


class Mode(enum.IntEnum):
    FAST = 1
    SLOW = 2


class Settings(dict[str, Any]):
    """A dict with attributes, whose constructor must not be called again."""

    def __init__(self, note: str) -> None:
        super().__init__()
        self.note = note


class Text(str): ...


def made(value: Any, note: str) -> Any:
    found = Settings(note)
    found.update(value)
    return found


VALUES: dict[str, Any] = {
    "counter": collections.Counter({30: 1, 80: 2}),
    "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
    "defaultdict": collections.defaultdict(list, {1: [2]}),
    "defaultdict without": collections.defaultdict(None, {"x": 1}),
    "set": {3, 1, "x", (1, 2)},
    "frozenset": frozenset({1.5, None}),
    "deque": collections.deque([1, 2], maxlen=5),
    "range": range(2, 9, 3),
    "bytes": b"\x00\xff",
    "no bytes": b"",
    "bytearray": bytearray(b"ab"),
    "complex": complex(float("-inf"), 0.1),
    "pair": Pair(1, [2.0]),
    "mode": Mode.SLOW,
    "keys": {1: "a", "1": "b", 2.5: "c", None: "d", (1, "x"): "e", True + 1: "f", Mode.FAST: "g", np.int64(7): "h"},
    "double": np.float64(0.1),
    "half": np.float16(0.5),
    "long": np.int64(3),
    "flag": np.bool_(True),
    "text": np.str_("ä"),
    "day": np.datetime64("2026-11-28"),
    "settings": made({"a": (1,)}, "note"),
    "subclass": Text("abc"),
    "size": torch.Size([2, 3]),
    "dtype": torch.bfloat16,
    "device": torch.device("cpu"),
    "random": random.Random(3).getstate(),
    "generator": np.random.default_rng(3).bit_generator.state,
    "large": 1 << 200,
}


def same_type(one: Any, other: Any) -> bool:
    """Recursively."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        one, other = list(cast(Any, one).items()), list(other.items())
    if isinstance(one, list | tuple | collections.deque):
        return all(same_type(*pair) for pair in zip(cast("list[Any]", one), other, strict=True))
    return True


@pytest.mark.parametrize("name", VALUES)
def test_types_survive(name: str) -> None:
    value = VALUES[name]
    text = state.encode({"value": value}, {})
    found = state.decode(text)[0]["value"]
    assert found == value and same_type(found, value)
    assert getattr(found, "__dict__", {}) == getattr(value, "__dict__", {})
    if isinstance(value, collections.deque):
        assert found.maxlen == value.maxlen
    if isinstance(value, collections.defaultdict):
        assert found.default_factory is value.default_factory
    assert state.encode({"value": found}, {}) == text


@pytest.mark.parametrize(
    "array", [np.arange(6, dtype=np.uint32).reshape(2, 3).T, np.zeros((0, 3)), np.array(["ab", "c"]), np.array(1.5)]
)
def test_arrays_survive(array: Any) -> None:
    found = state.decode(state.encode({"value": array}, {}))[0]["value"]
    assert type(found) is np.ndarray and found.dtype == array.dtype and found.shape == array.shape
    assert np.array_equal(found, array) and found.flags.writeable


def test_tensors_survive_beside_keys_that_look_alike() -> None:
    values = {1: torch.tensor([1.0]), "1": torch.tensor([2.0]), "p": torch.nn.Parameter(torch.zeros(2), False)}
    found = state.decode(state.encode({"value": values}, {}))[0]["value"]
    assert float(found[1]) == 1 and float(found["1"]) == 2
    assert type(found["p"]) is torch.nn.Parameter and not found["p"].requires_grad


def test_the_bytes_do_not_depend_on_the_process() -> None:
    """The order of a set of texts differs between processes."""
    script = "from tarry.torch import state; print(state.encode({'x': {'a', 'b', 'c', 'd', ('e', 1)}}, {}).hex())"
    found = {
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


class Unknown:
    __slots__ = ()


def local() -> Any:
    class Local(dict[str, Any]): ...

    return Local()


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (Unknown(), r"a\.b: a Unknown can't be saved without pickle"),
        (local(), r"a\.b: a local\.<locals>\.Local can't be saved without pickle, because no module has its class"),
        (cast(Any, collections.defaultdict)(lambda: 0), r"a\.b: a defaultdict with the default_factory <function"),
        (np.array([object()]), r"a\.b: a ndarray of object can't be saved"),
        ({torch.zeros(1): 1}, r"a\.b: a key of Tensor can't be saved"),
        (torch.zeros(2, 2).max(0), r"a\.b: a torch\.return_types\.max can't be saved without pickle"),
    ],
)
def test_what_can_not_be_made_again_is_told(value: Any, why: str) -> None:
    with pytest.raises(FormatError, match=why):
        state.encode({"a": {"b": value}}, {})


def test_classes_that_a_process_does_not_have_are_told() -> None:
    text = state.encode({"value": Text("abc")}, {})
    other = text.replace(b"Text", b"Tixt")
    with pytest.raises(FormatError, match=r"Tixt, which is no str in this process"):
        state.decode(other)
    with pytest.raises(FormatError, match="which is no str in this process"):
        state.decode(text.replace(b"Text", b"Mode"))


class WithExtra(torch.nn.Linear):  # type: ignore[misc]
    """A module with a version, and a state of its own that is no tensor."""

    _version = 3

    def __init__(self) -> None:
        super().__init__(3, 1)  # pyright: ignore[reportUnknownMemberType]
        self.seen: set[int] = set()
        self.loaded: Any = None

    def get_extra_state(self) -> Any:
        return {"seen": self.seen}

    def set_extra_state(self, state: Any) -> None:
        self.seen = state["seen"]

    def _load_from_state_dict(self, state: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        self.loaded = local_metadata.get("version")
        super()._load_from_state_dict(state, prefix, local_metadata, *rest)  # pyright: ignore[reportUnknownMemberType]


def test_a_training_that_goes_on_has_the_types_of_before(tmp_path: pathlib.Path) -> None:
    for steps in (2, 4):
        model = WithExtra()
        optimizer = torch.optim.SGD(model.parameters(), lr=np.float64(0.1), momentum=0.9)
        scheduler: Any = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 3, 3])
        with tt.join(
            model, optimizer, scheduler, data=torch.ones(16, 3), batch=8, piece=4, checkpoint=tmp_path / "run.ckpt"
        ) as job:
            for step in job.steps(steps):
                step.compute(lambda x, model=model: (model(x).sum(), len(x)))
                optimizer.step()
                scheduler.step()
                model.seen.add(step.number)
        milestones: Any = scheduler.milestones
        assert type(milestones) is collections.Counter and milestones == {1: 1, 3: 2}
        assert type(optimizer.param_groups[0]["initial_lr"]) is np.float64
        assert scheduler.last_epoch == steps and model.seen == set(range(steps))
    assert model.loaded == 3
