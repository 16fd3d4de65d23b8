# SPDX-License-Identifier: Apache-2.0
"""What the tests of the built binary share: a folder of their own, and runs of tarry in it."""

import os
import re
import signal
import subprocess
import tempfile
import unittest

TARRY = os.path.abspath(os.environ["TARRY"])
TIMEOUT = 300  # seconds, after which a command hangs

# Signals do what they do to a terminal's programs, even where the tests run in the background or under nohup.
for number in (signal.SIGHUP, signal.SIGINT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)


class TarryTest(unittest.TestCase):
    maxDiff = None
    program = TARRY

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tarry-cli-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, content):
        """A file in the test's folder; gives back its name, which is relative to that folder."""
        mode = "wb" if isinstance(content, bytes) else "w"
        with open(os.path.join(os.fsencode(self.folder), os.fsencode(name)), mode) as file:
            file.write(content)
        return name

    def read(self, name, mode="r"):
        with open(os.path.join(self.folder, name), mode) as file:
            return file.read()

    def files(self):
        return sorted(os.listdir(self.folder))

    def environment(self):
        return dict(os.environ, LC_ALL="C")

    def start(self, *arguments):
        return subprocess.Popen(
            [self.program, *arguments],
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run_tarry(self, *arguments):
        process = self.start(*arguments)
        try:
            process.out, process.err = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        return process

    def succeed(self, *arguments):
        """Runs to the end with status 0; gives back stdout."""
        done = self.run_tarry(*arguments)
        self.assertEqual((done.returncode, done.err), (0, done.err), arguments)
        return done.out

    def fail_with(self, status, line, *arguments):
        """Ends with this status and exactly this line on stderr, and says nothing else."""
        done = self.run_tarry(*arguments)
        self.assertEqual((done.returncode, done.out, done.err), (status, "", line + "\n"))

    def fail_like(self, status, pattern, *arguments):
        """The same with a line that matches a pattern from its start to its end."""
        done = self.run_tarry(*arguments)
        self.assertEqual((done.returncode, done.out), (status, ""), done.err)
        self.assertTrue(re.fullmatch(pattern + "\n", done.err), f"{done.err!r} is not {pattern!r}")


def main():
    unittest.main()
