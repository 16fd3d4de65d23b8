# SPDX-License-Identifier: Apache-2.0
"""docs/experiments.md: what examples/experiments.sh leaves, as the page has it."""

import json
import os
import pathlib
import shutil

import claims
import forms
import registry
import runner

page = registry.Page("experiments")
page.not_measured("the settings", "| | here |")

SCRIPT = str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "experiments.sh")


def experiment(tarry, name):
    """The folder with the reports and plots of one experiment, made once."""
    folder = os.path.join(tarry.keep or tarry.folder.name, f"experiment-{name}")
    done = os.path.join(folder, f"of-{tarry.digest()}")
    if not os.path.exists(done):
        run = tarry.call([SCRIPT, "-t", tarry.tarry, "-d", os.path.join(tarry.data, "traces"), name, folder])
        if run.returncode == 77:
            raise runner.Missing(run.stderr.strip())
        if run.returncode != 0:
            raise runner.Failed(run.stderr.strip())
        pathlib.Path(done).touch()
    return folder


def results(tarry, name, report):
    with open(os.path.join(experiment(tarry, name), f"{report}.json")) as file:
        return json.load(file)["results"]


def error_text(error):
    return "1" if error == 1 else forms.short(error)


def errors(tarry, spec, report, deadlines):
    """Mean errors at some deadlines; what isn't said again stands empty."""
    curves = {(row["scheme"], row["parts"]): {round(point["deadline"], 3): point["mean"] for point in row["error"]}
              for row in results(tarry, "error", report)}
    rows = []
    for scheme in ("whole workers", "partial"):
        for parts in (1, 2, 4):
            at = [error_text(curves[scheme, parts][deadline]) for deadline in deadlines]
            rows.append([spec * (not rows), scheme * (parts == 1), parts, *at])
    first, *others = deadlines
    return ["times", "credit", "l", f"T = {first} s", *(f"{other} s" for other in others)], rows


@page.table("errors-exp")
def errors_exp(tarry):
    return errors(tarry, "Exp(1)", "error-exp", (2.3, 4.6, 6.9, 9.1))


@page.table("errors-shifted-exp")
def errors_shifted_exp(tarry):
    return errors(tarry, "1 + Exp(1)", "error-shifted-exp", (3.5, 6.9, 10.3, 13.7))


@page.table("times")
def times(tarry):
    rows = []
    for report, size in (("difference", "m = N = 200"), ("wide", "m = 200, N = 400"), ("projective", "m = N = 228"),
                         ("affine", "m = 224, N = 196")):
        cases = {}
        for row in results(tarry, "time", f"time-{report}"):
            time = row["time"]
            failed = f" ({row['failed']} failed)" if row["failed"] else ""
            cases.setdefault(row["scheme"], []).append(f"{time['mean']:.2f} ± {time['sd']:.2f}{failed}")
        for number, (scheme, cells) in enumerate(cases.items()):
            rows.append([size * (number == 0), *scheme.split(), *cells])
    return ["size", "design", "order", "l = 1", "2", "3", "4"], rows


@page.table("limits", clock_rows="second|memory")
def limits(tarry):
    return tarry.collected([claims.simulation_times, claims.simulation_errors, claims.simulation_speed])


@page.drawing("error-exp.svg", "error-shifted-exp.svg")
def errors_over_deadlines(tarry, folder):
    for name in "error-exp.svg", "error-shifted-exp.svg":
        copy(tarry, "error", name, folder)


@page.drawing("time-difference.svg")
def times_over_parts(tarry, folder):
    copy(tarry, "time", "time-difference.svg", folder)


def copy(tarry, name, plot, folder):
    source = os.path.join(experiment(tarry, name), plot)
    if not os.path.exists(source):
        raise runner.Missing("no gnuplot")
    shutil.copyfile(source, os.path.join(folder, plot))
