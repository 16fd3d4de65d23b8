# SPDX-License-Identifier: Apache-2.0
"""Limits of the system: memory, threads and open files that a run does not have. It ends at once and names the limit."""

import subprocess

from harness import TARRY, TarryTest

SECONDS = 60  # far less than a server waits for workers, and more than a busy machine takes to say no


class Limits(TarryTest):
    def limit_space(self, kilobytes):
        """The option of ulimit; a sanitized binary needs terabytes of address space, and is not tested so."""
        done = subprocess.run(["sh", "-c", f'ulimit -v {kilobytes} && exec "$@"', "sh", TARRY, "--version"],
                              env=self.environment(), capture_output=True, text=True, timeout=SECONDS)
        if "Sanitizer" in done.stderr:
            self.skipTest("the binary is sanitized")
        return f"-v {kilobytes}"

    def refuse(self, limit, pattern, *arguments):
        """With `ulimit LIMIT` it ends with status 1 and one line."""
        done = subprocess.run(["sh", "-c", f'ulimit {limit} && exec "$@"', "sh", TARRY, "train", "--quiet", *arguments],
                              cwd=self.folder, env=self.environment(), capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertRegex(done.stderr, rf"^tarry: train: {pattern}\n$")

    def test_too_few_open_files_for_processes(self):
        self.refuse("-n 16", r"a server of 8 workers opens up to 96 files at once, and 16 are allowed \(ulimit -n\); "
                             r"allow more, or use fewer workers", "--processes")

    def test_too_little_address_space_for_threads(self):
        self.refuse(self.limit_space(400000), r"64 workers take 128 threads, and \d+ are allowed \(ulimit -v, .*", "--workers", "64")

    def test_a_run_without_memory_ends(self):
        """OpenBLAS's threads ask for memory until they have it, and the end of a process waits for them."""
        self.limit_space(100000)
        done = subprocess.run(["sh", "-c", 'ulimit -v 100000 && exec "$@"', "sh", TARRY, "train", "--workers", "1",
                               "--chunks", "1", "--replication", "1", "--samples", "100000", "--features", "1000"],
                              cwd=self.folder, env=self.environment(), capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("memory", done.stderr)

    def test_too_many_workers_are_refused_before_anything_is_made(self):
        take = r" take [\d,]+ threads, and [\d,]+ are allowed \(.*\); use fewer workers, or allow more"
        self.fail_like(1, "tarry: train: 1000000 workers" + take, "train", "--workers", "1000000")
        self.fail_like(1, "tarry: train: 1000000 workers" + take, "train", "--workers", "1000000", "--processes")
