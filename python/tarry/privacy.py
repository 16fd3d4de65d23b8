# SPDX-License-Identifier: Apache-2.0
"""What sums with Gaussian noise cost in privacy: an accountant of differential privacy.

    import tarry.privacy

    tarry.privacy.epsilon(noise=1.5, sample=0.04, steps=2250, delta=1e-5)     # 6.7688
    tarry.privacy.noise(epsilon=3, sample=0.04, steps=2250, delta=1e-5)       # 2.7606

It is about trainings that clip what each example adds to a sum, draw each example into a step's batch by itself with
the probability `sample`, and add noise of `noise` times that clip to each sum. All figures are upper bounds
(docs/privacy.md).
"""

from typing import Any

from ._native import ffi, lib
from .errors import Diagnostic
from .names import put, value_of

ACCOUNTANTS = {
    "best": lib.TARRY_ACCOUNTANT_BEST,
    "pld": lib.TARRY_ACCOUNTANT_PLD,
    "rdp": lib.TARRY_ACCOUNTANT_RDP,
}


def epsilon(*, noise: float, sample: float, steps: int, delta: float, accountant: str = "best") -> float:
    """An epsilon such that `steps` sums are (epsilon, delta)-private; infinity: the accountant has none.

    accountant  'pld': by the distribution of the privacy loss; 'rdp': by Renyi divergences; 'best': the lesser of both

    Raises ArgumentError.
    """
    settings = _settings(noise, sample, steps)
    return _ask(lib.tarry_privacy_epsilon, settings, delta, value_of(ACCOUNTANTS, accountant, "accountant"))


def delta(*, noise: float, sample: float, steps: int, epsilon: float, accountant: str = "best") -> float:
    """A delta for an epsilon, the other way round."""
    settings = _settings(noise, sample, steps)
    return _ask(lib.tarry_privacy_delta, settings, epsilon, value_of(ACCOUNTANTS, accountant, "accountant"))


def noise(*, epsilon: float, sample: float, steps: int, delta: float, accountant: str = "best") -> float:
    """The least noise, to 1 part in 10,000, with which `steps` sums are (epsilon, delta)-private."""
    settings = _settings(1.0, sample, steps)
    return _ask(lib.tarry_privacy_noise, settings, epsilon, delta, value_of(ACCOUNTANTS, accountant, "accountant"))


def _settings(noise: float, sample: float, steps: int) -> Any:
    settings = ffi.new("tarry_privacy_settings *")
    lib.tarry_privacy_settings_init_sized(settings, ffi.sizeof("tarry_privacy_settings"))
    for name, value in (("noise", noise), ("sample", sample), ("steps", steps)):
        put(settings, name, value)
    return settings


def _ask(function: Any, settings: Any, *question: float) -> float:
    found, why = ffi.new("double *"), Diagnostic()
    why.check(function(settings, *question, ffi.NULL, found, why.pointer))
    return found[0]
