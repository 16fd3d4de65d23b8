# SPDX-License-Identifier: Apache-2.0
"""What decides the bits that a worker computes: in words, and as a digest of a few small computations."""

import contextlib
import hashlib
import os
import platform
import re
from typing import Any, cast

import torch

# Settings by which libraries choose their kernels.
_SETTINGS = ("ATEN_CPU_CAPABILITY", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA", "OPENBLAS_CORETYPE")
_MANY = 1 << 17  # numbers that threads share out among themselves


def kind_of(device: torch.device) -> str:
    """The processor, what PyTorch uses of it, PyTorch, its libraries and its threads."""
    config = torch.__config__.show()
    parts = [_processor(), f"CPU capability {_capability(config)}", f"PyTorch {torch.__version__}", *_libraries(config)]
    parts.append(f"{torch.get_num_threads()} threads")
    parts += [f"{name}={os.environ[name]}" for name in _SETTINGS if os.environ.get(name)]
    if device.type == "cuda":
        parts.insert(0, cast(Any, torch.cuda).get_device_name(device))
    return f"({', '.join(parts)})"


def _processor() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return " ".join(value.split())
    return platform.processor() or platform.machine()


def _capability(config: str) -> str:
    found = getattr(getattr(torch.backends, "cpu", None), "get_cpu_capability", None)
    if found is not None:
        return str(found())
    told = re.search(r"CPU capability usage: (\S+)", config)  # PyTorch before 2.0
    return told[1] if told else "unknown"


def _libraries(config: str) -> list[str]:
    """Of linear algebra, as PyTorch was built with."""
    found = [
        f"{name} {told[1]}"
        for name, pattern in (
            ("MKL", r"Math Kernel Library Version (\S+)"),
            ("oneDNN", r"(?:MKL-DNN|oneDNN)\D{0,3}v?(\d[\d.]*)"),
            ("BLAS", r"BLAS_INFO=(\w+)"),
        )
        if (told := re.search(pattern, config))
    ]
    return found or ["an unknown math library"]


def probe(device: torch.device) -> str:
    """A digest of products, a convolution, functions and sums, forward and backward. Workers that compute the same bits
    have the same one; of those that don't, most have another."""
    found = hashlib.sha256()
    with cast(Any, torch.random).fork_rng(devices=[]), torch.enable_grad():
        for one in _computations(device):
            found.update(one.detach().to("cpu", torch.float32).contiguous().numpy().tobytes())
    return found.hexdigest()[:16]


def _numbers(*shape: int, scale: float = 1.0) -> torch.Tensor:
    """Between -scale and scale. Made of whole numbers, so that they are the same everywhere."""
    count = 1
    for size in shape:
        count *= size
    places = torch.arange(count, dtype=torch.int64)
    return (((places * 7919 + 104729) % 65537 - 32768).to(torch.float32) / 32768 * scale).reshape(shape)


def _computations(device: torch.device) -> list[torch.Tensor]:
    functional = torch.nn.functional
    left, right = _numbers(67, 129).to(device), _numbers(129, 65).to(device)
    inputs = _numbers(5, 3, 12, 12).to(device).requires_grad_()
    kernel = _numbers(8, 3, 3, 3).to(device).requires_grad_()
    matrix = _numbers(33, 800, scale=0.1).to(device).requires_grad_()
    many = _numbers(_MANY, scale=4.0).to(device)
    hidden = functional.gelu(functional.conv2d(inputs, kernel)).flatten(1)
    outputs = functional.linear(functional.layer_norm(hidden, [800]), matrix)
    loss = outputs.tanh().log_softmax(1).square().sum()
    gradients = torch.autograd.grad(loss, [inputs, kernel, matrix])
    step = torch.nn.Parameter(many.clone())
    step.grad = many.flip(0) / 3
    cast(Any, torch.optim.Adam([step], lr=0.1)).step()
    return [
        left @ right, (left.to(torch.bfloat16) @ right.to(torch.bfloat16)), outputs, *gradients, step.data,
        many.exp(), many.sigmoid(), many.sin(), many.abs().sqrt(), many.sum(), cast(Any, many).norm(), many.std(),
        many.lerp(many.flip(0), 0.3),
    ]  # fmt: skip
