# SPDX-License-Identifier: Apache-2.0
"""docs/privacy.md: losses with secure sums and without."""

import registry

page = registry.Page("privacy")
page.not_measured("trainings with noise that nobody can draw again; the page has their commands", "| digits, epsilon 3 |")
page.not_measured("accountants of others beside ours; python/tests/middle/test_privacy.py compares",
                  "| accountant | how |", "| noise | sample | steps |")
page.not_measured("trainings with noise, and a program of others; python/bench/private.py runs both", "| | accuracy of 5 seeds, % |")
page.not_measured("masks beside Flower's; bench/masks.py prints it", "| ns a number and neighbour |")
page.not_measured("rounds on a machine that has to have nothing else to do; tarry-secure-round runs them",
                  "| workers | rounds | plain, s |")
page.not_measured("tests/unit/cli/test_privacy_audit.c and python/tests/training/test_private_audit.py print them", "| | claimed epsilon, delta |")

WORKERS = ["--processes", "--workers", 8, "--chunks", 8]
SEEDS = range(1, 4)


def trainings(tarry):
    a9a, digits = (tarry.needed(name) for name in ("a9a.t", "t10k-images-idx3-ubyte.gz"))
    yield ("a9a's test set, logistic, adam 0.01, 200 rounds",
           ["--data", a9a, "--test", a9a, "--rounds", 200, "--optimizer", "adam", "--rate", 0.01])
    yield ("digits (MNIST's test set), perceptron of 64, gd 0.2, 100 rounds",
           ["--data", digits, "--test", digits, "--model", "perceptron", "--hidden", 64, "--rounds", 100, "--rate", 0.2])


@page.table("secure-losses")
def secure_losses(tarry):
    """The server has no training samples: what it tests on are the same ones."""
    rows = []
    for name, options in trainings(tarry):
        plain, secure = ([tarry.report(*WORKERS, *options, *form, "--seed", seed)["final"]["test_loss"] for seed in SEEDS]
                         for form in ([], ["--secure"]))
        most = max(abs(one / other - 1) for one, other in zip(secure, plain))
        rows.append([name, f"{sum(plain) / len(plain):.5f}", f"{sum(secure) / len(secure):.5f}", f"{most:.0e}"])
    return ["data and model", "loss without", "with `--secure`", "apart, at most"], rows
