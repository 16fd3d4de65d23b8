# SPDX-License-Identifier: Apache-2.0
"""`tarry run`: starts the workers of a training on this machine, and its hub."""

from .launcher import main

__all__ = ["main"]
