# SPDX-License-Identifier: Apache-2.0
"""Folders for machines, on loopback: what a page or a file of deploy/ says is run there as it stands, but for names."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

from harness import TARRY, TarryTest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
PATIENCE = 120

# scp -rp FROM HOST:TO, between the folders of machines.
SCP = """#!/bin/sh
set -eu
[ "$1" = -rp ] && [ $# -eq 3 ]
cp -rp "$2" "$MACHINES/${3%%:*}/${3#*:}"
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


class MachinesTest(TarryTest):
    """Commands find `tarry` and `scp` by PATH, and run in sessions of their own, which are ended with the test."""

    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.programs = os.path.join(self.folder, "programs")
        os.mkdir(self.programs)
        os.symlink(TARRY, os.path.join(self.programs, "tarry"))
        self.write("programs/scp", SCP)
        os.chmod(os.path.join(self.programs, "scp"), 0o755)

    def machine(self, name):
        path = os.path.join(self.folder, name)
        os.makedirs(path, exist_ok=True)
        return path

    def environment(self):
        return dict(super().environment(), MACHINES=self.folder, PATH=self.programs + ":" + os.environ["PATH"])

    def launch(self, machine, shell, script, **environment):
        process = subprocess.Popen(
            [shell, "-c", script],
            cwd=self.machine(machine),
            env=dict(self.environment(), **environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        """Whatever is left of it, and of what it started."""
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.communicate()

    def wait(self, process, expected=0):
        out, _ = process.communicate(timeout=PATIENCE)
        if expected is not None:
            self.assertEqual(process.returncode, expected, out)
        return out

    def await_that(self, is_so, process):
        """Waits for what must come about while the process runs."""
        limit = time.monotonic() + PATIENCE
        while not is_so():
            if process.poll() is not None or time.monotonic() > limit:
                out = process.communicate()[0] if process.poll() is not None else "it still runs"
                self.fail(f"in vain: {out}")
            time.sleep(0.02)

    def await_file(self, path, process):
        self.await_that(lambda: os.path.exists(os.path.join(self.folder, path)), process)

    def events(self, log):
        """The whole lines of a log so far; none of one that isn't there."""
        try:
            return [json.loads(line) for line in self.read(log).splitlines(keepends=True) if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def rounds(self, log):
        return sum(event["event"] == "round" for event in self.events(log))

    def report(self, path):
        return json.loads(self.read(path))

    def copy(self, source, target):
        shutil.copy(DEPLOY / source, os.path.join(self.folder, target))
