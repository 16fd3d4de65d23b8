# SPDX-License-Identifier: Apache-2.0
"""The same random numbers for the same piece, whoever computes it."""

import contextlib
import hashlib
import random
from collections.abc import Generator
from typing import Any

import numpy as np
import torch


def seed_all(seed: int | str, step: int, unit: int) -> None:
    """Seeds PyTorch, Python's random and NumPy's legacy generator."""
    _seed_with(f"{seed} {step} {unit}")


def seed_data(seed: int | str, step: int, unit: int) -> None:
    """The same for what is random in a dataset."""
    _seed_with(f"{seed} {step} {unit} data")


def seed_order(seed: int, epoch: int) -> int:
    """The same for what is random in a sampler. Gives a number for generators of its own."""
    return _seed_with(f"{seed} {epoch} order")


def _seed_with(text: str) -> int:
    digest = hashlib.blake2b(text.encode(), digest_size=12).digest()
    number = int.from_bytes(digest[:8], "little")
    # torch.manual_seed looks for devices by way of a traceback: half a millisecond for each piece.
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(number)
    random.seed(number)
    np.random.seed(int.from_bytes(digest[8:], "little"))
    return number


@contextlib.contextmanager
def kept_random() -> Generator[None]:
    """Random numbers go on afterwards as if none had been drawn."""
    cuda: Any = torch.cuda
    kept = torch.get_rng_state(), random.getstate(), np.random.get_state()
    devices: list[torch.Tensor] = cuda.get_rng_state_all() if cuda.is_initialized() else []
    try:
        yield
    finally:
        torch.set_rng_state(kept[0])
        random.setstate(kept[1])
        np.random.set_state(kept[2])
        if devices:
            cuda.set_rng_state_all(devices)
