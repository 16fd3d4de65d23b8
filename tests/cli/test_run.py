# SPDX-License-Identifier: Apache-2.0
"""tarry run goes on as the Python package; what it says where there is none."""

import os
import sys

from harness import TarryTest


class Run(TarryTest):
    def python(self, script):
        """Puts a shell script in the place of python3, and nothing else in PATH."""
        name = self.write("python3", f"#!/bin/sh\n{script}\n")
        os.chmod(os.path.join(self.folder, name), 0o755)

    def environment(self):
        return dict(super().environment(), PATH=self.folder, PYTHONPATH=os.path.join(self.folder, "packages"))

    def package(self, text):
        os.makedirs(os.path.join(self.folder, "packages", "tarry"))
        self.write("packages/tarry/__init__.py", "")
        self.write("packages/tarry/__main__.py", text)

    def test_it_goes_on_as_the_command_of_the_package(self):
        self.python(f"exec {sys.executable} \"$@\"")
        self.package("def main(words):\n    print(words)\n    return 7\n")
        done = self.run_tarry("run", "-n", "2", "a b.py", "--help")
        self.assertEqual((done.returncode, done.out, done.err), (7, "['run', '-n', '2', 'a b.py', '--help']\n", ""))

    def test_files_of_the_current_folder_hide_no_module(self):
        self.python(f"exec {sys.executable} \"$@\"")
        self.package("import queue\n\ndef main(words):\n    print(queue.Queue().qsize())\n")
        self.write("queue.py", "raise SystemExit('the wrong one')")
        self.assertEqual(self.succeed("run"), "0\n")

    def test_no_package(self):
        self.python(f"exec {sys.executable} -I -S \"$@\"")
        self.fail_like(1, r"tarry: run: /.*python.* does not have the Python package tarry: see tarry-run\(1\)", "run")

    def test_a_module_that_the_package_misses_is_named(self):
        self.python(f"exec {sys.executable} \"$@\"")
        self.package("import no_such_module\n")
        done = self.run_tarry("run")
        self.assertEqual(done.returncode, 1)
        self.assertIn("No module named 'no_such_module'", done.err)

    def test_no_python(self):
        self.fail_with(1, "tarry: run: python3: No such file or directory: see tarry-run(1)", "run")
