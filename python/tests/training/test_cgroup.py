# SPDX-License-Identifier: Apache-2.0
"""What a control group allows, as the kernel's files say it, in both versions and inside containers."""

import os
import pathlib

import pytest

from tarry.run.cgroup import ControlGroups
from tarry.run.process import explain

HERE = float(len(os.sched_getaffinity(0)))


def groups(root: pathlib.Path, member: str, files: dict[str, str]) -> ControlGroups:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(member)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return ControlGroups(root)


@pytest.mark.parametrize(
    ("member", "files", "processors"),
    [
        ("0::/\n", {}, HERE),
        ("0::/a/b\n", {"sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, HERE),
        ("0::/a/b\n", {"sys/fs/cgroup/a/b/cpu.max": "50000 100000\n"}, 0.5),
        ("0::/a/b\n", {"sys/fs/cgroup/a/cpu.max": "50000 100000\n",
                       "sys/fs/cgroup/a/b/cpu.max": "90000 100000\n"}, 0.5),
        # A container without a namespace of its own sees its files at the top.
        ("0::/docker/12ab\n", {"sys/fs/cgroup/cpu.max": "25000 50000\n"}, 0.5),
        ("4:cpu,cpuacct:/a\n0::/\n", {"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "-1\n",
                                     "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n"}, HERE),
        ("4:cpu,cpuacct:/a\n0::/\n", {"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "75000\n",
                                     "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n"}, 0.75),
        ("0::/\n", {"sys/fs/cgroup/cpu.max": "what is this\n"}, HERE),
        ("0::/\n", {"sys/fs/cgroup/cpu.max": f"{HERE * 100000 + 100000:.0f} 100000\n"}, HERE),
    ],
)  # fmt: skip
def test_processors(tmp_path: pathlib.Path, member: str, files: dict[str, str], processors: float) -> None:
    assert groups(tmp_path, member, files).processors() == processors


@pytest.mark.parametrize(
    ("member", "files", "kills"),
    [
        ("0::/\n", {"proc/vmstat": "nr_free_pages 5\noom_kill 3\n"}, 3),
        ("0::/a\n", {"sys/fs/cgroup/a/memory.events": "low 0\noom 4\noom_kill 2\n", "proc/vmstat": "oom_kill 9\n"}, 2),
        ("4:memory:/a\n", {"sys/fs/cgroup/memory/a/memory.oom_control": "under_oom 0\noom_kill 7\n"}, 7),
        ("0::/\n", {}, 0),
    ],
)
def test_out_of_memory_kills(tmp_path: pathlib.Path, member: str, files: dict[str, str], kills: int) -> None:
    assert groups(tmp_path, member, files).out_of_memory_kills() == kills


def test_ends_in_words() -> None:
    assert explain(-9) == "was killed by signal 9 (SIGKILL)"
    assert explain(-9, out_of_memory=True) == "was killed by the kernel's OOM killer: memory ran out"
    assert explain(-200) == "was killed by signal 200"
    assert explain(3) == "ended with status 3"
