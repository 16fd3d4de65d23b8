# SPDX-License-Identifier: Apache-2.0
"""Options that earlier versions had say what to use instead, on the command line, in job files and in schemes."""

import unittest

from harness import TarryTest, main


class Gone(TarryTest):
    def test_leaving_early(self):
        said = "early: no longer exists; use --sum everywhere to make sums faster where vectors take long"
        for command in "train", "serve", "simulate", "plan":
            self.fail_with(2, f"tarry: --{said}", command, "--early", "yes")
            self.fail_with(2, f"tarry: --{said}", command, "--early=no")
        self.fail_with(2, f"tarry: --scheme: tarry:early=yes: {said}", "simulate", "--scheme", "tarry:early=yes")
        self.write("job.ini", "early = yes\n")
        self.fail_with(2, f"tarry: job.ini:1: {said}", "train", "--config", "job.ini")


if __name__ == "__main__":
    unittest.TestCase.maxDiff = None
    main()
