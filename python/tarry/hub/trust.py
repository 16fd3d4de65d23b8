# SPDX-License-Identifier: Apache-2.0
"""Who may talk to whom, by the credentials of `tarry keys`, as the library's connections have it.

A certificate says by its only common name what its owner may be: 'server', 'worker-3', 'worker' (any number) or others
that have no business with a hub.
"""

import contextlib
import dataclasses
import os
import re
from collections.abc import Mapping
from typing import Any, Self

from ..errors import ArgumentError, FileError
from . import address as addresses

_WORKER = re.compile(r"worker(?:-(0|[1-9][0-9]{0,5}))?", re.ASCII)


@dataclasses.dataclass(frozen=True)
class Security:
    """How the processes of a training prove who they are. Over Unix sockets the system says it.

    credentials  a member's folder, as `tarry keys` makes it, or one with a folder for each member; None: none
    insecure     plain text in their place, on loopback addresses
    force        insecure: anywhere; everybody who can connect can take part
    """

    credentials: str | None = None
    insecure: bool = False
    force: bool = False

    @classmethod
    def told_by(cls, environment: Mapping[str, str]) -> Self:
        """TARRY_CREDENTIALS, and TARRY_INSECURE: '1', or 'force'."""
        word = environment.get("TARRY_INSECURE", "")
        if word not in ("", "1", "force"):
            raise ArgumentError(f"the environment has TARRY_INSECURE={word!r}, and 1 or force is wanted")
        return cls(environment.get("TARRY_CREDENTIALS") or None, insecure=bool(word), force=word == "force")

    def environment(self, worker: int) -> dict[str, str]:
        """That makes this worker take part."""
        if self.credentials is not None:
            return {"TARRY_CREDENTIALS": self.of_worker(worker).folder or "", "TARRY_INSECURE": ""}
        plain = "force" if self.force else "1"
        return {"TARRY_CREDENTIALS": "", "TARRY_INSECURE": plain} if self.insecure else {}

    def of_server(self) -> "Member":
        return self._member("server")

    def of_worker(self, worker: int) -> "Member":
        """The worker's own, or that of any worker."""
        return self._member(f"worker-{worker}", "worker")

    def of_workers(self, first: int | None) -> "Member":
        """For who looks after several workers: that of the first; None: that of any, or of the lowest that is there."""
        if first is not None:
            return self.of_worker(first)
        there: list[str] = []
        with contextlib.suppress(OSError):
            there = os.listdir(self.credentials) if self.credentials is not None else []
        numbers = sorted(int(name.removeprefix("worker-")) for name in there if number_of(name) is not None)
        return self._member("worker", *(f"worker-{number}" for number in numbers))

    def _member(self, *names: str) -> "Member":
        folder = self.credentials
        if folder is None:
            return Member(self, None)
        if self.insecure:
            raise ArgumentError("credentials and plain text don't go together")
        if not os.path.exists(os.path.join(folder, "cert.pem")):
            found = [name for name in names if os.path.exists(os.path.join(folder, name, "cert.pem"))]
            if not found:
                raise FileError(f"{folder} has no cert.pem, and no folder {' or '.join(names)} with one")
            folder = os.path.join(folder, found[0])
        return Member(self, folder)


ON_THIS_MACHINE = Security()


@dataclasses.dataclass(frozen=True)
class Member:
    """One of those who take part; folder None: without credentials."""

    security: Security
    folder: str | None

    def library(self, address: str) -> dict[str, Any]:
        """What servers, workers and control connections take for this address. Raises ArgumentError for what is not
        allowed."""
        if addresses.is_unix(address):
            return {"insecure": True}
        self.check(address)
        if self.folder is not None:
            return {"credentials": self.folder}
        return {"insecure": True, "force": self.security.force}

    def check(self, address: str) -> None:
        """Plain text leaves this machine where that was asked for alone."""
        if self.folder is not None or addresses.is_unix(address):
            return
        if not self.security.insecure:
            raise ArgumentError(
                f"{address}: over a network there have to be credentials (tarry keys; --credentials or "
                "TARRY_CREDENTIALS), or plain text, if everybody who can connect may take part (--insecure --force, "
                "TARRY_INSECURE=force)"
            )
        if not self.security.force and not addresses.is_loopback(address):
            raise ArgumentError(
                f"{address}: plain text is for loopback addresses, unless it is forced (--force, TARRY_INSECURE=force)"
            )


def number_of(name: str) -> int | None:
    """Of the worker that the owner of a certificate of that name is; None: it may be any, or is none."""
    found = _WORKER.fullmatch(name)
    return int(found[1]) if found is not None and found[1] is not None else None
