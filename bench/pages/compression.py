# SPDX-License-Identifier: Apache-2.0
"""docs/compression.md: seconds and bytes of a round by the form of coded parts, beside parts, and what rounding does to losses."""

import itertools
import tempfile

import rare_features
import registry
from pages import parts

page = registry.Page("compression")
page.not_measured("the forms", "| form | bytes a number |", "| form | bytes a number, with all that goes around it |")
page.not_measured("python/bench/adam.py prints the rows; it needs PyTorch", "| digits with adam, a model of the training | bytes |",
                  "| digits with adam, to a rate of 0 | bytes |")
page.not_measured("python/bench/powersgd.py prints the rows; it needs PyTorch", "| small GPT, 60 steps | bytes |", "| digits, 300 steps | bytes |",
                  "| small GPT, to a rate of 0 | bytes |")
page.not_measured("trials of one seed, of a model that is not kept", "| topk:0.01, a GPT | AdamW |")
page.not_measured("bench/shaped.py prints the rows; it needs namespaces of the network's", "| link | sums | TCP |")

SCHEMES = {"`--parts 1`": "partial:parts=1", "`--parts 3`": "partial:parts=3",
           "`--compress bf16`": "partial:compress=bf16", "`--compress int8`": "partial:compress=int8",
           "`--compress int4`": "partial:compress=int4", "`--compress topk:0.01`": "partial:compress=topk:0.01",
           "`--parts 3 --compress-down int8`": "partial:parts=3,compress-down=int8",
           "`--compress int8 --compress-down bf16`": "partial:compress=int8,compress-down=bf16",
           "`--compress int8 --compress-down int8`": "partial:compress=int8,compress-down=int8"}
SEEDS = range(1, 6)
TRAINING = ["--workers", 8, "--chunks", 8, "--reproducible", "--holdout", 0.2, "--batch", 512]


@page.table("links")
def links(tarry):
    options = [*parts.JOB, *parts.STATIC, "--straggler", parts.SHIFTED, *parts.own("10 MB/s"), "--scheme",
               ",".join(SCHEMES.values())]
    down, without = tarry.results(*options), tarry.results(*options, "--parameter-bytes", 0)
    return ["", "with the parameters' way down", "without", "bytes of all parts"], [
        [name, *(f"{parts.mean(results[i], 'seconds'):.2f} s" for results in (down, without)),
         f"{down[i]['upload_bytes'] / 1e6:.0f} MB"]
        for i, name in enumerate(SCHEMES)]


def trainings(tarry):
    digits = ["--data", tarry.needed("t10k-images-idx3-ubyte.gz"), "--model", "perceptron", "--hidden", 64, "--rounds", 300]
    yield ("a9a's test set, logistic, adam 0.01, 200 rounds",
           ["--data", tarry.needed("a9a.t"), "--rounds", 200, "--optimizer", "adam", "--rate", 0.01])
    yield "digits (MNIST's test set), perceptron of 64, gd 0.2, 300 rounds", [*digits, "--rate", 0.2]
    yield "the same with adam 0.003, to a loss of 0.07", [*digits, "--optimizer", "adam", "--rate", 0.003]


def spread(reports, plain, key):
    apart = [report["final"][key] / other["final"][key] - 1 for report, other in zip(reports, plain)]
    return f"{min(apart):.1e} .. {max(apart):.1e}"


def sent(reports):
    return sum(row["upload_bytes"] for report in reports for row in report["rounds"])


@page.table("losses")
def losses(tarry):
    rows = []
    for name, options in trainings(tarry):
        plain, half, byte = ([tarry.report(*TRAINING, *options, "--compress", form, "--seed", seed) for seed in SEEDS]
                             for form in ("none", "bf16", "int8"))
        rows.append([name, f"1/{sent(plain) / sent(byte):.2f}", spread(byte, plain, "loss"), spread(half, plain, "loss")])
    return ["data and model", "bytes of int8", "int8's loss over float32's, less 1", "bf16's"], rows


BOTH_WAYS = ["--compress", "int8", "--compress-down", "int8"]


@page.table("down")
def down(tarry):
    rows = []
    for name, options in itertools.islice(trainings(tarry), 2):
        plain, both = ([tarry.report(*TRAINING, *options, *form, "--seed", seed) for seed in SEEDS[:3]]
                       for form in ([], BOTH_WAYS))
        rows.append([name, spread(both, plain, "loss")])
    return ["data and model", "loss over float32's, less 1"], rows


FED_BACK = ("int4", "topk:0.1", "topk:0.01")


@page.table("feedback")
def feedback(tarry):
    rows = []
    for name, options in trainings(tarry):
        plain, *forms = ([tarry.report(*TRAINING, *options, "--compress", form, "--seed", seed) for seed in SEEDS]
                         for form in ("none", *FED_BACK))
        rows.append([name, *(f"1/{sent(plain) / sent(form):.1f}: {spread(form, plain, 'loss')}" for form in forms)])
    return ["data and model", *(f"`{form}`" for form in FED_BACK)], rows


SCALED = ("bf16", "int8", "int4", "sign", "topk:0.1", "topk:0.01")


@page.table("rare")
def rare(tarry):
    options = ["--rounds", 200, "--optimizer", "adam", "--rate", 0.01]
    with tempfile.NamedTemporaryFile("w", suffix=".svm") as file:
        rare_features.write(1, file)
        file.flush()
        columns = []
        for data in (tarry.needed("a9a.t"), file.name):
            plain, *forms = ([tarry.report(*TRAINING, *options, "--data", data, "--compress", form, "--seed", seed)
                              for seed in SEEDS[:3]] for form in ("none", *SCALED))
            columns.append([spread(form, plain, "loss") for form in forms])
    return ["form", "a9a's test set", "rare features"], [[f"`{form}`", *row] for form, *row in zip(SCALED, *columns)]


def in_rounds(options, rounds):
    place = options.index("--rounds") + 1
    return [*options[:place], rounds, *options[place + 1:]]


ANCHORED = ("sign", "topk:0.105", "int4", "int8")
ROUNDED_DOWN = ["--compress-down", "int8"]


def both_ways(reports):
    """The bytes of coded parts, and of as many parameters in int8."""
    return sent(reports) + sum(len(report["rounds"]) * report["plan"]["workers"] * report["dimension"] * 260 // 256 for report in reports)


@page.table("anchor")
def anchor(tarry):
    rows = []
    for name, options in itertools.islice(trainings(tarry), 2):
        rounds = options[options.index("--rounds") + 1]
        plain = [tarry.report(*TRAINING, *options, "--seed", seed) for seed in SEEDS]
        for counted, count, down in ("coded parts", sent, []), ("both ways", both_ways, ROUNDED_DOWN):
            def each(form, rounds, seeds=SEEDS, options=options, down=down):
                return [tarry.report(*TRAINING, *in_rounds(options, rounds), "--compress", form, *down, "--seed", seed)
                        for seed in seeds]

            of_ten = {form: count(each(form, 10, SEEDS[:1])) for form in ANCHORED}
            enough = {form: rounds * of_ten["sign"] // of_ten[form] for form in ANCHORED}
            rows.append([name, counted, *(f"{enough[form]}: {spread(each(form, enough[form]), plain, 'loss')}" for form in ANCHORED)])
    return ["data and model", "bytes counted", *(f"`{form}`" for form in ANCHORED)], rows
