# SPDX-License-Identifier: Apache-2.0
"""What processes of a bench are started with."""

import os
import pathlib
import socket

HERE = pathlib.Path(__file__).resolve().parent


def environment(**more: str) -> dict[str, str]:
    """One thread each, and the modules of this folder."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{HERE}:{os.environ.get('PYTHONPATH', '')}"} | more


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
