# SPDX-License-Identifier: Apache-2.0
"""Job files: the keys are the flags' names, flags win, and faults are named with file and line."""

import json

from harness import TarryTest


class JobFile(TarryTest):
    def plan(self, content, *flags):
        self.write("job.ini", content)
        return json.loads(self.succeed("plan", "--json", "--config", "job.ini", *flags))

    def fails(self, content, line):
        self.write("job.ini", content)
        self.fail_with(2, "tarry: " + line, "plan", "--config", "job.ini")

    def test_keys_are_flags(self):
        plan = self.plan("# a job\nworkers = 6\n\n  chunks=12 ; more chunks\npieces=1\norder = as-is\n")
        self.assertEqual((plan["workers"], plan["chunks"], plan["order"]), (6, 12, "as-is"))

    def test_flags_win_wherever_they_stand(self):
        self.write("job.ini", "workers = 6\nreplication = 2\n")
        for arguments in (["--workers", "7", "--config", "job.ini"],
                          ["--config", "job.ini", "--workers", "7"]):
            plan = json.loads(self.succeed("plan", "--json", *arguments))
            self.assertEqual((plan["workers"], plan["replication"]), (7, 2))

    def test_what_a_flag_overrides_is_checked_all_the_same(self):
        self.write("job.ini", "workers = nonsense\n")
        self.fail_with(2, "tarry: job.ini:1: workers: 'nonsense' is not a whole number", "plan", "--config", "job.ini",
                       "--workers", "7")

    def test_switches_take_true_or_false(self):
        self.assertIn("assignment", self.plan("show = true\n"))
        self.assertNotIn("assignment", self.plan("show = no\n"))
        self.fails("show = maybe\n", "job.ini:1: show: 'maybe' is neither true nor false")

    def test_faults_have_file_and_line(self):
        self.fails("\nworkrs = 3\n", "job.ini:2: workrs: unknown key (did you mean workers?)")
        self.fails("frobnicate = 3\n", "job.ini:1: frobnicate: unknown key")
        self.fails("config = job.ini\n", "job.ini:1: config: unknown key")
        self.fails("chunks = 4\nworkers = 3\0\n", "--config: job.ini:2: a NUL byte")
        self.fails("\0\0", "--config: job.ini:1: a NUL byte")
        self.fails("chunks = 4\nworkers = x\n", "job.ini:2: workers: 'x' is not a whole number")
        self.fails("order = best\n",
                   "job.ini:1: order: 'best' is not one of optimal, random, as-is, dynamic")
        self.fails("workers\n", "--config: job.ini:1: not of the form 'key = value'")
        self.fails("workers = 3\n[more]\nchunks = 3\n", "--config: job.ini:2: [more]: sections have no meaning here")

    def test_long_lines_are_read_whole(self):
        self.assertEqual(self.plan(f"workers = {' ' * 3000}6 ; {'x' * 3000}\nchunks = 12")["workers"], 6)

    def test_settings_are_checked_against_each_other(self):
        self.fails("workers = 2\nchunks = 2\nreplication = 3\n", "--replication: 3 is more than --workers 2")

    def test_a_missing_file(self):
        self.fail_with(1, "tarry: --config: job.ini: No such file or directory",
                       "plan", "--config", "job.ini")
