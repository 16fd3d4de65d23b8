# SPDX-License-Identifier: Apache-2.0
"""A worker of a training with secure sums: what it refuses, what its samples are, and how it computes."""

import dataclasses
import hashlib
import logging
import platform
from typing import Any, NamedTuple, cast

import numpy as np
import torch

from ..errors import ArgumentError, StateError, refuse
from ..hub import Agreement, Member
from ..hub.secure import bound_of, job_text, least_of
from ..replica import Replica
from ..secure import SecureMember
from ..worker import Job
from .data_digest import CallEach
from .loader import Loader
from .members import Members
from .private import check_norms
from .seeding import kept_random, seed_all, seed_data

_LOG = logging.getLogger("tarry.secure")
UNTOLD = (
    "with secure nobody learns it of the training samples: no loss, no metrics and no weight are summed. job.evaluate "
    "tells of others"
)


def check_model(model: torch.nn.Module) -> None:
    """Copies of a piece have to have the same bits, whoever computes it, and nothing but gradients is summed. Raises
    ArgumentError."""
    check_norms(model, "secure", "their changes would have to be summed, and the grid has one bound for all numbers")
    for name, one in model.named_parameters():
        if one.device.type != "cpu":
            raise ArgumentError(f"secure does not go with {name} on {one.device}: copies were tried on CPUs alone")
    if not torch.are_deterministic_algorithms_enabled():
        raise ArgumentError(
            "secure wants the same bits from all who compute a piece: call torch.use_deterministic_algorithms(True) "
            "before tarry.torch.join"
        )


def check_options(**given: Any) -> None:
    """Options of `join` that are not the usual ones. Raises ArgumentError."""
    why = {
        "batch": "each step is over all samples",
        "drop_last": "each step is over all samples",
        "dp": "noise in secure sums is not there",
        "metrics": UNTOLD,
        "buffers": "the grid has one bound for all numbers",
        "scaler": "whether a gradient is infinite would have to be told",
    }
    refuse("secure", {f"{name}: {why[name]}": bool(is_given) for name, is_given in given.items()})


def check_weight(weight: float, samples: int) -> None:
    """Of a piece. Raises ArgumentError."""
    if weight != samples:
        raise ArgumentError(
            f"with secure a step's weight is known before, and that of this piece its {samples} samples: "
            f"backward was given {weight:g}"
        )


def check_unused(**given: Any) -> None:
    """Settings of secure sums where they are not secure. Raises ArgumentError."""
    for name, is_given in given.items():
        if is_given:
            raise ArgumentError(f"{name} is for secure=True")


def numerics() -> str:
    """All that decides the bits of a gradient, as far as that is known: in words, and a small one by way of example."""
    probe = hashlib.sha256()
    with kept_random():
        seed_all(1, 0, 0)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3), torch.nn.GELU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 33), torch.nn.Tanh()
        )
        inputs = torch.randn(19, 3, 8, 8)
        loss = model(inputs).softmax(1).log().square().sum()
        for one in torch.autograd.grad(loss, list(model.parameters())):
            probe.update(one.detach().to(torch.float32).contiguous().numpy().tobytes())
    return (
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.machine()}, {probe.hexdigest()[:16]}"
    )


def digest_of(loader: Loader, seed: int) -> bytes:
    """Of the samples, one after the other, as they are loaded; what is random in them goes by the seed."""
    found = hashlib.sha256(f"tarry.torch: {loader.samples} samples".encode())
    with kept_random():
        for sample in range(loader.samples):
            if not loader.draws_nothing:
                seed_data(seed, 0, sample)
            _add(found, loader.load([sample]))
    return found.digest()


def _add(found: Any, value: Any) -> None:
    """Each kind with its shape, so that no two are taken for each other. Raises ArgumentError."""
    if isinstance(value, torch.Tensor):
        numbers = value.detach().to("cpu").contiguous()
        found.update(f"tensor {numbers.dtype} {tuple(numbers.shape)} ".encode())
        found.update(numbers.reshape(-1).view(torch.uint8).numpy().tobytes() if numbers.numel() else b"")
    elif isinstance(value, np.ndarray):
        array = np.ascontiguousarray(cast("np.ndarray[Any, Any]", value))
        found.update(f"array {array.dtype} {array.shape} ".encode() + array.tobytes())
    elif isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        found.update(f"dict {len(items)} ".encode())
        for name, one in items:
            found.update(f"{name!r} ".encode())
            _add(found, one)
    elif isinstance(value, list | tuple):
        parts: list[Any] = list(cast("list[Any]", value))
        found.update(f"list {len(parts)} ".encode())
        for one in parts:
            _add(found, one)
    elif isinstance(value, bool | int | float | str | bytes | type(None)):
        found.update(f"{value!r} ".encode())
    else:
        raise ArgumentError(
            f"secure wants samples of tensors, numbers and texts, so that all know that they have the same, and not of "
            f"a {type(value).__name__}"
        )


def state_of(members: Members, seed: int, step: int) -> bytes:
    """A digest of all that a step's gradients depend on besides the samples, with what others can't see."""
    how = f"{torch.get_num_threads()} {torch.are_deterministic_algorithms_enabled()} {torch.get_default_dtype()}"
    return hashlib.sha256(f"{seed} {step} {how} ".encode() + members.digest()).digest()


class Wanted(NamedTuple):
    """Settings of `join`."""

    colluders: int
    least: int
    bound: float
    bits: int
    piece_samples: int


def agreed(agreement: Agreement, loader: Loader, wanted: Wanted, each: CallEach) -> Agreement:
    """With all that workers of secure sums have to have in common besides. Reads all samples, by `each`: in a process
    that loads, if there is one, so that this one opens no files before others are forked from it."""
    (digest,) = each(digest_of, [(agreement.seed,)])
    return dataclasses.replace(
        agreement,
        secure=True,
        secure_colluders=wanted.colluders,
        secure_least=least_of(loader.samples, wanted.least),
        secure_bound=float(bound_of(agreement.piece, wanted.bound)),
        secure_bits=wanted.bits,
        secure_piece_samples=wanted.piece_samples,
        data=digest.hex(),
        numerics=numerics(),
    )


class Secret:
    """What this worker insists on, beside its credentials, and what its gradients depend on."""

    def __init__(self, agreement: Agreement, member: Member) -> None:
        """Raises Error."""
        assert member.folder is not None
        self._text = job_text(agreement)
        samples, piece = agreement.samples, agreement.piece
        self.member = SecureMember(
            member.folder,
            samples,
            bytes.fromhex(agreement.data),
            begins=[*range(0, samples, piece), samples],
            colluders=agreement.secure_colluders,
            least=agreement.secure_least,
            bound=agreement.secure_bound,
            bits=agreement.secure_bits,
            unit_samples=agreement.secure_piece_samples,
            numerics=agreement.numerics,
            names=("secure_colluders", "secure_least", "secure_bound", "secure_bits", "secure_piece_samples"),
            tell=_LOG.warning,
        )

    def prepare(self, job: Job) -> Replica | None:
        """The hub says of the training what this worker does."""
        if job.description != self._text:
            raise StateError("the hub's server is of another training than the hub has agreed on with this worker")
        return None

    def close(self) -> None:
        self.member.close()
