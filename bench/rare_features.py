#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a LIBSVM file whose features are common to rare: the j-th of 126 is in a share of the samples that falls from 1/2 to
1/2000, so that the gradient's numbers span three orders of magnitude (docs/compression.md).

    rare_features.py SEED >FILE
"""

import math
import random
import sys

SAMPLES, FEATURES = 16000, 126


def write(seed, file):
    draws = random.Random(seed)
    share = [0.5 * 10 ** (-3 * j / (FEATURES - 1)) for j in range(FEATURES)]
    weight = [draws.gauss(0, 1.5) for _ in range(FEATURES)]
    for _ in range(SAMPLES):
        there = [j for j in range(FEATURES) if draws.random() < share[j]]
        margin = sum(weight[j] for j in there) + draws.gauss(0, 0.5)
        label = "+1" if draws.random() < 1 / (1 + math.exp(-margin)) else "-1"
        print(label, *(f"{j + 1}:1" for j in there), file=file)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write(int(sys.argv[1]), sys.stdout)
