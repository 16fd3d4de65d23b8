# SPDX-License-Identifier: Apache-2.0
"""Dtypes: which parameters are summed as float32, and tensors of every dtype as bytes."""

import logging
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

import torch

from ..errors import ArgumentError, FormatError
from ..hub import blob

_LOG = logging.getLogger("tarry.torch")

# As safetensors names them. Dtypes that are unknown there have PyTorch's names.
_NAMES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "bool": "BOOL",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
}
_ATTRIBUTES = {name: attribute for attribute, name in _NAMES.items()}


def name_of(dtype: torch.dtype) -> str:
    return _NAMES.get(attribute_of(dtype), attribute_of(dtype))


def dtype_of(name: str) -> torch.dtype:
    """Raises FormatError for a dtype that this PyTorch does not have."""
    found: Any = getattr(torch, _ATTRIBUTES.get(name, name), None)
    if not isinstance(found, torch.dtype):
        raise FormatError(f"the state has a tensor of dtype {name}, which PyTorch {torch.__version__} does not have")
    return found


def attribute_of(dtype: torch.dtype) -> str:
    """'float32' of torch.float32."""
    return str(dtype).removeprefix("torch.")


def bytes_of(value: torch.Tensor) -> blob.Blob:
    """The numbers in the order of a contiguous tensor: the tensor's own memory, if it is one on the CPU."""
    flat = value.detach().to("cpu").resolve_conj().resolve_neg().contiguous()
    return flat.reshape(-1).view(torch.uint8).numpy().data if flat.numel() else b""


def tensor_of(numbers: memoryview | bytes, dtype: torch.dtype, shape: list[int]) -> torch.Tensor:
    if len(numbers) == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(numbers), dtype=dtype).reshape(shape)


# ---- quantized tensors ----


class Quantized(NamedTuple):
    """The whole numbers of a quantized tensor, and what they stand for. `scale` and `zero` are tensors, with the
    dimension `axis` for each of whose places they hold; or numbers, and `axis` is -1."""

    whole: torch.Tensor
    scale: Any
    zero: Any
    axis: int


def split_quantized(name: str, value: torch.Tensor) -> Quantized:
    """Raises FormatError."""
    known: Any = value.detach().to("cpu")
    if known.dtype in (torch.qint8, torch.quint8, torch.qint32):
        if known.qscheme() == torch.per_tensor_affine:
            return Quantized(known.int_repr(), float(known.q_scale()), int(known.q_zero_point()), -1)
        if known.qscheme() == torch.per_channel_affine:
            scales, zeros = known.q_per_channel_scales(), known.q_per_channel_zero_points()
            return Quantized(known.int_repr(), scales, zeros, int(known.q_per_channel_axis()))
    raise FormatError(f"{name}: a quantized tensor of {value.dtype} can't be saved; save its parts as tensors")


def join_quantized(parts: Quantized) -> torch.Tensor:
    made: Any = torch
    if parts.axis < 0:
        return made._make_per_tensor_quantized_tensor(parts.whole, parts.scale, parts.zero)
    return made._make_per_channel_quantized_tensor(parts.whole, parts.scale, parts.zero, parts.axis)


# ---- parameters ----


def check_real(name: str, what: str, one: torch.Tensor) -> None:
    """Raises ArgumentError."""
    if one.is_complex():
        raise ArgumentError(
            f"the {what} {name} has numbers of {one.dtype}: only real ones are summed. Keep torch.view_as_real of it, "
            "with a last dimension of 2, and use torch.view_as_complex in forward"
        )
    if what == "parameter" and not one.is_floating_point():
        raise ArgumentError(f"the parameter {name} has numbers of {one.dtype}: only real ones are summed")


def tell_of_double(parameters: Iterable[tuple[str, torch.Tensor]]) -> None:
    """Says once that float64 is summed as float32."""
    names = [name for name, one in parameters if one.dtype == torch.float64]
    if names:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        _LOG.warning(
            "%s%s: gradients of float64 parameters are summed as float32, with a relative error of about 1e-7. The "
            "parameters themselves stay float64",
            cast(Any, names[0]),
            more,
        )
