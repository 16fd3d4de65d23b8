# SPDX-License-Identifier: Apache-2.0
"""tarry privacy: figures, what is missing, outputs."""

import json
import math

from harness import TarryTest

MECHANISM = ["--sample", "0.04", "--rounds", "2250"]

TEXT = """\
noise                 1.5 of the sensitivity
rounds                2,250, each example in a batch with probability 0.04
delta                 1e-05
epsilon               6.7688
  by the losses       6.7688 (pld)
  by divergences      7.3291 (rdp)
"""


class Privacy(TarryTest):
    def test_golden_text(self):
        self.assertEqual(self.succeed("privacy", "--noise", "1.5", *MECHANISM), TEXT)

    def test_noise_for_an_epsilon_costs_that_epsilon(self):
        self.succeed("privacy", "--epsilon", "3", *MECHANISM, "--accountant", "rdp", "--report", "r.json")
        report = json.loads(self.read("r.json"))
        self.assertLessEqual(report["epsilon"], 3)
        self.assertAlmostEqual(report["epsilon"], 3, delta=1e-3)
        self.assertEqual(report["epsilon"], report["epsilon_rdp"])
        self.assertLess(report["epsilon_pld"], report["epsilon_rdp"])
        self.succeed("privacy", "--noise", str(report["noise"]), *MECHANISM, "--accountant", "rdp", "--report", "s.json")
        self.assertEqual(json.loads(self.read("s.json"))["epsilon"], report["epsilon"])

    def test_little_noise_is_not_free(self):
        """Exponents overflowed below 0.022, and epsilon was 0: all examples in one round cost 1 / (2 noise^2) at least."""
        for noise in (0.001, 0.003, 0.01, 0.02, 0.022, 0.05):
            for sample in ("1", "0.01"):
                with self.subTest(noise=noise, sample=sample):
                    self.succeed("privacy", "--noise", str(noise), "--sample", sample, "--rounds", "10", "--report", "r.json")
                    report = json.loads(self.read("r.json"))
                    for name in ("epsilon", "epsilon_pld", "epsilon_rdp"):
                        self.assertGreater(report[name], 1 / (2 * noise * noise), name)

    def test_noise_for_a_large_epsilon_is_not_the_least(self):
        for accountant in ("best", "pld", "rdp"):
            self.succeed("privacy", "--epsilon", "2000", "--sample", "1", "--rounds", "1", "--accountant", accountant,
                         "--report", "r.json")
            report = json.loads(self.read("r.json"))
            self.assertGreater(report["noise"], 1 / math.sqrt(2 * 2000))
            self.assertLess(report["noise"], 0.02)
            self.assertTrue(1980 < report["epsilon"] <= 2000, report)

    def test_what_is_missing_or_too_much_is_one_line(self):
        for arguments, line in (
            (MECHANISM, "privacy: --noise or --epsilon is needed"),
            (["--noise", "1", "--epsilon", "1", *MECHANISM], "--noise: not with --epsilon, which asks for it"),
            (["--noise", "1", "--rounds", "3"], "privacy: --sample is needed"),
            (["--noise", "1", "--sample", "1"], "privacy: --rounds is needed"),
            (["--noise", "0", *MECHANISM], "--noise: 0 is not in the range 0.001 to 1e+06"),
            (["--noise", "1", "--sample", "2", "--rounds", "1"], "--sample: 2 is not in the range 0 to 1"),
            (["--niose", "1", *MECHANISM], "--niose: unknown option (did you mean --noise?)"),
        ):
            with self.subTest(arguments=arguments):
                self.fail_with(2, f"tarry: {line}", "privacy", *arguments)

    def test_no_noise_may_be_enough(self):
        self.fail_with(1, "tarry: privacy: no noise up to 1e6 gives epsilon 1e-09 with delta 1e-10", "privacy",
                       "--epsilon", "1e-9", "--sample", "1", "--rounds", "1e12", "--delta", "1e-10")
        self.assertEqual(self.files(), [])
