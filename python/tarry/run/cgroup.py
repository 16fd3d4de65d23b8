# SPDX-License-Identifier: Apache-2.0
"""What control groups (version 1 or 2) allow this process, and how many processes the kernel killed for memory."""

import contextlib
import math
import os
import pathlib
from collections.abc import Iterator


class ControlGroups:
    """Reads what the kernel says. Files that are missing or odd set no limit."""

    def __init__(self, root: pathlib.Path = pathlib.Path("/")) -> None:
        """root: where proc/ and sys/ are; tests have their own."""
        self._root = root

    def processors(self) -> float:
        """How many this process may use: those of its affinity, or a quota of CPU time, which may be a fraction."""
        quotas = [quota for folder in self._folders("cpu") if (quota := _quota(folder)) is not None]
        return min([float(len(os.sched_getaffinity(0))), *quotas])

    def out_of_memory_kills(self) -> int:
        """Processes of this group that the kernel killed because memory ran out; of the machine, if the group has no
        count."""
        for folder in self._folders("memory"):
            for name in ("memory.events", "memory.oom_control"):
                count = _field(folder / name, "oom_kill")
                if count is not None:
                    return count
        return _field(self._root / "proc/vmstat", "oom_kill") or 0

    def _folders(self, controller: str) -> Iterator[pathlib.Path]:
        """The group's folders that may have files of the controller, the innermost first."""
        with contextlib.suppress(OSError):
            for line in (self._root / "proc/self/cgroup").read_text().splitlines():
                number, controllers, path = line.split(":", 2)
                if number == "0" and not controllers:
                    top = self._root / "sys/fs/cgroup"
                elif controller in controllers.split(","):
                    top = self._root / "sys/fs/cgroup" / controller
                else:
                    continue
                # In a container the path may be one of the machine outside, and the container's files are at the top.
                within = pathlib.PurePosixPath(path.lstrip("/"))
                for folder in (within, *within.parents):
                    yield top / folder


def _quota(folder: pathlib.Path) -> float | None:
    """Processors that the group may use; None: any number."""
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        found = math.inf if quota == "max" else int(quota) / int(period)
        return found if found > 0 else None  # version 1 says -1 for no limit
    return None


def _field(file: pathlib.Path, name: str) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            words = line.split()
            if len(words) == 2 and words[0] == name:
                return int(words[1])
    return None
