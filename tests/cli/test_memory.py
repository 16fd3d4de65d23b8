# SPDX-License-Identifier: Apache-2.0
"""Resident memory of a long training does not grow with its rounds, in any of its processes."""

import json
import os
import re
import subprocess

from harness import TARRY, TarryTest

SMALL = ["train", "--workers", "2", "--chunks", "2", "--pieces", "1", "--replication", "2", "--samples", "20",
         "--features", "5", "--silence", "60"]
MOST_KB = 1024
WARM_ROUNDS = 1000


def resident_kb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1])


def family(pid):
    """The process and its children."""
    found = [pid]
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as children:
            found += [int(child) for child in children.read().split()]
    return found


class Memory(TarryTest):
    def growth(self, rounds, *arguments):
        """Of each process, between its first and its last look after WARM_ROUNDS rounds."""
        first, last = {}, {}
        words = [TARRY, *SMALL, "--rounds", str(rounds), *arguments]
        with subprocess.Popen(words, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True) as process:
            for line in process.stderr:
                told = re.match(r"round (\d+)/", line)
                if told is None or int(told[1]) < WARM_ROUNDS:
                    continue
                try:
                    for one in family(process.pid):
                        kb = resident_kb(one)
                        first.setdefault(one, (int(told[1]), kb))
                        last[one] = int(told[1]), kb
                except (OSError, TypeError):  # it has just ended
                    continue
        self.assertEqual(process.returncode, 0)
        seen = min(last[one][0] - first[one][0] for one in first)
        self.assertGreater(seen, rounds // 4, "the rounds went by unseen")
        return [last[one][1] - first[one][1] for one in first]

    def test_threads_with_all_files(self):
        """The rounds are in files. The report has all of them, too."""
        grown = self.growth(16000, "--evaluate", "1000", "--report", "report.json", "--checkpoint", "run.ck",
                            "--checkpoint-every", "5000")
        self.assertLess(max(grown), MOST_KB)
        report = json.loads(self.read("report.json"))
        self.assertEqual([one["round"] for one in report["rounds"]], list(range(16000)))
        self.assertAlmostEqual(sum(one["seconds"] for one in report["rounds"]), report["final"]["round_seconds"],
                               places=6)
        self.assertEqual(self.files(), ["report.json", "run.ck", "run.ck.history", "run.ck.previous"])

    def test_processes_with_sums_everywhere(self):
        self.assertLess(max(self.growth(5000, "--processes", "--sum", "everywhere")), MOST_KB)
