# SPDX-License-Identifier: Apache-2.0
"""The coordinator of a training: agrees with workers on what they train, and runs the rounds. It knows no model.

Workers are processes that may die and come again; the hub outlives them. They talk to it by a few lines (wire.py), and
do the work over a tarry.Server that it starts. tarry.torch has the workers' side; `tarry run` starts a hub and workers.
"""

from .agreement import Agreement
from .client import Client
from .hub import Hub
from .trust import ON_THIS_MACHINE, Member, Security

__all__ = ["ON_THIS_MACHINE", "Agreement", "Client", "Hub", "Member", "Security"]
